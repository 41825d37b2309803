"""Which lookahead a pair should have, decided from a measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from time import perf_counter
from typing import Literal

from specgen.api import Request
from specgen.bench.arms import REFERENCE, SpecgenArm
from specgen.bench.report import FIXED, Gain, Table, decode_speed
from specgen.bench.run import Sample, complete
from specgen.models.load import Pair

AUTO = "auto"
_WORTH_IT = 1.02  # a gain that is worth giving up what follows the text


@dataclass(frozen=True, slots=True)
class Decision:
    """What was found.

    Attributes:
        lookahead: what to put into the profile; 0 is the target alone.
        over_alone: the speed of that over the target alone.
        auto: the speed of the adaptive lookahead over the target alone.
        rival: the fastest of the fixed lookaheads and the target alone.
        over_auto: its speed over that of the adaptive lookahead.
        prompts: that were measured.
    """

    lookahead: int | Literal["auto"]
    over_alone: Gain
    auto: Gain
    rival: int
    over_auto: Gain
    prompts: int

    def why(self) -> str:
        """The reason, in a line."""
        rival = f"k = {self.rival}" if self.rival else "the target alone"
        beside = f"{self.over_auto.value:.2f}x the speed of auto"
        if self.over_auto.low is not None and self.over_auto.high is not None:
            beside += f" (95 %: {self.over_auto.low:.2f} to {self.over_auto.high:.2f})"
        if self.lookahead == AUTO:
            return f"{rival}, the fastest fixed lookahead, had {beside}, which is not surely worth it"
        return f"{rival} had {beside}"


def candidates(
    pair: Pair, lookaheads: Sequence[int], *, clock: Callable[[], float] = perf_counter
) -> Iterator[SpecgenArm]:
    """The arms to choose from: the target alone, fixed lookaheads, and the adaptive one, as a profile has them."""
    plain = Request(baseline=False)
    yield SpecgenArm(pair, REFERENCE, "k = 0", replace(plain, lookahead=0), clock=clock)
    for k in dict.fromkeys(lookaheads):
        yield SpecgenArm(pair, _name(k), "fixed", replace(plain, lookahead=k), FIXED, clock)
    yield SpecgenArm(pair, AUTO, "adaptive", replace(plain, lookahead="auto", baseline=True), clock=clock)


def decide(samples: Sequence[Sample], lookaheads: Sequence[int], *, rng: Random) -> Decision | None:
    """Choose the adaptive lookahead, unless a fixed one, or none, was faster beyond doubt.

    The adaptive one is preferred in doubt because it follows what a measurement of a few prompts has not seen.

    Args:
        samples: of the candidates, at one temperature.
        lookaheads: the fixed ones.
        rng: for the intervals.

    Returns:
        What to do; None where no prompt was measured by every candidate.
    """
    names = {_name(k): k for k in (0, *lookaheads)}
    table = Table(complete(samples, (*names, AUTO)), rng)
    if not table.samples:
        return None
    rival = max(names, key=lambda name: table.rate(name, decode_speed))
    over_auto = table.gain(rival, AUTO, decode_speed)
    surely = over_auto.value >= _WORTH_IT and over_auto.low is not None and over_auto.low > 1
    chosen = rival if surely else AUTO
    return Decision(
        lookahead=names[rival] if surely else "auto",
        over_alone=table.gain(chosen, REFERENCE, decode_speed),
        auto=table.gain(AUTO, REFERENCE, decode_speed),
        rival=names[rival],
        over_auto=over_auto,
        prompts=len(table.prompts),
    )


def _name(k: int) -> str:
    return f"k {k}" if k else REFERENCE
