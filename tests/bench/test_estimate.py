"""The estimate against the textbook's numbers, and its parts against each other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgen.bench.estimate import Costs, estimate
from specgen.decoding.speedup import expected_tokens

TEXTBOOK = Costs(draft=5, plain=80, verify=80, overhead=0, lookahead=4)
times = st.floats(0.1, 500)
costs = st.builds(
    Costs, draft=times, plain=times, verify=times, overhead=st.floats(0, 50), lookahead=st.integers(1, 64)
)


def reading(found, name):
    return next(one for one in found.readings if one.name == name)


def test_what_sixty_percent_can_mean():
    found = estimate(TEXTBOOK, 0.6)
    alpha, rate = reading(found, "alpha"), reading(found, "rate")
    assert (alpha.tokens, alpha.speedup) == (pytest.approx(2.306, abs=5e-4), pytest.approx(1.844, abs=5e-4))
    assert (rate.accepted, rate.tokens, rate.speedup) == pytest.approx((2.4, 3.4, 2.72))
    assert reading(found, "no_bonus").speedup == pytest.approx(1.92)


def test_one_token_in_a_round_of_100_ms_is_a_loss():
    assert TEXTBOOK.round_ms(4) == 100
    nothing = reading(estimate(TEXTBOOK, 0.6), "nothing")
    assert (nothing.accepted, nothing.tokens, nothing.speedup) == (0, 1, pytest.approx(0.8))
    assert estimate(TEXTBOOK, 0.0).asked.speedup == pytest.approx(0.8)
    assert not estimate(TEXTBOOK, 0.0).pays


def test_break_even():
    found = estimate(TEXTBOOK, 0.6)
    assert found.break_even_alpha == pytest.approx(0.2003, abs=5e-5)
    assert found.break_even_rate == pytest.approx(0.0625)
    assert (found.lowest_k, found.lowest_alpha) == (1, pytest.approx(0.0625))


def test_a_draft_that_is_slower_than_the_target_never_pays():
    found = estimate(Costs(90, 80, 80, 0, 4), 1.0)
    assert not found.pays
    assert (found.best.k, found.best.speedup) == (0, 1.0)
    assert (found.break_even_alpha, found.lowest_alpha, found.lowest_k) == (None, None, None)


def test_verify_grows_from_a_plain_step():
    measured = Costs(5, 80, 120, 0, 4)
    assert [measured.verify_steps(k) for k in (0, 2, 4, 8)] == pytest.approx([1, 1.25, 1.5, 2])
    assert measured.round_ms(4) == pytest.approx(140)


@settings(deadline=None)
@given(costs, st.floats(0, 1))
def test_the_curve_agrees_with_the_answer(one, alpha):
    found = estimate(one, alpha)
    assert found.curve[0].speedup == 1.0
    assert found.asked == found.curve[one.lookahead]
    assert found.best in found.curve
    assert all(point.speedup <= found.best.speedup for point in found.curve)
    assert found.asked.speedup == pytest.approx(
        expected_tokens(alpha, one.lookahead) * one.plain / one.round_ms(one.lookahead)
    )


@settings(deadline=None)
@given(costs)
def test_break_even_is_where_nothing_is_gained(one):
    found = estimate(one, 0.5)
    if found.break_even_alpha:
        assert estimate(one, found.break_even_alpha).asked.speedup == pytest.approx(1.0)
    elif found.break_even_alpha is None:
        assert estimate(one, 1.0).asked.speedup <= 1 + 1e-9
    else:
        assert estimate(one, 0.0).asked.speedup >= 1 - 1e-9
