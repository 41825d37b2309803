"""What rounds cost, measured as they are played: draft steps, and target passes by rows and columns."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from specgen.decoding.events import Round

_WINDOW = 9
_FOLLOW = 0.5  # how much of a change of pace is believed after one round
_WILDEST = 5.0
# What one more column of a pass is thought to add, in plain steps, before two widths were measured.
_SLOPE = 0.04


def alike(known: int, rows: int) -> bool:
    """Whether rounds of so many rows take about as long: a third more or less of them."""
    return 0.75 <= known / rows <= 1.34


def nearest(known: Iterable[int], rows: int) -> int:
    """The number of rows that is nearest, of equals the smaller."""
    return min(known, key=lambda one: (abs(one - rows), one))


class Costs:
    """Seconds by the number of rows, as medians of the last few rounds, so that one slow round changes nothing.

    Only ratios matter to a decision, and a shared machine may run at half its speed for a while. So what everything has
    in common, the *pace*, is followed from round to round and taken out: seconds are those of a machine at pace 1. A
    number of rows that was not measured costs what the nearest one does.

    Args:
        learned: what ``as_data`` returned in an earlier run.
    """

    def __init__(self, learned: Mapping[str, Any] | None = None) -> None:
        self._passes: dict[int, dict[int, deque[float]]] = {}  # rows, then drafts in the pass
        self._steps: dict[int, deque[float]] = {}
        self._pace = 1.0
        for rows, passes in (learned or {}).get("passes", {}).items():
            for k, seconds in passes.items():
                self.add_pass(int(rows), int(k), float(seconds))
        for rows, seconds in (learned or {}).get("steps", {}).items():
            self.add_step(int(rows), float(seconds))

    def as_data(self) -> dict[str, Any]:
        """Return the medians, for the next run."""
        return {
            "passes": {
                str(rows): {str(k): round(median(seen), 6) for k, seen in passes.items()}
                for rows, passes in self._passes.items()
            },
            "steps": {str(rows): round(median(seen), 6) for rows, seen in self._steps.items()},
        }

    def add_pass(self, rows: int, k: int, seconds: float) -> None:
        """Note a pass of the target over ``k`` drafts a row, with all that a round costs besides drafting."""
        self._passes.setdefault(rows, {}).setdefault(k, deque(maxlen=_WINDOW)).append(seconds)

    def add_step(self, rows: int, seconds: float) -> None:
        """Note a step of the draft that drafts one token a row."""
        self._steps.setdefault(rows, deque(maxlen=_WINDOW)).append(seconds)

    def learn(self, played: Sequence[Round], k: int, *, steady: bool) -> float:
        """Note a round of all rows, and return what it would have taken at pace 1.

        Args:
            played: what happened in each row.
            k: the width of the proposal.
            steady: whether the draft had nothing to catch up on.
        """
        rows, first = len(played), played[0]
        passed = max(first.seconds - first.draft_seconds, 0.0)
        drafted = first.draft_seconds if first.source == "draft" and steady and k else None
        took = expected = 0.0
        if k in self._passes.get(rows, ()):
            took, expected = passed, median(self._passes[rows][k])
        if drafted is not None and rows in self._steps:
            took, expected = took + drafted, expected + k * median(self._steps[rows])
        if expected > 0:
            self._pace += _FOLLOW * (min(max(took / expected, 1 / _WILDEST), _WILDEST) - self._pace)
        self.add_pass(rows, k, passed / self._pace)
        if drafted is not None:
            self.add_step(rows, drafted / k / self._pace)
        return first.seconds / self._pace

    def measured(self, rows: int) -> bool:
        """Whether the target alone was measured with about so many rows."""
        return any(0 in passes and alike(known, rows) for known, passes in self._passes.items())

    def plain(self, rows: int) -> float | None:
        """Seconds of a plain step; None until it was measured."""
        known = self._near(rows)
        return None if known is None else median(known[0])

    def step(self, rows: int) -> float | None:
        """Seconds of a draft step; None until it was measured."""
        if not self._steps:
            return None
        return median(self._steps[nearest(self._steps, rows)])

    def verify(self, rows: int, k: int) -> float:
        """Seconds of a target pass over ``k`` drafts a row: measured, or on the line between what was measured."""
        known = self._near(rows)
        assert known is not None
        if k in known:
            return median(known[k])
        widths = sorted(known)
        below = max(width for width in widths if width < k)
        above = min((width for width in widths if width > k), default=None)
        low, plain = median(known[below]), median(known[0])
        if above is not None:
            return low + (median(known[above]) - low) * (k - below) / (above - below)
        # Past everything that was measured: as steep as it was so far.
        slope = (low - plain) / below if below else _SLOPE * plain
        return low + max(slope, _SLOPE * plain / 4) * (k - below)

    def reach(self, rows: int) -> int:
        """The widest pass that is worth trying: about twice as wide as any so far, in case it costs much more."""
        known = self._near(rows)
        return 2 * max(known) + 2 if known else 0

    def _near(self, rows: int) -> dict[int, deque[float]] | None:
        found = [known for known, passes in self._passes.items() if 0 in passes]
        return self._passes[nearest(found, rows)] if found else None
