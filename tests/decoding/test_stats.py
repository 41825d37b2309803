"""Rates of a run, and when they are not known."""

from __future__ import annotations

import pytest

from specgen.decoding.events import Finished, Notice, Prompted, Round
from specgen.decoding.stats import Stats


def played(proposed: int, accepted: int, seconds: float) -> Round:
    return Round(0, tuple(range(proposed)), accepted, tuple(range(accepted + 1)), seconds / 4, seconds / 2, seconds)


def stats(*events) -> Stats:
    total = Stats()
    for event in (Prompted(7, 3, 0.5), *events):
        total.add(event)
    return total


def test_counts_and_rates():
    run = stats(
        played(0, 0, 1.0),
        played(0, 0, 3.0),
        played(4, 4, 2.0),
        played(4, 1, 2.0),
        Notice("x"),
        Finished("length", {"target": 9}),
    )
    assert (run.prompt_tokens, run.cached_tokens, run.tokens, run.rounds) == (7, 3, 9, 4)
    assert (run.proposed, run.accepted, run.finish_reason, run.fed) == (8, 5, "length", {"target": 9})
    assert run.acceptance_rate == 5 / 8
    assert run.alpha == 5 / 6  # one rejection was tested, the two tokens after it were not
    assert run.mean_accepted_length == 3.5
    assert run.ttft == 1.5
    assert run.tokens_per_second == 9 / 8
    assert run.baseline_tokens_per_second == 1 / 2
    assert run.speedup == 9 / 4
    assert run.own_seconds == pytest.approx(2.0)


def test_nothing_is_known_before_it_is_measured():
    run = stats()
    for rate in ("ttft", "tokens_per_second", "baseline_tokens_per_second", "speedup", "acceptance_rate", "alpha"):
        assert getattr(run, rate) is None
    assert stats(played(0, 0, 1.0)).speedup is None  # nothing was proposed
    assert stats(played(3, 1, 1.0)).speedup is None  # the target alone was not measured


def test_a_last_round_that_only_had_one_token_left_is_no_baseline():
    assert stats(played(3, 1, 1.0), played(0, 0, 1.0), Finished("length")).speedup is None
    assert (
        stats(played(0, 0, 2.0), played(3, 1, 1.0), played(0, 0, 9.0), Finished("length")).baseline_tokens_per_second
        == 0.5
    )
    assert (
        stats(played(3, 1, 1.0), played(0, 0, 1.0), played(0, 0, 3.0), Finished("length")).baseline_tokens_per_second
        == 0.5
    )
