"""Drafting across vocabularies: the text is the target's, and a draft that knows it is accepted."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgen.decoding.engine import Engine, Task
from specgen.decoding.events import Round
from specgen.decoding.lookahead import fixed
from specgen.decoding.rounds import converse, rounds
from specgen.decoding.translated import IntersectionDraft, TextDraft
from specgen.models.vocabulary import intersection
from specgen.profile import Sampling
from tests.toys import TableModel
from tests.words import byte_level, characters, whole_words

TARGET, DRAFT = byte_level(320), byte_level(290, special=("</s>", "<s>"))
PAIRS = intersection(TARGET, DRAFT)
WORDS = ["?", " one", " two", " three", " four", " five", " six"]
WORDY, LETTERS = whole_words(WORDS), characters("? onetwhrfuivsx")


def text(events) -> tuple[list[int], int, int]:
    played = [event for event in events if isinstance(event, Round)]
    return (
        [token for event in played for token in event.tokens],
        sum(event.accepted for event in played),
        sum(len(event.proposed) for event in played),
    )


def alone(target: TableModel, task: Task) -> list[int]:
    return text(rounds(target, task, proposer=None, lookahead=fixed(0)))[0]


tasks = st.builds(
    Task,
    prompt=st.lists(st.integers(0, len(TARGET) - 1), min_size=1, max_size=12),
    max_tokens=st.integers(1, 25),
    sampling=st.sampled_from(
        [Sampling(), Sampling(temperature=0.9), Sampling(temperature=1.2, top_k=20, repetition_penalty=1.2)]
    ),
    seed=st.integers(0, 2**40),
)


@settings(max_examples=60, deadline=None)
@given(
    queue=st.lists(tasks, min_size=1, max_size=3),
    k=st.integers(1, 5),
    seed=st.integers(0, 999),
    way=st.sampled_from(["tokens", "text"]),
)
def test_the_text_is_the_targets(queue, k, seed, way):
    target, draft = TableModel(len(TARGET), seed), TableModel(len(DRAFT), seed + 1)
    proposer = IntersectionDraft(draft, DRAFT, TARGET, PAIRS) if way == "tokens" else TextDraft(draft, DRAFT, TARGET)
    engine = Engine(target, proposer, rows=len(queue), slots=60)
    texts: list[list[int]] = [[] for _ in queue]
    for task in queue:
        engine.admit(task)
    for turn in itertools.count():
        if all(engine.reason(row) for row in range(len(queue))):
            break
        done = [engine.reason(row) for row in range(len(queue))]
        for row, played in enumerate(engine.round(min(k, engine.room()) * (turn % 4 != 2))):
            texts[row] += () if done[row] else played.tokens
    for task, got in zip(queue, texts, strict=True):
        assert got == alone(TableModel(len(TARGET), seed), task)


@pytest.mark.parametrize("rule", ["coupled", "token", "block"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_draft_with_the_same_opinion_in_other_ids_is_always_accepted(rule, temperature):
    """The target only ever uses tokens that the draft has; the draft is the target with its ids renamed."""
    common = sorted(PAIRS.values())
    rename = {ours: theirs for theirs, ours in PAIRS.items()}
    source = TableModel(len(common), 5, order=1, spread=3.0)

    def target_row(key):
        scores = [float("-inf")] * len(TARGET)
        for i, value in enumerate(source.row([common.index(key[-1])]).tolist()):
            scores[common[i]] = value
        return scores

    def draft_row(key):
        scores = [float("-inf")] * len(DRAFT)
        for i, value in enumerate(source.row([common.index(PAIRS[key[-1]])]).tolist()):
            scores[rename[common[i]]] = value
        return scores

    target = TableModel(len(TARGET), 0, order=1, row=target_row)
    draft = TableModel(len(DRAFT), 0, order=1, row=draft_row)
    task = Task([common[3], common[7]], 50, sampling=Sampling(temperature=temperature), seed=4)
    proposer = IntersectionDraft(draft, DRAFT, TARGET, PAIRS)
    got, accepted, proposed = text(
        rounds(target, task, proposer=proposer, lookahead=fixed(4, baseline=False), rule=rule)
    )
    assert accepted == proposed > 0
    assert len(got) == 50
    # Nothing accepted is fed twice: the prompt, each draft token but the last of a round, and the bonus tokens.
    assert draft.fed <= 2 + proposed + 10


def test_a_draft_that_writes_the_same_text_in_letters_is_accepted():
    def next_word(key):
        return [float(token == key[-1] % 6 + 1) for token in range(len(WORDS))]

    story = "".join(WORDS[1:]) * 3

    def next_letter(key):
        so_far = LETTERS.decode(list(key))
        at = story.find(so_far) + len(so_far)
        return [float(token == LETTERS.convert_tokens_to_ids(story[at])) for token in range(len(LETTERS))]

    target = TableModel(len(WORDS), 0, order=1, row=next_word)
    draft = TableModel(len(LETTERS), 0, order=6, row=next_letter)
    got, accepted, proposed = text(
        rounds(target, Task([1, 2], 30), proposer=TextDraft(draft, LETTERS, WORDY), lookahead=fixed(12, baseline=False))
    )
    assert got == [token % 6 + 1 for token in range(2, 32)]
    assert accepted >= 10
    assert proposed - accepted <= 2  # a round may end within a word


def test_turns_of_a_conversation_keep_the_right_part_of_the_drafts_cache():
    target, draft = TableModel(len(TARGET), 1), TableModel(len(DRAFT), 2)
    for proposer in (IntersectionDraft(draft, DRAFT, TARGET, PAIRS), TextDraft(draft, DRAFT, TARGET)):
        engine = Engine(target, proposer, rows=1, slots=120)
        prompt = [70, 80, 90]
        for _ in range(3):
            got, _, _ = text(converse(engine, Task(prompt, 12), lookahead=fixed(3, baseline=False)))
            assert got == alone(TableModel(len(TARGET), 1), Task(prompt, 12))
            prompt = [*prompt, *got[:7], 100]
        assert proposer.fed == draft.fed


def test_a_draft_whose_context_is_full_in_its_own_tokens_stops_proposing():
    target, draft = TableModel(len(TARGET), 1), TableModel(len(DRAFT), 2, context=30)
    for proposer in (IntersectionDraft(draft, DRAFT, TARGET, PAIRS), TextDraft(draft, DRAFT, TARGET)):
        task = Task([70, 80, 90] * 5, 60)
        got, _, _ = text(rounds(target, task, proposer=proposer, lookahead=fixed(4, baseline=False)))
        assert got == alone(TableModel(len(TARGET), 1), task)
