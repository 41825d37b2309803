"""Drafting without a model: the text stays the target's, repeats are found, and what does not pay is left."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgen.decoding.engine import Engine, Task
from specgen.decoding.events import Round
from specgen.decoding.lookahead import fixed
from specgen.decoding.lookup import Corpus, SuffixLookup, _Text
from specgen.decoding.rounds import converse, rounds
from specgen.profile import Sampling
from tests.toys import TableModel, plain_greedy

VOCAB = 5


def played(events) -> list[Round]:
    return [event for event in events if isinstance(event, Round)]


def text(events) -> list[int]:
    return [token for event in played(events) for token in event.tokens]


@settings(max_examples=100, deadline=None)
@given(
    prompt=st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=40),
    k=st.integers(1, 9),
    count=st.integers(1, 60),
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.0, 0.7]),
    rule=st.sampled_from(["coupled", "block", "token"]),
)
def test_the_text_is_the_targets_under_every_rule(prompt, k, count, seed, temperature, rule):
    task = Task(prompt, count, sampling=Sampling(temperature=temperature), seed=seed)
    target = TableModel(VOCAB, seed, order=3)
    alone = text(rounds(target, task, proposer=None, lookahead=fixed(0)))
    found = rounds(target, task, proposer=SuffixLookup(), lookahead=fixed(k, baseline=False), rule=rule)
    assert text(found) == alone


def test_rows_look_in_their_own_text_only():
    target, engine_rows = TableModel(VOCAB, 3, order=3), 3
    engine = Engine(target, SuffixLookup(), rows=engine_rows, slots=120)
    tasks = [Task([1, 2, 3] * 5, 40), Task([4] * 12, 40), Task([0, 1, 2, 3], 40)]
    for task in tasks:
        engine.admit(task)
    texts: list[list[int]] = [[], [], []]
    while not all(engine.reason(row) for row in range(3)):
        done = [engine.reason(row) for row in range(3)]
        for row, event in enumerate(engine.round(5)):
            texts[row] += () if done[row] else event.tokens
    for task, got in zip(tasks, texts, strict=True):
        assert got == plain_greedy(TableModel(VOCAB, 3, order=3), task.prompt, 40)


def test_a_text_that_repeats_itself_is_found():
    def cycle(key):
        return [float(token == (key[-1] + 1) % 40) for token in range(40)]

    target = TableModel(40, 0, order=1, row=cycle)
    events = played(rounds(target, Task([0], 200), proposer=SuffixLookup(), lookahead=fixed(8, baseline=False)))
    assert sum(event.accepted for event in events) >= 0.95 * sum(len(event.proposed) for event in events)
    assert len(events) < 40 + 3 + 160 / 6  # once around alone, then several tokens a round


def test_the_longest_context_decides_then_the_most_frequent_then_the_latest():
    index = _Text()
    index.extend([1, 2, 3, 9, 2, 3, 8, 2, 3, 8, 0])
    assert index.next([2, 3]) == (8, 2)
    assert index.next([1, 2, 3]) == (9, 3)
    assert index.next([7, 7, 2, 3]) == (8, 2)
    assert index.next([3]) is None
    assert index.next([5, 5, 5]) is None
    index.extend([4, 6, 1, 4, 6, 2])
    assert index.next([4, 6]) == (2, 2)


def test_turns_of_a_conversation():
    target = TableModel(VOCAB, 3, order=3)
    engine = Engine(target, SuffixLookup(), rows=1, slots=200)
    prompt = [1, 2, 3]
    for _ in range(3):
        got = text(converse(engine, Task(prompt, 25), lookahead=fixed(4, baseline=False)))
        assert got == plain_greedy(TableModel(VOCAB, 3, order=3), prompt, 25)
        prompt = [*prompt, *got[:9], 4]


def test_a_corpus_is_looked_up_where_the_text_itself_knows_less():
    corpus = Corpus([[1, 2, 3, 4, 5], [9, 2, 3, 7], [8, 2, 3, 7]])
    assert corpus.next([2, 3]) == (7, 2)  # the more frequent
    assert corpus.next([1, 2, 3]) == (4, 3)  # the longer context
    assert corpus.next([5, 9]) is None  # where one text ends and another begins
    assert corpus.next([3]) is None
    assert SuffixLookup(corpus)._next(_Text(), [0, 2, 3]) == (7, 2)
    own = _Text()
    own.extend([2, 3, 6])
    assert SuffixLookup(corpus)._next(own, [2, 3]) == (6, 2)  # of equals, the text's own
    assert SuffixLookup(corpus)._next(own, [1, 2, 3]) == (4, 3)


@pytest.mark.parametrize("rule", ["coupled", "block", "token"])
def test_a_corpus_that_holds_the_answer_gives_it_away(rule):
    target = TableModel(VOCAB, 3, order=3)
    answer = plain_greedy(target, [1, 2, 3], 60)
    lookup = SuffixLookup(Corpus([[1, 2, 3, *answer]]))
    target = TableModel(VOCAB, 3, order=3)
    events = played(rounds(target, Task([1, 2, 3], 60), proposer=lookup, lookahead=fixed(8, baseline=False), rule=rule))
    assert [token for event in events for token in event.tokens] == answer
    assert len(events) <= 2 + 60 / 8
    assert {event.source for event in events} == {"lookup"}
