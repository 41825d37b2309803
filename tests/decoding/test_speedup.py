"""The cost model against the textbook's numbers and against its own definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgen.decoding.speedup import (
    alpha_for,
    best_k,
    break_even,
    break_even_drafts,
    expected_tokens,
    round_cost,
    speedup,
)

# Four tokens drafted in 20 ms, verified in 80 ms, which is also a plain step.
TEXTBOOK = {"k": 4, "draft_cost": 5 / 80, "verify_cost": 1.0}


def test_sixty_percent_of_the_proposed_is_2_72():
    alpha = alpha_for(0.6 * 4, 4)
    assert alpha == pytest.approx(0.806, abs=5e-4)
    assert speedup(alpha, **TEXTBOOK) == pytest.approx(2.72)


def test_sixty_percent_without_the_targets_own_token_is_1_92():
    assert (expected_tokens(alpha_for(2.4, 4), 4) - 1) / round_cost(**TEXTBOOK) == pytest.approx(1.92)


def test_sixty_percent_of_the_tested_is_1_84():
    assert expected_tokens(0.6, 4) == pytest.approx(2.306, abs=5e-4)
    assert speedup(0.6, **TEXTBOOK) == pytest.approx(1.84, abs=5e-3)


def test_one_token_in_a_100_ms_round_is_a_loss():
    assert speedup(0.0, **TEXTBOOK) == pytest.approx(0.8)
    assert break_even(**TEXTBOOK) == pytest.approx(0.2003, abs=5e-5)


@pytest.mark.parametrize(
    ("k", "alphas"),
    [
        (1, [0.10, 0.25, 0.40, 0.50, 0.65, 0.80, 1.0]),
        (2, [0.09, 0.21, 0.31, 0.37, 0.45, 0.53, 0.62]),
        (4, [0.09, 0.20, 0.29, 0.34, 0.40, 0.46, 0.52]),
        (8, [0.09, 0.20, 0.29, 0.33, 0.39, 0.45, 0.50]),
    ],
)
def test_break_even(k, alphas):
    found = [break_even(k, 0.0, 1.0, overhead) for overhead in (0.10, 0.25, 0.40, 0.50, 0.65, 0.80, 1.0)]
    assert found == pytest.approx(alphas, abs=0.0101)


@pytest.mark.parametrize(
    ("cost", "best"),
    [
        (0.02, [(3, 1.34), (3, 1.53), (4, 1.79), (6, 2.17), (8, 2.76), (11, 3.82), (16, 6.3)]),
        (0.05, [(2, 1.26), (2, 1.42), (3, 1.63), (4, 1.92), (6, 2.35), (8, 3.09), (13, 4.7)]),
        (0.10, [(1, 1.18), (2, 1.30), (2, 1.46), (3, 1.67), (4, 1.98), (6, 2.47), (10, 3.4)]),
        (0.20, [(1, 1.08), (1, 1.17), (1, 1.25), (2, 1.40), (3, 1.58), (4, 1.87), (7, 2.4)]),
        (0.30, [(0, 1.00), (1, 1.08), (1, 1.15), (1, 1.23), (2, 1.37), (3, 1.55), (5, 1.9)]),
    ],
)
def test_the_best_lookahead(cost, best):
    for alpha, (k, gain) in zip((0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), best, strict=True):
        found, reached = best_k(alpha, cost / 2, lambda k: 1 + k * cost / 2)
        assert reached == pytest.approx(gain, abs=0.1 if alpha == 0.9 else 0.0051)
        # Two neighbours may be equally good to the digits that the table has; it was searched up to 16.
        assert speedup(alpha, max(k, 1), cost) == pytest.approx(speedup(alpha, max(found, 1), cost), rel=1e-2)


def test_a_target_that_is_bound_by_arithmetic_never_gains():
    assert best_k(0.99, 0.01, lambda k: k + 1.0) == (0, 1.0)


def test_alphas_of_their_own():
    assert expected_tokens([0.5, 0.5, 1.0], 2) == 1.75
    assert best_k([1.0, 1.0, 0.0], 0.1)[0] == 2


def test_what_never_and_what_always_pays():
    assert break_even(2, 1.5) is None
    assert break_even(2, 0.0, 0.9) == 0.0


@given(k=st.integers(1, 12), cost=st.floats(0.01, 0.9), verify=st.floats(1.0, 2.0), overhead=st.floats(0, 0.5))
def test_at_break_even_nothing_is_gained_or_lost(k, cost, verify, overhead):
    alpha = break_even(k, cost, verify, overhead)
    if alpha is None:
        assert break_even_drafts(k, cost, verify, overhead) > k
    else:
        assert speedup(alpha, k, cost, verify, overhead) == pytest.approx(1.0)
