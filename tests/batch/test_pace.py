"""Drafting where it pays, and only there; for every number of rows."""

from __future__ import annotations

import random

import pytest

from specgen.batch.pace import Pace


def simulate(pace, rows, cost, gain, rounds=2000):
    """Play rounds that cost ``cost[k]`` seconds and give ``gain[k]`` tokens a row; return tokens a second."""
    rng, tokens, seconds = random.Random(0), 0, 0.0
    for _ in range(rounds):
        k = pace.choose(rows)
        took, got = cost[k] * rng.uniform(0.95, 1.05), rows * gain[k]
        pace.observe(rows, k, k, got, took, plain=k == 0)
        tokens, seconds = tokens + got, seconds + took
    return tokens / seconds


@pytest.mark.parametrize(
    ("cost", "gain"),
    [
        ({0: 1.0, 3: 2.0, 5: 3.0}, {0: 1, 3: 1.2, 5: 1.3}),  # a useless draft
        ({0: 1.0, 3: 1.5, 5: 1.9}, {0: 1, 3: 2.4, 5: 2.5}),  # the middle is best
        ({0: 1.0, 3: 1.3, 5: 1.5}, {0: 1, 3: 3.0, 5: 4.5}),  # the most is best
    ],
)
def test_the_fastest_is_found_and_the_search_costs_little(cost, gain):
    best = max(8 * gain[k] / cost[k] for k in cost)
    assert simulate(Pace(5), 8, cost, gain) > 0.97 * best


def test_each_number_of_rows_has_its_own_measure():
    pace = Pace(5)
    few, many = ({0: 1.0, 3: 1.2, 5: 1.3}, {0: 1, 3: 3, 5: 4}), ({0: 1.0, 3: 4.0, 5: 6.0}, {0: 1, 3: 3, 5: 4})
    simulate(pace, 1, *few)
    simulate(pace, 8, *many)
    assert pace.plain_seconds(1) == pytest.approx(1.0, rel=0.05)
    assert pace.plain_seconds(2) is None
    assert [pace.choose(1), pace.choose(8)].count(5) <= 1


def test_a_draft_that_becomes_good_is_noticed():
    pace = Pace(5)
    gain = {0: 1, 3: 1.6, 5: 1.8}
    cost = {0: 1.0, 3: 2.0, 5: 2.5}
    simulate(pace, 4, cost, gain)
    better = {0: 1, 3: 3.9, 5: 5.5}
    assert simulate(pace, 4, cost, better, rounds=4000) > 0.9 * 4 * 5.5 / 2.5


def test_without_a_baseline_nothing_but_the_most():
    pace = Pace(5, baseline=False)
    assert {pace.choose(rows) for rows in (1, 2, 8) for _ in range(10)} == {5}


def test_no_draft():
    pace = Pace(0)
    for _ in range(20):
        assert pace.choose(4) == 0
        pace.observe(4, 0, 0, 4, 0.5, plain=True)
    assert pace.plain_seconds(4) == 0.5
