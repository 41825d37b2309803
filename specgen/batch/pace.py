"""How many tokens to propose for so many rows: what was measured to be fastest, the target alone included."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median

_TRIALS = 3
_EVERY = 96
_FORGET = 0.95


class _Arm:
    """One lookahead: tokens and seconds, older rounds counting less."""

    def __init__(self) -> None:
        self.count = 0
        self._tokens = self._seconds = 0.0

    def add(self, tokens: int, seconds: float) -> None:
        self.count += 1
        self._tokens = _FORGET * self._tokens + tokens
        self._seconds = _FORGET * self._seconds + seconds

    @property
    def speed(self) -> float:
        return self._tokens / self._seconds if self._seconds else 0.0


class Pace:
    """Chooses the lookahead of every round by the number of rows in it.

    For each number of rows, every candidate is tried for a few rounds, the target alone first, which is the baseline of
    the speedup; then the fastest is taken, and the others are looked at now and then. All of their tokens are kept.

    Args:
        most: the largest lookahead.
        baseline: whether the target alone may be tried; False always proposes ``most``.
    """

    def __init__(self, most: int, *, baseline: bool = True) -> None:
        self.most = most
        self._candidates = sorted({0, (most + 1) // 2, most}) if baseline else [most]
        self._arms: dict[int, dict[int, _Arm]] = defaultdict(lambda: {k: _Arm() for k in self._candidates})
        self._rounds: dict[int, int] = defaultdict(int)
        self._plain: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=32))
        self._last = -1

    def choose(self, rows: int) -> int:
        """Tokens to propose in the next round of ``rows`` rows."""
        arms = self._arms[rows]
        untried = next((k for k, arm in arms.items() if arm.count < _TRIALS), None)
        if untried is not None:
            return untried
        best = max(arms, key=lambda k: arms[k].speed)
        since = self._rounds[rows] % _EVERY
        if since < 2 and len(arms) > 1:
            others = [k for k in arms if k != best and arms[k].speed > 0.6 * arms[best].speed]
            if others:
                return others[self._rounds[rows] // _EVERY % len(others)]
        return best

    def observe(self, rows: int, wanted: int, asked: int, tokens: int, seconds: float, *, plain: bool) -> None:
        """Learn from a round.

        Args:
            rows: how many played it.
            wanted: the lookahead that was chosen.
            asked: the one that there was room for.
            tokens: committed in all rows.
            seconds: of the round.
            plain: whether nothing was proposed in any row, as when a lookup finds nothing.
        """
        self._rounds[rows] += 1
        if plain:
            self._plain[rows].append(seconds)
        # The first proposal after plain rounds makes the draft read what it missed: no measure of what follows.
        steady = not asked or self._last != 0
        if wanted == asked and wanted in self._arms[rows] and steady:
            self._arms[rows][wanted].add(tokens, seconds)
        self._last = asked

    def plain_seconds(self, rows: int) -> float | None:
        """Seconds of a round of the target alone, which gives every row a token; None until it was measured."""
        measured = self._plain.get(rows)
        return median(measured) if measured else None
