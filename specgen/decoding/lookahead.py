"""How many tokens to propose next: the protocol, and a fixed number. ``adaptive`` has the one that learns.

A policy decides before a token is drawn, never after seeing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from specgen.decoding.events import Round

Evidence = Sequence[Sequence[int]]
"""For each row, what is known of each token proposed so far; see ``calibration``."""


class Lookahead(Protocol):
    """A policy for the number of tokens proposed in a round."""

    most: int
    """The largest lookahead it will ever choose; caches are sized by it."""

    why: str
    """Why nothing is drafted; empty while something is."""

    def choose(self, rows: int = 1) -> int:
        """Tokens to propose at most in the next round of ``rows`` rows; 0 is a plain round."""

    def go_on(self, drafted: Evidence) -> bool:
        """Whether to draft one more token after these, in every row."""

    def columns(self, found: Evidence, *, drafting: bool) -> int:
        """How many tokens of what a lookup found to verify; 0 leaves it.

        Args:
            found: of the tokens found, which need not be equally many in every row.
            drafting: whether the draft would propose instead, or nobody.
        """

    def observe(self, played: Sequence[Round]) -> None:
        """Learn from a round of all rows."""


class FixedLookahead:
    """Always ``k``, but for a few plain rounds that measure the target alone.

    The tokens of a plain round are kept, so measuring costs only what those rounds would have gained.

    Args:
        k: tokens proposed a round.
        first: plain rounds at the start, and half as many for every other number of rows.
        every: tokens a row from one later plain round to the next, to follow the cost of a growing context.
    """

    why = ""

    def __init__(self, k: int, *, first: int = 4, every: int = 64) -> None:
        self.most = k
        self._first, self._every = first, every
        self._pending: dict[int, int] = {}
        self._since = 0

    def choose(self, rows: int = 1) -> int:
        """``k``, or 0 when the target alone is due to be measured."""
        first = self._first if not self._pending else self._first // 2
        return 0 if self._pending.setdefault(rows, first) else self.most

    def go_on(self, drafted: Evidence) -> bool:  # noqa: ARG002
        """All ``k`` are drafted."""
        return True

    def columns(self, found: Evidence, *, drafting: bool) -> int:  # noqa: ARG002
        """All that was found is verified."""
        return max(map(len, found))

    def observe(self, played: Sequence[Round]) -> None:
        """Count towards the next plain round."""
        rows = len(played)
        if all(one.plain for one in played):
            self._pending[rows] = max(self._pending.get(rows, 0) - 1, 0)
            self._since = 0
            return
        self._since += max(len(one.tokens) for one in played)
        if self._every and self._since >= self._every:
            self._pending[rows] = 1


def fixed(k: int, *, baseline: bool = True) -> FixedLookahead:
    """A fixed lookahead, with or without the plain rounds that measure the target alone."""
    return FixedLookahead(k) if baseline else FixedLookahead(k, first=0, every=0)
