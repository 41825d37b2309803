"""From a profile to a pair: what is loaded, what is refused, and in which words."""

from __future__ import annotations

import json
from unittest.mock import Mock

import pytest
import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM

from specgen import errors
from specgen.models.load import load_pair
from specgen.profile import ModelSpec, Profile
from tests.families import REFUSED
from tests.models.tiny_files import gguf_file
from tests.pairs import folder
from tests.words import byte_level


def profile(target, draft=None, **settings) -> Profile:
    as_spec = lambda place: place if isinstance(place, ModelSpec) else ModelSpec(str(place))  # noqa: E731
    return Profile("test", as_spec(target), None if draft is None else as_spec(draft), **settings)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return folder(tmp_path_factory.mktemp("models") / "tiny-llama", eos=[2, 5])


def test_a_pair_has_everything_that_generating_needs(llama, tmp_path):
    draft = folder(tmp_path / "tiny-draft", "qwen2", seed=1, max_position_embeddings=64)
    pair = load_pair(profile(ModelSpec(str(llama), dtype="float32"), ModelSpec(str(draft), dtype="bfloat16")))
    assert (pair.target.name, pair.draft.name) == ("tiny-llama", "tiny-draft")
    assert (pair.target.model.dtype, pair.draft.model.dtype) == (torch.float32, torch.bfloat16)
    assert (pair.context, pair.draft.context) == (256, 64)
    assert pair.stop_ids == {2, 5}
    assert (pair.relation.kind, pair.relation.common) == ("same", 300)
    assert pair.describe() == "tiny-llama (float32, cpu) with tiny-draft (bfloat16, cpu)"
    assert not pair.target.model.training


def test_end_of_sequence_comes_from_the_generation_config_or_else_from_config_and_tokenizer(tmp_path):
    assert load_pair(profile(folder(tmp_path / "a", eos=7))).stop_ids == {7}
    assert load_pair(profile(folder(tmp_path / "b", eos=None, eos_token_id=9))).stop_ids == {9, 1}
    (tmp_path / "b" / "generation_config.json").unlink()
    assert load_pair(profile(tmp_path / "b")).stop_ids == {9, 1}


def test_padding_is_no_difference_and_is_never_drafted(llama, tmp_path):
    draft = folder(tmp_path / "padded", vocab_size=384, seed=1)
    pair = load_pair(profile(llama, draft))
    assert (pair.relation.kind, pair.relation.common) == ("same", 300)
    assert (pair.target.vocab_size, pair.draft.vocab_size) == (300, 384)


def test_another_vocabulary_is_named_and_drafted_through(llama, tmp_path):
    draft = folder(tmp_path / "other", tokenizer=byte_level(290, special=("</s>", "<s>")))
    pair = load_pair(profile(llama, draft))
    assert pair.relation.kind == "intersection"
    assert pair.relation.difference == "token 0 is '<s>' to the target, '</s>' to the draft"


def test_the_context_of_a_profile(llama):
    assert load_pair(profile(llama, context=100)).context == 100
    with pytest.raises(errors.UsageError, match="context 300 is more than the 256 positions of tiny-llama"):
        load_pair(profile(llama, context=300))


@pytest.mark.parametrize("name", ["qwen3-next", "mamba", "bloom", "t5"])
def test_what_cannot_roll_back_is_refused_before_its_weights_are_read(tmp_path, name):
    make, reason = REFUSED[name]
    make().save_pretrained(tmp_path)
    byte_level(300).save_pretrained(tmp_path)
    # Weights that any attempt to read would trip over.
    header = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(errors.ModelError, match=reason):
        load_pair(profile(tmp_path))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"device": "cuda:7"}, "device 'cuda:7' is not on this machine"),
        ({"device": "toaster"}, "no kind of device called 'toaster'"),
    ],
)
def test_a_device_that_is_not_there(llama, spec, message):
    with pytest.raises(errors.UsageError, match=message) as caught:
        load_pair(profile(ModelSpec(str(llama), **spec)))
    assert caught.value.hint


def test_damaged_files_are_named(llama, tmp_path):
    damaged = folder(tmp_path / "cut")
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(errors.ModelError, match=r"model\.safetensors"):
        load_pair(profile(damaged))
    (llama_like := folder(tmp_path / "json") / "config.json").write_text("{ not json")
    with pytest.raises(errors.ModelError, match=r"config"):
        load_pair(profile(llama_like.parent))
    (odd := folder(tmp_path / "odd") / "config.json").write_text(json.dumps({"model_type": "unheard-of"}))
    with pytest.raises(errors.ModelError, match="unheard-of"):
        load_pair(profile(odd.parent))


def test_files_for_which_there_is_no_memory_are_not_called_damaged(llama, monkeypatch):
    error = SafetensorError("unable to mmap 1 bytes from file: Cannot allocate memory (12)")
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", Mock(side_effect=error))
    with pytest.raises(SafetensorError):
        load_pair(profile(llama))


def test_a_device_that_is_too_small_ends_as_a_plan_does(llama, monkeypatch):
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", Mock(side_effect=torch.OutOfMemoryError("CUDA")))
    with pytest.raises(errors.SpecgenError, match="does not fit on cpu") as caught:
        load_pair(profile(llama))
    assert caught.value.exit_code == errors.ExitCode.DOES_NOT_FIT


def test_missing_weights_are_named_with_the_places_that_were_searched(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(errors.MissingWeights, match="nobody/nothing-1b") as caught:
        load_pair(profile(ModelSpec("nobody/nothing-1b")), offline=True)
    assert "specgen pull test" in caught.value.hint


def test_a_gguf_file_loads_with_its_tokenizer_and_its_end_of_turn(tmp_path):
    file = gguf_file(tmp_path / "tiny.gguf")
    pair = load_pair(profile(ModelSpec(str(file), dtype="float32")))
    assert pair.target.model.dtype == torch.float32
    assert {pair.tokenizer.convert_ids_to_tokens(i) for i in pair.stop_ids} == {"<|endoftext|>", "<|im_end|>"}
    assert pair.tokenizer.decode(pair.tokenizer("ab\n\n2")["input_ids"]) == "ab\n\n2"
