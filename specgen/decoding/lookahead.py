"""How many tokens to propose next. A policy decides before a token is drawn, never after seeing it."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Protocol

from specgen.decoding.events import Round

_JUDGED = 6  # speculative rounds that are judged together
_PAUSE = 32  # tokens for which drafting stops at first


class Lookahead(Protocol):
    """A policy for the number of tokens proposed in a round."""

    most: int
    """The largest lookahead it will ever choose; caches are sized by it."""

    def choose(self) -> int:
        """Tokens to propose in the next round; 0 is a plain round."""

    def observe(self, played: Round) -> None:
        """Learn from a round."""


class FixedLookahead:
    """Always ``k``, but for a few plain rounds that measure the target alone.

    The tokens of a plain round are kept, so measuring costs only what those rounds would have gained.

    Args:
        k: tokens proposed a round.
        first: plain rounds at the start.
        every: tokens from one later plain round to the next, to follow the cost of a growing context.
    """

    def __init__(self, k: int, *, first: int = 4, every: int = 64) -> None:
        self.most = k
        self._pending = first
        self._every = every
        self._since = 0

    def choose(self) -> int:
        """``k``, or 0 when the target alone is due to be measured."""
        return 0 if self._pending else self.most

    def observe(self, played: Round) -> None:
        """Count towards the next plain round."""
        if played.plain:
            self._pending = max(self._pending - 1, 0)
            self._since = 0
            return
        self._since += len(played.tokens)
        if self._every and self._since >= self._every:
            self._pending = 1


def fixed(k: int, *, baseline: bool = True) -> FixedLookahead:
    """A fixed lookahead, with or without the plain rounds that measure the target alone."""
    return FixedLookahead(k) if baseline else FixedLookahead(k, first=0, every=0)


class GuardedLookahead:
    """Up to ``k`` where speculation pays, and the target alone where it has been seen not to.

    Speculative rounds are compared with plain ones as they go; when the last few were slower, drafting stops for a
    while, twice as long each time.

    Args:
        k: tokens proposed a round at most.
        first: plain rounds at the start.
    """

    def __init__(self, k: int, *, first: int = 4) -> None:
        self.most = k
        self._pending = first
        self._plain: deque[float] = deque(maxlen=16)
        self._recent: deque[tuple[int, float]] = deque(maxlen=_JUDGED)
        self._pause = self._off = 0

    def choose(self) -> int:
        """``k``, or 0 while the target alone is measured or known to be faster."""
        return 0 if self._pending or self._off > 0 else self.most

    def observe(self, played: Round) -> None:
        """Learn from a round."""
        self._pending = max(self._pending - 1, 0)
        self._off = max(self._off - len(played.tokens), 0)
        if played.plain:
            self._plain.append(played.seconds)
            return
        self._recent.append((len(played.tokens), played.seconds))
        if len(self._recent) < _JUDGED or not self._plain:
            return
        tokens, seconds = (sum(column) for column in zip(*self._recent, strict=True))
        if tokens * median(self._plain) >= seconds:
            self._pause //= 2
            return
        self._pause = self._off = min(max(2 * self._pause, _PAUSE), 16 * _PAUSE)
        self._recent.clear()
