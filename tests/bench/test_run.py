"""Who is measured when, on what, and what becomes of arms and prompts that cannot be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from specgen.bench.prompts import Prompt
from specgen.bench.run import Dropped, Plan, Sample, Started, complete, measure, order
from specgen.errors import ModelError, PromptError
from specgen.profile import ModelSpec, Profile, Sampling
from tests.bench.pairs import PROMPTS, FakeArm, sample
from tests.words import byte_level


def fake_pair(context=100):
    profile = Profile("toy", ModelSpec("t"), sampling=Sampling(top_p=0.9), chat=False)
    target = SimpleNamespace(device=torch.device("cpu"))
    return SimpleNamespace(profile=profile, tokenizer=byte_level(300), context=context, target=target)


def run(arms, plan=None, **settings):
    return list(measure(fake_pair(**settings), arms, plan or Plan(PROMPTS, max_tokens=40, repeats=2, seed=7)))


def test_everybody_runs_everything_once_a_repeat():
    arms = [FakeArm("target alone"), FakeArm("one"), FakeArm("two")]
    events = run(arms)
    found = [(event.arm, event.prompt, event.repeat) for event in events if isinstance(event, Sample)]
    assert sorted(found) == sorted(
        (arm.name, prompt, repeat) for arm in arms for prompt in range(3) for repeat in (1, 2)
    )
    assert [event.number for event in events if isinstance(event, Started) and event.repeat] == list(range(1, 19))
    assert {event.total for event in events if isinstance(event, Started)} == {18}


def test_everybody_gets_the_same_and_warms_up_first():
    arms = [FakeArm("target alone"), FakeArm("one")]
    run(arms, Plan(PROMPTS, max_tokens=40, temperatures=(0.0, 0.8), repeats=2, seed=7))
    for arm in arms:
        assert arm.begun == 2
        assert [job.max_tokens for job in arm.ran] == [32, *[40] * 6] * 2
        assert [job.sampling.temperature for job in arm.ran] == [0.0] * 7 + [0.8] * 7
        assert {job.sampling.top_p for job in arm.ran} == {0.9}
        assert [job.seed for job in arm.ran] == [7, 7, 8, 9, 7, 8, 9] * 2
    assert arms[0].ran == arms[1].ran


def test_the_order_turns_and_is_reversed_every_other_repeat():
    arms = ["a", "b", "c"]
    assert [order(arms, prompt, 1) for prompt in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]
    assert order(arms, 1, 2) == order(arms, 1, 1)[::-1]
    assert order(arms, 1, 3) == order(arms, 1, 1)


def test_over_as_many_prompts_as_arms_everybody_is_as_often_in_every_place():
    arms = list("abcd")
    places = [order(arms, prompt, 1).index(arm) for arm in arms for prompt in range(4)]
    assert sorted(places) == sorted([0, 1, 2, 3] * 4)


def test_a_foreign_arm_that_fails_is_left_out_and_tried_again_at_the_next_temperature():
    def fail(job):
        if job.sampling.temperature:
            raise AttributeError("no such thing\nat all")
        return 1.0

    arms = [FakeArm("target alone"), FakeArm("other", fail, family="transformers")]
    events = run(arms, Plan(PROMPTS, temperatures=(0.8, 0.0), repeats=1))
    (dropped,) = [event for event in events if isinstance(event, Dropped)]
    assert dropped == Dropped("other", "AttributeError: no such thing at all", 0.8)
    samples = [event for event in events if isinstance(event, Sample)]
    assert {(one.temperature, one.arm) for one in samples} == {
        (0.8, "target alone"),
        (0.0, "target alone"),
        (0.0, "other"),
    }
    assert len(complete(samples, ("target alone", "other"), [dropped])) == 9


def test_a_failure_of_specgen_ends_the_measurement():
    def fail(job):
        raise ModelError("broken")

    with pytest.raises(ModelError):
        run([FakeArm("target alone"), FakeArm("one", fail)])


def test_a_prompt_that_does_not_fit_is_left_out():
    plan = Plan((*PROMPTS, Prompt("c", "long", "far " * 100)), repeats=1)
    events = run([FakeArm("target alone")], plan)
    assert [event.what for event in events if isinstance(event, Dropped)] == ["c long"]
    assert {event.prompt for event in events if isinstance(event, Sample)} == {0, 1, 2}
    with pytest.raises(PromptError, match="no prompt fits into the context of 2 tokens"):
        run([FakeArm("target alone")], context=2)


def test_only_what_every_arm_has_done_is_complete():
    samples = [sample(arm, prompt, 1, 1.0) for prompt in (0, 1) for arm in ("x", "y")]
    assert complete(samples, ("x", "y")) == samples
    assert complete(samples[:3], ("x", "y")) == samples[:2]
    assert complete(samples[:1], ("x", "y")) == []
    assert complete(samples[:3], ("x", "y"), [Dropped("y", "gone", 0.0)]) == [samples[0], samples[2]]
