"""The loop against plain decoding, which shares no code with it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specgen.decoding.events import Event, Finished, Notice, Prompted, Round
from specgen.decoding.halt import Halt
from specgen.decoding.lookahead import FixedLookahead, fixed
from specgen.decoding.noise import Noise
from specgen.decoding.proposers import DraftModel
from specgen.decoding.rounds import Task, rounds
from specgen.decoding.sampling import Warper, seen_before
from specgen.errors import PromptError
from specgen.profile import Sampling
from tests.toys import TableModel, plain_greedy

VOCAB = 7


def run(
    target: TableModel,
    task: Task,
    *,
    draft: TableModel | None = None,
    k: int = 0,
    baseline: bool = False,
    halt: Halt | None = None,
    rule: str = "coupled",
) -> list[Event]:
    proposer = None if draft is None else DraftModel(draft, common=min(target.vocab_size, draft.vocab_size))
    return list(rounds(target, task, proposer=proposer, lookahead=fixed(k, baseline=baseline), halt=halt, rule=rule))


def played(events: Sequence[Event]) -> list[Round]:
    return [event for event in events if isinstance(event, Round)]


def tokens(events: Sequence[Event]) -> list[int]:
    return [token for event in played(events) for token in event.tokens]


def finished(events: Sequence[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    assert not any(isinstance(event, Finished) for event in events[:-1])
    return events[-1]


def plain_sampled(model: TableModel, prompt: Sequence[int], count: int, sampling: Sampling, seed: int) -> list[int]:
    """Sampling one token at a time: Gumbel-max on the whole prefix, no cache, no rounds."""
    noise, warper, sequence = (
        Noise(model.vocab_size, torch.device("cpu")),
        Warper([sampling], torch.device("cpu")),
        list(prompt),
    )
    for _ in range(count):
        ids, n = torch.tensor([sequence]), len(sequence)
        scores = warper(model.row(sequence)[None, None], seen_before(ids, [n], 1, model.vocab_size))[0, 0]
        if sampling.temperature:
            scores = scores + noise.gumbel(seed, "token", n, dtype=scores.dtype)
        sequence.append(int(scores.argmax()))
    return sequence[len(prompt) :]


models = st.builds(
    lambda seed, near, noise: (
        target := TableModel(VOCAB, seed),
        TableModel(VOCAB, seed + 1, near=target if near else None, noise=noise),
    ),
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from([0.0, 0.3, 1.0]),
)
samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
    top_k=st.sampled_from([0, 0, 1, 3]),
    top_p=st.sampled_from([1.0, 1.0, 0.9, 0.4]),
    min_p=st.sampled_from([0.0, 0.0, 0.2]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.4]),
)
prompts = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=6)


@settings(max_examples=250, deadline=None)
@given(
    pair=models,
    prompt=prompts,
    k=st.integers(0, 8),
    extra=st.integers(-7, 20),
    baseline=st.booleans(),
    stops=st.sets(st.integers(0, VOCAB - 1), max_size=2),
)
def test_greedy_is_the_targets_own_greedy(pair, prompt, k, extra, baseline, stops):
    target, draft = pair
    count = max(k + 2 + extra, 1)  # 1 .. k + 2 and beyond
    task = Task(prompt, count, frozenset(stops))
    expected = plain_greedy(target, prompt, count, frozenset(stops))
    events = run(target, task, draft=draft, k=k, baseline=baseline)
    assert tokens(events) == expected
    assert finished(events).reason == ("stop" if expected[-1] in stops else "length")


@settings(max_examples=250, deadline=None)
@given(
    pair=models,
    prompt=prompts,
    k=st.integers(0, 8),
    count=st.integers(1, 24),
    sampling=samplings,
    seed=st.integers(0, 2**64),
)
def test_one_seed_one_text(pair, prompt, k, count, sampling, seed):
    target, draft = pair
    expected = plain_sampled(target, prompt, count, sampling, seed)
    assert tokens(run(target, Task(prompt, count, sampling=sampling, seed=seed), draft=draft, k=k)) == expected


@pytest.mark.parametrize("rule", ["coupled", "block", "token"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_target_as_its_own_draft_is_always_accepted(rule, temperature):
    target, twin = TableModel(VOCAB, 3), TableModel(VOCAB, 3)
    task = Task([1, 2], 60, sampling=Sampling(temperature=temperature), seed=5)
    events = run(target, task, draft=twin, k=4, rule=rule)
    assert all(event.accepted == len(event.proposed) for event in played(events))
    assert len(played(events)) == math.ceil(60 / 5)


@pytest.mark.parametrize("rule", ["block", "token"])
def test_at_temperature_0_every_rule_is_greedy(rule):
    target, draft = TableModel(VOCAB, 3), TableModel(VOCAB, 4)
    events = run(target, Task([1], 40), draft=draft, k=3, rule=rule)
    assert tokens(events) == plain_greedy(target, [1], 40)


@pytest.mark.parametrize("k", range(9))
def test_each_position_is_computed_once(k):
    target, draft = TableModel(VOCAB, 11), TableModel(VOCAB, 12, near=TableModel(VOCAB, 11), noise=0.5)
    prompt = [1, 2, 3, 4, 5]
    events = run(target, Task(prompt, 80), draft=draft, k=k)
    proposed = sum(len(event.proposed) for event in played(events))
    fed = finished(events).fed
    assert fed["target"] == len(prompt) - 1 + len(played(events)) + proposed
    if k:
        # The draft computes the prompt, each drafted token but the last of a round, and what it missed of the round
        # before: the target's own token, and the last drafted one when it was accepted.
        assert fed["draft"] <= len(prompt) + proposed + len(played(events))


@pytest.mark.parametrize("stop_at", range(10))
def test_an_end_of_sequence_token_ends_the_text_wherever_it_falls(stop_at):
    def row(key):
        return [float(token == (key[-1] + 1) % 50) for token in range(50)]  # counts upwards

    for k in range(7):
        target, draft = TableModel(50, 0, order=1, row=row), TableModel(50, 0, order=1, row=row)
        events = run(target, Task([0], 30, frozenset({stop_at + 1, 49})), draft=draft, k=k)
        assert tokens(events) == list(range(1, stop_at + 2))
        assert finished(events).reason == "stop"


def test_the_targets_context_ends_the_text():
    for k in range(5):
        target, draft = TableModel(VOCAB, 1, context=20), TableModel(VOCAB, 2, context=20)
        events = run(target, Task([1, 2, 3], 100), draft=draft, k=k)
        assert len(tokens(events)) == 17
        assert finished(events).reason == "context"
        assert tokens(events) == plain_greedy(target, [1, 2, 3], 17)


def test_past_the_drafts_context_the_target_goes_on_alone_with_one_notice():
    target, draft = TableModel(VOCAB, 1), TableModel(VOCAB, 1, context=12)
    events = run(target, Task([1, 2, 3], 40), draft=draft, k=4)
    assert tokens(events) == plain_greedy(target, [1, 2, 3], 40)
    assert sum(isinstance(event, Notice) for event in events) == 1
    assert finished(events).fed["draft"] <= 12 + len(played(events))
    assert finished(events).reason == "length"


def test_a_prompt_longer_than_the_drafts_context_is_fine():
    target, draft = TableModel(VOCAB, 1), TableModel(VOCAB, 1, context=4)
    events = run(target, Task([1, 2, 3, 4, 5, 6], 10), draft=draft, k=3)
    assert tokens(events) == plain_greedy(target, [1, 2, 3, 4, 5, 6], 10)
    assert all(event.plain for event in played(events))


def test_a_prompt_that_fills_the_context_is_refused():
    with pytest.raises(PromptError, match="6 tokens, the context holds 6"):
        run(TableModel(VOCAB, 1, context=6), Task([1] * 6, 5))
    with pytest.raises(PromptError, match="empty"):
        run(TableModel(VOCAB, 1), Task([], 5))


def test_plain_rounds_measure_the_target_and_keep_their_tokens():
    target, draft = TableModel(VOCAB, 1), TableModel(VOCAB, 1)
    events = run(target, Task([1], 200), draft=draft, k=4, baseline=True)
    kinds = [event.plain for event in played(events)]
    assert kinds[:5] == [True, True, True, True, False]
    assert sum(kinds[5:]) == 2  # one after 64 tokens, one after 128
    assert tokens(events) == plain_greedy(target, [1], 200)


def test_halting_finishes_the_round_in_progress():
    halt = Halt()
    target, draft = TableModel(VOCAB, 1), TableModel(VOCAB, 2)
    stream = rounds(
        target, Task([1], 100), proposer=DraftModel(draft, common=VOCAB), lookahead=fixed(3, baseline=False), halt=halt
    )
    got: list[int] = []
    for event in stream:
        if isinstance(event, Round):
            got += event.tokens
            if event.index == 2:
                halt.reason = "interrupted"
    assert got == plain_greedy(target, [1], len(got))
    assert finished([event]).reason == "interrupted"
    assert event.fed["target"] <= 12


def test_a_halt_set_before_the_start_generates_nothing():
    halt = Halt()
    halt.reason = "interrupted"
    events = run(TableModel(VOCAB, 1), Task([1, 2], 10), halt=halt)
    assert [type(event) for event in events] == [Prompted, Finished]


def test_models_are_used_again_after_an_abandoned_run():
    target, draft = TableModel(VOCAB, 1), TableModel(VOCAB, 2)
    stream = rounds(target, Task([3, 4], 50), proposer=DraftModel(draft, common=VOCAB), lookahead=FixedLookahead(3))
    for _ in range(4):
        next(stream)
    stream.close()
    assert tokens(run(target, Task([1], 20), draft=draft, k=3)) == plain_greedy(target, [1], 20)


def test_ids_that_only_one_model_has_are_never_proposed():
    target, draft = TableModel(9, 1), TableModel(12, 2)
    events = run(target, Task([1], 60, sampling=Sampling(temperature=1.5), seed=1), draft=draft, k=4)
    assert all(token < 9 for event in played(events) for token in event.proposed)
    small = TableModel(6, 2)
    events = run(target, Task([1], 60, sampling=Sampling(temperature=1.5), seed=1), draft=small, k=4, rule="block")
    assert all(token < 6 for event in played(events) for token in event.proposed)
    assert any(token >= 6 for token in tokens(events))
