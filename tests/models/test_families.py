"""Every family that rolls back: the slot cache and the text against fresh forwards of transformers' own."""

from __future__ import annotations

import pytest
import torch

from specgen.decoding.engine import Engine
from specgen.decoding.events import Round
from specgen.decoding.lookahead import fixed
from specgen.decoding.proposers import DraftModel
from specgen.decoding.rounds import Task, rounds
from specgen.errors import ModelError
from specgen.models import cache
from specgen.models.attention import NAME
from specgen.models.cached import CachedModel
from specgen.models.rollback import check_rollback
from specgen.profile import Sampling
from tests.families import REFUSED, ROLL_BACK, VOCAB, build

cache.register()
SAMPLED = Sampling(temperature=0.8, top_p=0.95)


def cached(family: str, *, seed: int = 0, chunk: int = 512) -> CachedModel:
    model = build(ROLL_BACK[family](), NAME, seed=seed)
    return CachedModel(model, family, context=256, prefill_chunk=chunk)


@pytest.fixture(params=ROLL_BACK)
def family(request):
    return request.param


def test_ragged_rows_and_rollbacks_give_the_logits_of_a_fresh_forward(family):
    torch.manual_seed(1)
    ids = torch.randint(3, VOCAB, (3, 64))
    fresh = build(ROLL_BACK[family](), "eager")(input_ids=ids).logits
    model = cached(family, chunk=5)
    model.open(3, 64)
    steps = [
        # tokens that count in each row, positions to score, and what each row keeps
        ((12, 9, 1), 1, (12, 9, 1)),
        ((16, 13, 5), 4, (13, 13, 2)),
        ((17, 15, 12), 2, (16, 14, 12)),
        ((20, 20, 20), 4, (18, 19, 17)),
        ((36, 30, 41), 0, (36, 30, 41)),
        ((37, 31, 42), 1, (20, 31, 10)),
        ((26, 34, 16), 3, (26, 34, 16)),
    ]
    for totals, last, keep in steps:
        logits = model.logits(ids, totals, last=last)
        for row, total in enumerate(totals):
            torch.testing.assert_close(logits[row], fresh[row, total - last : total], rtol=1e-3, atol=1e-4)
        model.crop(keep)
        assert model.lengths == list(keep)


def reference_greedy(family: str, prompt: list[int], count: int) -> list[int]:
    model = build(ROLL_BACK[family](), "eager")
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(model(input_ids=torch.tensor([tokens])).logits[0, -1].argmax()))
    return tokens[len(prompt) :]


def text(target: CachedModel, draft: CachedModel | None, task: Task, k: int) -> tuple[list[int], float]:
    proposer = DraftModel(draft, common=VOCAB) if draft else None
    played = [
        event
        for event in rounds(target, task, proposer=proposer, lookahead=fixed(k, baseline=False))
        if isinstance(event, Round)
    ]
    proposed = sum(len(event.proposed) for event in played)
    rate = sum(event.accepted for event in played) / proposed if proposed else 0.0
    return [token for event in played for token in event.tokens], rate


def test_greedy_text_is_the_targets_own(family):
    prompt, count = [5, 9, 14, 3, 40], 28
    expected = reference_greedy(family, prompt, count)
    target, twin, other = cached(family), cached(family), cached(family, seed=9)
    for k in (0, 1, 2, 5):
        alone, _ = text(target, None, Task(prompt, count), 0)
        assert alone == expected
        same, rate = text(target, twin, Task(prompt, count), k)
        assert same == expected
        assert rate == (1.0 if k else 0.0)
        random, rate = text(target, other, Task(prompt, count), k)
        assert random == expected
        assert rate < 0.5
    for count in range(1, 6):
        assert text(target, other, Task(prompt, count), 3)[0] == expected[:count]


def test_sampled_text_depends_on_the_seed_alone(family):
    target, twin, other = cached(family), cached(family), cached(family, seed=9)
    task = Task([7, 7, 30], 28, sampling=SAMPLED, seed=11)
    expected, _ = text(target, None, task, 0)
    assert expected != text(target, None, Task([7, 7, 30], 28, sampling=SAMPLED, seed=12), 0)[0]
    for k in (1, 3, 8):
        same, rate = text(target, twin, task, k)
        assert (same, rate) == (expected, 1.0)
        assert text(target, other, task, k)[0] == expected


def test_texts_in_company_are_those_alone(family):
    target, draft = cached(family), cached(family, seed=9)
    prompts = [[5, 9, 14], [7] * 30, [3, 4], [5, 9, 14, 21, 8]]
    tasks = [
        Task(prompt, 12 + i, sampling=SAMPLED if i % 2 else Sampling(), seed=i) for i, prompt in enumerate(prompts)
    ]
    engine = Engine(target, DraftModel(draft, common=VOCAB), rows=2, slots=80)
    waiting, seated, texts = list(range(4)), [], [[] for _ in tasks]
    while waiting or seated:
        while waiting and engine.live < 2:
            seated.append(waiting.pop(0))
            engine.admit(tasks[seated[-1]])
        for row, played in enumerate(engine.round(min(3, engine.room()))):
            texts[seated[row]] += played.tokens
        for row in reversed(range(engine.live)):
            if engine.reason(row):
                engine.release(row)
                seated[row] = seated[-1]
                seated.pop()
    for task, got in zip(tasks, texts, strict=True):
        assert got == text(target, None, task, 0)[0]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_roll_back_is_refused_by_its_config(name):
    make, reason = REFUSED[name]
    with pytest.raises(ModelError, match=reason):
        check_rollback(make(), name)


@pytest.mark.parametrize("name", ROLL_BACK)
def test_what_rolls_back_is_not_refused(name):
    check_rollback(ROLL_BACK[name](), name)
