"""How many rows side by side: what fits, and what is worth it."""

from __future__ import annotations

from specgen.profile import Profile

# Where more rows give hardly more tokens a second, or where latency becomes absurd.
MOST_ON_HOST = 32
MOST_ELSEWHERE = 64
PROMPT = 1024
"""Tokens of a prompt that the plan allows for; longer ones grow the cache, or shrink the batch."""


_FIRST = 4
_JUDGED = 24
_WORTH = 1.1


class Seats:
    """How many of the rows to use: twice as many while that gives clearly more tokens a second.

    Args:
        most: rows that there is room for.
        measured: whether to begin with a few and measure; False uses all of them.
    """

    def __init__(self, most: int, *, measured: bool) -> None:
        self.limit = min(most, _FIRST) if measured else most
        self.most = self.planned = most
        self._settled = not measured
        self._before = 0.0
        self._tokens, self._seconds, self._rounds = 0, 0.0, 0

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """Learn from a round of ``rows`` rows."""
        if self._settled or rows != self.limit:
            return
        self._tokens, self._seconds, self._rounds = self._tokens + tokens, self._seconds + seconds, self._rounds + 1
        if self._rounds < _JUDGED:
            return
        speed = self._tokens / self._seconds
        self._tokens, self._seconds, self._rounds = 0, 0.0, 0
        if self._before and speed < _WORTH * self._before:
            self._settled = True
            if speed < self._before:
                self.limit //= 2
        elif self.limit == self.most:
            self._settled = True
        else:
            self._before, self.limit = speed, min(2 * self.limit, self.most)

    def resize(self, most: int) -> None:
        """Use ``most`` from now on, as after memory ran out."""
        self.limit, self.most, self._settled = most, most, True


def rows_that_fit(
    profile: Profile, *, max_tokens: int, lookahead: int, columns: int | None = None, offline: bool = True
) -> int:
    """The most rows that the memory plan allows, in powers of two; at least 1.

    Args:
        profile: the pair, on its devices; not loaded yet, or loaded on the host.
        max_tokens: tokens that each row may generate.
        lookahead: tokens proposed a round.
        columns: constant width of the target's passes (strict mode), or None.
        offline: plan from what is on this machine.
    """
    from specgen.memory.errors import CannotTell, DoesNotFit
    from specgen.memory.preflight import check_fits, planner_for

    most = _most(profile)
    try:
        planner = planner_for(profile, offline=offline)
    except CannotTell:
        return unplanned_rows(profile)

    def fits(rows: int) -> bool:
        try:
            check_fits(
                profile,
                context=PROMPT + max_tokens,
                batch=rows,
                lookahead=lookahead,
                columns=columns,
                offline=offline,
                planner=planner,
            )
        except DoesNotFit:
            return False
        return True

    rows = most
    while rows > 1 and not fits(rows):
        rows //= 2
    return rows


def unplanned_rows(profile: Profile) -> int:
    """A number of rows for a pair of which nothing is known beforehand."""
    return _most(profile) // 2


def _most(profile: Profile) -> int:
    from specgen.models.devices import pick_devices

    on_host = all(device.type == "cpu" for device in pick_devices(profile.target.device))
    return MOST_ON_HOST if on_host else MOST_ELSEWHERE
