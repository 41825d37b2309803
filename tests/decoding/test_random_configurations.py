"""Two thousand random configurations (source, schedule, stops, limits, rows, warpers); each equals plain decoding."""

from __future__ import annotations

import random

import pytest

from specgen.decoding.engine import Engine, Task
from specgen.decoding.events import Round
from specgen.decoding.lookahead import fixed
from specgen.decoding.proposers import DraftModel, Proposer
from specgen.decoding.rounds import rounds
from specgen.decoding.translated import IntersectionDraft, TextDraft
from specgen.models.vocabulary import intersection
from specgen.profile import Sampling
from specgen.verify.controls import RandomDraft
from tests.toys import TableModel
from tests.words import characters

LETTERS, OTHERS = "?abcdef gh", "? hgbadx"
TARGET, DRAFT = characters(LETTERS), characters(OTHERS)
PAIRS = intersection(TARGET, DRAFT)
VOCAB = len(LETTERS)
SOURCES = ("draft", "self", "random", "none", "tokens", "text")


def proposer(source: str, seed: int) -> Proposer | None:
    target = TableModel(VOCAB, seed)
    match source:
        case "draft":
            good = TableModel(VOCAB, seed + 1, near=target, noise=0.5)
            return DraftModel(good if seed % 3 else TableModel(VOCAB + 2, seed + 1), common=VOCAB)
        case "self":
            return DraftModel(target, common=VOCAB)
        case "random":
            return RandomDraft(VOCAB)
        case "tokens":
            return IntersectionDraft(TableModel(len(OTHERS), seed + 1), DRAFT, TARGET, PAIRS)
        case "text":
            return TextDraft(TableModel(len(OTHERS), seed + 1), DRAFT, TARGET)
    return None


def draw(rng: random.Random) -> Task:
    sampling = Sampling(
        temperature=rng.choice([0.0, 0.0, 0.5, 0.8, 1.3]),
        top_k=rng.choice([0, 0, 1, 3]),
        top_p=rng.choice([1.0, 1.0, 0.8, 0.4]),
        min_p=rng.choice([0.0, 0.0, 0.2]),
        repetition_penalty=rng.choice([1.0, 1.0, 1.3]),
    )
    return Task(
        prompt=[rng.randrange(VOCAB) for _ in range(rng.randint(1, 12))],
        max_tokens=rng.choice([1, 2, 3, 5, 9, 14]),
        stop_ids=frozenset(rng.sample(range(VOCAB), rng.choice([0, 0, 1, 2]))),
        sampling=sampling,
        seed=rng.randrange(2**63),
    )


def play(engine: Engine, rows: int, queue: list[Task], schedule: list[int]) -> list[list[int]]:
    """Serve a queue on however many rows the engine has, with a lookahead from the schedule each round."""
    texts: list[list[int]] = [[] for _ in queue]
    waiting, seated, turn = list(range(len(queue))), [], 0
    while waiting or seated:
        while waiting and len(seated) < rows:
            seated.append(waiting.pop(0))
            engine.admit(queue[seated[-1]])
        for index, played in zip(seated, engine.round(min(schedule[turn % len(schedule)], engine.room())), strict=True):
            texts[index] += played.tokens
        turn += 1
        for row in reversed(range(engine.live)):
            if engine.reason(row):
                engine.release(row)
                seated[row] = seated[-1]
                seated.pop()
    return texts


def plain(seed: int, context: int, task: Task) -> list[int]:
    events = rounds(TableModel(VOCAB, seed, context=context), task, proposer=None, lookahead=fixed(0))
    return [token for event in events if isinstance(event, Round) for token in event.tokens]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_two_thousand_random_configurations_equal_plain_decoding(part):
    for number in range(250 * part, 250 * (part + 1)):
        rng = random.Random(number)
        seed, context = rng.randrange(10**6), rng.choice([13, 20, 10_000])
        source, rows = SOURCES[number % len(SOURCES)], rng.randint(1, 4)
        queue = [draw(rng) for _ in range(rng.randint(1, rows + 1))]
        schedule = [rng.randint(0, 6) for _ in range(rng.randint(1, 5))]
        engine = Engine(TableModel(VOCAB, seed, context=context), proposer(source, seed), rows=rows, slots=40)
        texts = play(engine, rows, queue, schedule)
        for task, text in zip(queue, texts, strict=True):
            assert text == plain(seed, context, task), (number, source, schedule, rows)


def test_a_row_at_the_end_of_the_context_is_not_fed_past_it_for_its_neighbours():
    """Its positions end there: a model with learned positions has no row for the next one."""
    queue = [Task([1] * 10, 30), Task([2, 3], 14)]
    engine = Engine(TableModel(VOCAB, 1, context=16), RandomDraft(VOCAB), rows=2, slots=40)
    assert play(engine, 2, queue, [6]) == [plain(1, 16, task) for task in queue]


@pytest.mark.parametrize("source", ["tokens", "text"])
def test_a_translated_row_that_moves_takes_its_drafts_along(source):
    queue = [Task([1, 2, 3], 2), Task([4, 5, 6, 7], 12), Task([2, 2], 12)]
    engine = Engine(TableModel(VOCAB, 3), proposer(source, 3), rows=3, slots=40)
    assert play(engine, 3, queue, [3]) == [plain(3, 10_000, task) for task in queue]
