"""Whether a pair would pay, from three times and an acceptance: the cost model put into words, without any model.

Speedup is tokens a round over what the round costs in plain steps (``specgen.decoding.speedup``). Which speedup an
acceptance of 60 % means depends on what was counted, so all readings of the number are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specgen.decoding import speedup as model

_SHOWN = 8  # lookaheads in the curve, at least
_MOST = 64


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured milliseconds.

    Attributes:
        draft: one draft token.
        plain: one token of the target alone.
        verify: the target's pass over ``lookahead`` drafts and one token.
        overhead: of a round besides.
        lookahead: the ``k`` that ``verify`` was measured at.
    """

    draft: float
    plain: float
    verify: float
    overhead: float
    lookahead: int

    def verify_steps(self, k: int) -> float:
        """The pass over ``k`` drafts in plain steps: it grows evenly from a plain step to what was measured."""
        measured = self.verify / self.plain
        return 1 + (measured - 1) * k / self.lookahead if measured > 1 else measured

    def round_ms(self, k: int) -> float:
        """Milliseconds of a round."""
        return k * self.draft + self.verify_steps(k) * self.plain + self.overhead

    def steps(self, k: int) -> tuple[float, float, float]:
        """Draft, verify and overhead in plain steps, as the cost model takes them."""
        return self.draft / self.plain, self.verify_steps(k), self.overhead / self.plain


@dataclass(frozen=True, slots=True)
class Point:
    """One lookahead of the curve.

    Attributes:
        k: tokens proposed a round.
        tokens: tokens a round, the target's own included.
        speedup: over the target alone.
    """

    k: int
    tokens: float
    speedup: float


@dataclass(frozen=True, slots=True)
class Reading:
    """What an acceptance can mean.

    Attributes:
        name: ``alpha``, ``rate``, ``no_bonus`` or ``nothing``.
        accepted: drafts accepted a round.
        tokens: tokens counted a round.
        speedup: that this would be.
    """

    name: str
    accepted: float
    tokens: float
    speedup: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """The answer.

    Attributes:
        costs: what was measured.
        alpha: the acceptance that was given, of the tested drafts.
        asked: the curve at the lookahead that was asked about.
        curve: from the target alone on.
        best: its highest point; ``k`` is 0 where no lookahead pays.
        break_even_alpha: what pays at the lookahead asked about; None where nothing would.
        break_even_rate: the same as a share of the proposed.
        lowest_alpha: above which some lookahead pays.
        lowest_k: which one; None where none does.
        readings: what the acceptance could mean instead.
    """

    costs: Costs
    alpha: float
    asked: Point
    curve: tuple[Point, ...]
    best: Point
    break_even_alpha: float | None
    break_even_rate: float
    lowest_alpha: float | None
    lowest_k: int | None
    readings: tuple[Reading, ...]

    @property
    def pays(self) -> bool:
        """Whether some lookahead is faster than the target alone."""
        return self.best.k > 0

    def as_data(self) -> dict[str, Any]:
        """The answer as plain data, for JSON."""
        return {
            "draft_ms": self.costs.draft,
            "plain_ms": self.costs.plain,
            "verify_ms": self.costs.verify,
            "overhead_ms": self.costs.overhead,
            "round_ms": self.costs.round_ms(self.costs.lookahead),
            "lookahead": self.costs.lookahead,
            "alpha": self.alpha,
            "tokens_per_round": self.asked.tokens,
            "speedup": self.asked.speedup,
            "pays": self.pays,
            "best": _as_data(self.best),
            "break_even_alpha": self.break_even_alpha,
            "break_even_rate": self.break_even_rate,
            "lowest_alpha": self.lowest_alpha,
            "lowest_alpha_lookahead": self.lowest_k,
            "curve": [_as_data(point) for point in self.curve],
            "readings": {
                one.name: {"accepted": one.accepted, "tokens": one.tokens, "speedup": one.speedup}
                for one in self.readings
            },
        }


def _as_data(point: Point) -> dict[str, Any]:
    return {"lookahead": point.k, "tokens_per_round": point.tokens, "speedup": point.speedup}


def estimate(costs: Costs, alpha: float) -> Estimate:
    """Work out what a pair gains.

    Args:
        costs: measured, all above zero but the overhead.
        alpha: accepted of tested, from 0 to 1.
    """
    k = costs.lookahead
    points = [_point(costs, alpha, one) for one in range(_MOST + 1)]
    best = max(points, key=lambda point: point.speedup)
    shown = min(max(_SHOWN, k, best.k + 2), _MOST)
    drafts = model.break_even_drafts(k, *costs.steps(k))
    lowest = min(
        ((found, one) for one in range(1, _MOST + 1) if (found := _break_even(costs, one)) is not None), default=None
    )
    return Estimate(
        costs=costs,
        alpha=alpha,
        asked=points[k],
        curve=tuple(points[: shown + 1]),
        best=best,
        break_even_alpha=_break_even(costs, k),
        break_even_rate=max(drafts / k, 0.0),
        lowest_alpha=lowest and lowest[0],
        lowest_k=lowest and lowest[1],
        readings=tuple(_readings(costs, alpha)),
    )


def _break_even(costs: Costs, k: int) -> float | None:
    return model.break_even(k, *costs.steps(k))


def _point(costs: Costs, alpha: float, k: int) -> Point:
    if not k:
        return Point(0, 1.0, 1.0)
    return Point(k, model.expected_tokens(alpha, k), model.speedup(alpha, k, *costs.steps(k)))


def _readings(costs: Costs, number: float) -> Iterator[Reading]:
    """The speedups of one number, by what it counts; each is tokens a round over the round's cost."""
    k = costs.lookahead
    cost = model.round_cost(k, *costs.steps(k))
    tokens = model.expected_tokens(number, k)
    yield Reading("alpha", tokens - 1, tokens, tokens / cost)
    yield Reading("rate", number * k, number * k + 1, (number * k + 1) / cost)
    yield Reading("no_bonus", number * k, number * k, number * k / cost)
    yield Reading("nothing", 0.0, 1.0, 1 / cost)
