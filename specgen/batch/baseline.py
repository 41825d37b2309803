"""What a round of the target alone takes, by the number of rows in it."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median

from specgen.decoding.costs import alike, nearest

_WINDOW = 32


class Baseline:
    """Medians of the plain rounds that were played."""

    def __init__(self) -> None:
        self._seconds: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=_WINDOW))

    def add(self, rows: int, seconds: float) -> None:
        """Note a round in which nothing was proposed."""
        self._seconds[rows].append(seconds)

    def seconds(self, rows: int) -> float | None:
        """Seconds of a round that gives every row a token.

        Rows that were not measured take what about as many do, a third more or less; None where nothing near was.
        """
        near = [known for known in self._seconds if alike(known, rows)]
        return median(self._seconds[nearest(near, rows)]) if near else None
