"""Paired statistics: exact properties."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgen.bench.statistics import geometric_mean, interval, quantile, ratio, speedup

speeds = st.floats(0.01, 100)
repeats = st.lists(st.tuples(speeds, speeds), min_size=1, max_size=5)
prompts = st.lists(repeats, min_size=1, max_size=6)


def swapped(pairs):
    return [[(b, a) for a, b in one] for one in pairs]


def test_the_geometric_mean_of_twice_and_half_is_one():
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert geometric_mean([8.0]) == pytest.approx(8.0)
    assert geometric_mean([1.0, 10.0, 100.0]) == pytest.approx(10.0)


def test_quantiles_are_interpolated():
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.0) == 1.0
    assert quantile([4.0, 1.0, 3.0, 2.0], 1.0) == 4.0
    assert quantile([7.0], 0.95) == 7.0
    assert quantile(list(range(101)), 0.95) == 95


def test_the_median_over_repeats_forgets_one_bad_run():
    assert ratio([(2.0, 1.0), (2.0, 1.0), (0.01, 1.0)]) == 2.0


@given(prompts)
def test_the_speedup_of_a_over_b_is_one_over_that_of_b_over_a(pairs):
    assert speedup(pairs) * speedup(swapped(pairs)) == pytest.approx(1.0)


@given(prompts, st.floats(0.1, 10))
def test_an_arm_that_is_faster_by_a_factor_has_a_speedup_that_is(pairs, factor):
    faster = [[(factor * a, b) for a, b in one] for one in pairs]
    assert speedup(faster) == pytest.approx(factor * speedup(pairs))


@given(prompts, st.randoms(use_true_random=False))
def test_the_order_of_the_prompts_does_not_matter(pairs, rng):
    other = list(pairs)
    rng.shuffle(other)
    assert speedup(other) == pytest.approx(speedup(pairs))


@given(st.lists(st.integers(1, 4), min_size=2, max_size=6), st.floats(0.1, 10), st.integers(0, 99))
def test_without_noise_the_interval_is_the_speedup(counts, factor, seed):
    pairs = [[(factor * (i + 1), i + 1.0)] * count for i, count in enumerate(counts)]
    assert interval(pairs, Random(seed), resamples=50) == pytest.approx((factor, factor))


@given(prompts, st.integers(0, 99))
def test_the_interval_is_ordered_and_within_what_was_seen(pairs, seed):
    found = interval(pairs, Random(seed), resamples=50)
    if found is None:
        assert len(pairs) == len(pairs[0]) == 1
        return
    most = max(a for one in pairs for a, _ in one) / min(b for one in pairs for _, b in one)
    least = min(a for one in pairs for a, _ in one) / max(b for one in pairs for _, b in one)
    assert least * (1 - 1e-9) <= found[0] <= found[1] <= most * (1 + 1e-9)


def test_the_interval_depends_on_nothing_but_the_measurement_and_the_rng():
    pairs = [[(float(i + j), float(i + 1)) for j in range(1, 4)] for i in range(1, 6)]
    assert interval(pairs, Random(3)) == interval(pairs, Random(3))
    assert interval(pairs, Random(3)) != interval(pairs, Random(4))


def test_one_measurement_has_no_interval_and_two_have():
    assert interval([[(1.0, 1.0)]], Random(0)) is None
    assert interval([[(1.0, 1.0), (2.0, 1.0)]], Random(0)) is not None
    assert interval([[(1.0, 1.0)], [(2.0, 1.0)]], Random(0)) == (1.0, pytest.approx(2.0))


def test_ninety_five_of_a_hundred_intervals_hold_the_truth():
    rng = Random(1)
    held = 0
    for _ in range(200):
        # The speedup of a prompt is lognormal around 1.5.
        pairs = [[(1.5 * math.exp(rng.gauss(0, 0.2)), 1.0)] for _ in range(30)]
        low, high = interval(pairs, rng, resamples=200)
        held += low <= 1.5 <= high
    assert 180 <= held <= 198


def test_repeats_are_redrawn_together():
    # A machine that halves its speed halves both arms': the pairing cancels it exactly.
    pairs = [[(3.0 * pace, 2.0 * pace) for pace in (1.0, 0.5, 0.25)] for _ in range(3)]
    assert interval(pairs, Random(0)) == pytest.approx((1.5, 1.5))
