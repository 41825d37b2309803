"""A program that was stopped in the middle of a round, as by Ctrl-Z, took no time then."""

from __future__ import annotations

import time
from dataclasses import fields

import pytest

from specgen import stopwatch
from specgen.decoding.engine import Engine, Task
from specgen.decoding.proposers import DraftModel
from specgen.models import cache
from specgen.models.attention import NAME
from specgen.models.cached import CachedModel
from tests.families import ROLL_BACK, VOCAB, build

cache.register()
PAUSE = 0.2


def model(seed):
    return CachedModel(build(ROLL_BACK["llama"](), NAME, seed=seed), "llama", context=256)


@pytest.mark.parametrize("paused", ["target", "draft"])
def test_a_pause_is_in_no_number_of_a_round(monkeypatch, paused):
    models = {"target": model(0), "draft": model(1)}
    engine = Engine(models["target"], DraftModel(models["draft"], common=VOCAB), rows=1, slots=64)
    engine.admit(Task([5, 9, 14], 20))
    engine.round(2)
    logits = models[paused].logits

    def stopped(*arguments, **settings):
        with stopwatch.stopped():
            time.sleep(PAUSE)
        return logits(*arguments, **settings)

    monkeypatch.setattr(models[paused], "logits", stopped)
    start = time.perf_counter()
    (played,) = engine.round(2)
    wall = time.perf_counter() - start

    assert wall - played.seconds >= PAUSE
    assert played.draft_seconds + played.verify_seconds <= played.seconds
    assert all(getattr(played, f.name) >= 0 for f in fields(played) if f.name.endswith("seconds"))
