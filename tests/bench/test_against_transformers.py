"""transformers as arms: the same weights, the same arithmetic, the same text, and specgen's models left alone."""

from __future__ import annotations

import pytest
import torch

from specgen import api
from specgen.bench import against_transformers
from specgen.bench.against_transformers import transformers_arms
from specgen.bench.arms import Job, specgen_arms
from specgen.bench.prompts import Prompt
from specgen.memory.errors import DoesNotFit
from specgen.memory.free import Memory
from specgen.profile import Sampling
from tests.bench.pairs import write_pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return api.load(write_pair(tmp_path_factory.mktemp("pair")))


def job(temperature=0.0, **sampling):
    return Job(Prompt("a", "1", "the quick brown fox"), 12, Sampling(temperature=temperature, **sampling), 3)


@pytest.mark.parametrize("sampling", [{}, {"repetition_penalty": 1.3}])
def test_every_arm_writes_specgens_greedy_text(pair, sampling):
    alone = next(iter(specgen_arms(pair, [])))
    expected = alone.run(job(**sampling))
    arms = list(transformers_arms(pair, (2, 3)))
    assert [arm.name for arm in arms] == ["hf plain", "hf default", "hf 2", "hf 3"]
    for arm in arms:
        arm.begin()
        outcome = arm.run(job(**sampling))
        assert outcome.tokens == expected.tokens, arm.name
        assert (outcome.count, outcome.prompt_tokens) == (12, expected.prompt_tokens)
        assert (outcome.ttft, outcome.decode_seconds, outcome.rounds) == (None, None, ())
        assert outcome.seconds > 0


def test_sampling_runs_and_one_seed_gives_one_text(pair):
    plain, default, *_ = transformers_arms(pair, (2,))
    for arm in (plain, default):
        arm.begin()
        assert arm.run(job(0.8, top_p=0.9, min_p=0.01)).tokens == arm.run(job(0.8, top_p=0.9, min_p=0.01)).tokens


def test_models_are_its_own_in_the_same_arithmetic(pair):
    before = pair.target.model.generation_config
    arms = list(transformers_arms(pair, (2,)))
    for arm in arms:
        arm.begin()
        arm.run(job())
    theirs, ours = arms[0].models.target, pair.target.model
    assert theirs is not ours
    assert theirs.dtype == ours.dtype == torch.float32
    assert theirs.config._attn_implementation == "sdpa"
    assert ours.config._attn_implementation != "sdpa"
    assert pair.target.model.generation_config is before
    embedding = theirs.get_input_embeddings().weight
    assert torch.equal(embedding, ours.get_input_embeddings().weight)
    assert embedding.data_ptr() != ours.get_input_embeddings().weight.data_ptr()


def test_the_default_is_transformers_own_and_the_constants_are_constant(pair):
    _, default, two = transformers_arms(pair, (2,))
    for arm in (default, two):
        arm.begin()
        arm.run(job())
    settings = two.models.draft.generation_config
    assert (settings.num_assistant_tokens, settings.num_assistant_tokens_schedule) == (2, "constant")
    assert settings.assistant_confidence_threshold == 0
    default.run(job())
    assert two.models.draft.generation_config.num_assistant_tokens is None


def test_without_a_draft_there_is_plain_generate_only(tmp_path):
    alone = api.load(write_pair(tmp_path, drafted=False))
    assert [arm.name for arm in transformers_arms(alone)] == ["hf plain"]


def test_models_that_do_not_fit_a_second_time_are_not_loaded(pair, monkeypatch):
    monkeypatch.setattr(against_transformers, "present", lambda names: (Memory(names[0], 1000, 1000, "given"),))
    monkeypatch.setattr(against_transformers, "resident", lambda: 0)
    with pytest.raises(DoesNotFit, match="transformers needs the models once more") as error:
        list(transformers_arms(pair))
    assert "--against transformers" in error.value.hint
