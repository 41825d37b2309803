"""Many rows: each text is what it would be alone, whoever sits beside it and whenever it comes and goes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgen.decoding.engine import Engine, Task
from specgen.decoding.events import Finished, Prompted, Round
from specgen.decoding.lookahead import fixed
from specgen.decoding.proposers import DraftModel
from specgen.decoding.rounds import converse, rounds
from specgen.profile import Sampling
from tests.toys import TableModel

VOCAB = 7


def engine(
    target: TableModel, draft: TableModel | None, *, rows: int, slots: int = 80, rule: str = "coupled"
) -> Engine:
    return Engine(target, DraftModel(draft, common=VOCAB) if draft else None, rows=rows, slots=slots, rule=rule)


def alone(target: TableModel, task: Task) -> list[int]:
    events = rounds(target, task, proposer=None, lookahead=fixed(0))
    return [token for event in events if isinstance(event, Round) for token in event.tokens]


def dismiss(running: Engine, seated: list[int]) -> None:
    """Release the rows that are over; ``seated`` says which task sits in each."""
    for row in reversed(range(running.live)):
        if running.reason(row):
            moved = running.release(row)
            if moved is not None:
                seated[row] = seated[moved]
            seated.pop()


tasks = st.builds(
    Task,
    prompt=st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=30),
    max_tokens=st.integers(1, 20),
    stop_ids=st.sampled_from([frozenset(), frozenset({3})]),
    sampling=st.builds(
        Sampling,
        temperature=st.sampled_from([0.0, 0.8, 1.3]),
        top_k=st.sampled_from([0, 2, 4]),
        top_p=st.sampled_from([1.0, 0.7]),
        repetition_penalty=st.sampled_from([1.0, 1.3]),
    ),
    seed=st.integers(0, 2**40),
)


@settings(max_examples=120, deadline=None)
@given(
    queue=st.lists(tasks, min_size=1, max_size=8),
    seats=st.integers(1, 4),
    ks=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    seed=st.integers(0, 10**6),
    drafted=st.booleans(),
)
def test_neighbours_change_nothing(queue, seats, ks, seed, drafted):
    target, draft = TableModel(VOCAB, seed), TableModel(VOCAB, seed + 1, near=TableModel(VOCAB, seed), noise=0.7)
    running = engine(target, draft if drafted else None, rows=seats)
    waiting = list(enumerate(queue))
    seated: list[int] = []  # which task sits in each live row
    texts: dict[int, list[int]] = {i: [] for i in range(len(queue))}
    turn = 0
    while waiting or seated:
        while waiting and running.live < seats:
            index, task = waiting.pop(0)
            running.admit(task)
            seated.append(index)
        for row, played in enumerate(running.round(min(ks[turn % len(ks)], running.room()))):
            texts[seated[row]] += played.tokens
        turn += 1
        dismiss(running, seated)
    for index, task in enumerate(queue):
        assert texts[index] == alone(TableModel(VOCAB, seed), task)


def test_a_shared_beginning_is_computed_once():
    target = TableModel(VOCAB, 1)
    running = engine(target, None, rows=3)
    system = [1, 2, 3, 4, 5, 6] * 3
    assert running.admit(Task([*system, 1, 1], 5)) == 0
    before = target.fed
    assert running.admit(Task([*system, 2, 2, 2], 5)) == len(system)
    assert target.fed - before == 2  # all new tokens but the last, which the first round feeds
    assert running.admit(Task(system, 5)) == len(system) - 1


def test_the_second_turn_feeds_only_what_is_new():
    target, draft = TableModel(VOCAB, 1), TableModel(VOCAB, 1)
    talk = engine(target, draft, rows=1)
    first = list(converse(talk, Task([1, 2, 3], 10), lookahead=fixed(3, baseline=False)))
    text = [token for event in first if isinstance(event, Round) for token in event.tokens]
    turn = [1, 2, 3, *text, 5, 5, 6]
    fed = draft.fed
    second = list(converse(talk, Task(turn, 10), lookahead=fixed(3, baseline=False)))
    assert isinstance(second[0], Prompted)
    assert second[0].cached_tokens == 3 + len(text) - 1  # all but the last token, which was never fed
    proposed = sum(len(event.proposed) for event in second if isinstance(event, Round))
    played = sum(isinstance(event, Round) for event in second)
    assert isinstance(second[-1], Finished)
    assert (
        second[-1].fed["target"] == 3 + proposed + played
    )  # the new tokens: own last, and three of the user's, less one
    assert draft.fed - fed <= 5 + proposed + played
    again = [token for event in second if isinstance(event, Round) for token in event.tokens]
    assert again == alone(TableModel(VOCAB, 1), Task(turn, 10))


def test_a_conversation_that_turns_back_keeps_the_common_beginning():
    target = TableModel(VOCAB, 1)
    talk = engine(target, None, rows=1)
    list(converse(talk, Task([1, 2, 3, 4], 6), lookahead=fixed(0)))
    events = list(converse(talk, Task([1, 2, 6, 6], 6), lookahead=fixed(0)))
    assert events[0] == Prompted(4, 2, events[0].seconds)
    text = [token for event in events if isinstance(event, Round) for token in event.tokens]
    assert text == alone(TableModel(VOCAB, 1), Task([1, 2, 6, 6], 6))


def test_an_engine_grows_and_keeps_what_it_holds():
    target, draft = TableModel(VOCAB, 1), TableModel(VOCAB, 2)
    talk = engine(target, draft, rows=1, slots=20)
    list(converse(talk, Task([1, 2, 3], 8), lookahead=fixed(3, baseline=False)))
    talk.grow(90)
    prompt = [*talk.rows.committed(0), *[4] * 30]
    events = list(converse(talk, Task(prompt, 20), lookahead=fixed(3, baseline=False)))
    assert isinstance(events[0], Prompted)
    assert events[0].cached_tokens == 10
    text = [token for event in events if isinstance(event, Round) for token in event.tokens]
    assert text == alone(TableModel(VOCAB, 1), Task(prompt, 20))


@settings(max_examples=80, deadline=None)
@given(
    queue=st.lists(tasks, min_size=2, max_size=8),
    seats=st.integers(1, 4),
    budgets=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    k=st.integers(0, 4),
    seed=st.integers(0, 10**6),
)
def test_prompts_filled_in_slices_between_rounds_change_nothing(queue, seats, budgets, k, seed):
    target, draft = TableModel(VOCAB, seed), TableModel(VOCAB, seed + 1, near=TableModel(VOCAB, seed), noise=0.7)
    running = engine(target, draft, rows=seats)
    waiting, seated, entering, turn = list(enumerate(queue)), [], None, 0
    texts: dict[int, list[int]] = {i: [] for i in range(len(queue))}
    while waiting or seated or running.filling:
        if waiting and not running.filling and running.live < seats:
            entering, task = waiting.pop(0)
            running.begin(task)
        if running.filling:
            budget = budgets[turn % len(budgets)]
            before = target.fed
            assert running.fill(budget) == target.fed - before <= budget
            if not running.filling:
                seated.append(entering)
        turn += 1
        if not seated:
            continue
        for row, played in enumerate(running.round(min(k, running.room()))):
            texts[seated[row]] += played.tokens
        dismiss(running, seated)
    for index, task in enumerate(queue):
        assert texts[index] == alone(TableModel(VOCAB, seed), task)


def test_noise_is_kept_for_the_live_rows_only():
    """Else a batch would keep every number it ever drew while some short row is near its beginning."""
    target = TableModel(VOCAB, 1)
    running = engine(target, None, rows=2)
    running.admit(Task([1], 60, sampling=Sampling(temperature=1.0), seed=1))
    for seed in range(2, 12):
        running.admit(Task([1] * 20, 4, sampling=Sampling(temperature=1.0), seed=seed))
        while not running.reason(1):
            running.round(0)
        running.release(1)
    running.round(0)
    assert len(running.sampler.noise._kept) <= 2


@pytest.mark.parametrize("rule", ["block", "token"])
def test_rules_work_in_company(rule):
    """Rows at temperature 0 keep their greedy text beside rows that sample by comparing probabilities."""
    target, draft = TableModel(VOCAB, 4), TableModel(VOCAB, 5)
    running = engine(target, draft, rows=3, rule=rule)
    queue = [Task([1], 30), Task([2, 2], 30, sampling=Sampling(temperature=1.0), seed=3), Task([5, 1, 2], 30)]
    for task in queue:
        running.admit(task)
    texts: list[list[int]] = [[], [], []]
    while not all(running.reason(row) for row in range(3)):
        for row, played in enumerate(running.round(3)):
            texts[row] += played.tokens if len(texts[row]) < 30 else ()
    assert texts[0][:30] == alone(TableModel(VOCAB, 4), queue[0])
    assert texts[2][:30] == alone(TableModel(VOCAB, 4), queue[2])
    assert len(texts[1]) == 30
