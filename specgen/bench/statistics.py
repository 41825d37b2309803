"""Statistics of paired measurements: pure functions.

The unit is a prompt. Its speedup is the median speed of one arm over the repeats, over that of the other arm on the
same prompt; prompts are combined by their geometric mean, so that 2x on one and 0.5x on another make 1x, and the
speedup of A over B is one over that of B over A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from random import Random
from statistics import median

Pairs = Sequence[tuple[float, float]]
"""The speeds of an arm and of what it is compared with, for each repeat of one prompt."""

_RESAMPLES = 1000
_MOST_DRAWS = 256


def geometric_mean(values: Sequence[float]) -> float:
    """The n-th root of the product of n positive values."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies, interpolated between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def ratio(repeats: Pairs) -> float:
    """The speedup on one prompt."""
    return median(one for one, _ in repeats) / median(other for _, other in repeats)


def speedup(prompts: Sequence[Pairs]) -> float:
    """The speedup over some prompts: the geometric mean of theirs."""
    return geometric_mean([ratio(repeats) for repeats in prompts])


def interval(
    prompts: Sequence[Pairs], rng: Random, *, level: float = 0.95, resamples: int = _RESAMPLES
) -> tuple[float, float] | None:
    """A percentile bootstrap interval of the speedup, paired in both levels.

    Prompts are drawn with replacement, and for each one drawn its repeats, an arm's and the other's together.

    Args:
        prompts: for each its repeats.
        rng: draws them.
        level: the share of draws that lie in the interval.
        resamples: how often to draw.

    Returns:
        Its ends; None where there is one measurement only, which says nothing of its own error.
    """
    if len(prompts) < 2 and all(len(repeats) < 2 for repeats in prompts):
        return None
    drawn = [_redrawn(repeats, rng) for repeats in prompts]
    means = []
    for _ in range(resamples):
        total = math.fsum(rng.choice(rng.choice(drawn)) for _ in drawn)
        means.append(math.exp(total / len(drawn)))
    return quantile(means, (1 - level) / 2), quantile(means, (1 + level) / 2)


def _redrawn(repeats: Pairs, rng: Random) -> list[float]:
    """Logarithms of the speedup on one prompt under redrawn repeats: every draw where they are few, else some."""
    count = len(repeats)
    if count**count <= _MOST_DRAWS:
        return [math.log(ratio(draw)) for draw in product(repeats, repeat=count)]
    return [math.log(ratio(rng.choices(repeats, k=count))) for _ in range(_MOST_DRAWS)]
