"""How many rows fit side by side."""

from __future__ import annotations

from specgen.profile import Profile

# Where more rows give hardly more tokens a second, or where latency becomes absurd.
MOST = {"cpu": 16}
MOST_ELSEWHERE = 64
PROMPT = 1024
"""Tokens of a prompt that the plan allows for; longer ones grow the cache, or shrink the batch."""


def rows_that_fit(profile: Profile, *, max_tokens: int, lookahead: int, offline: bool = True) -> int:
    """The most rows that the memory plan allows, in powers of two; at least 1.

    Args:
        profile: the pair, on its devices; not loaded yet, or loaded on the host.
        max_tokens: tokens that each row may generate.
        lookahead: tokens proposed a round.
        offline: plan from what is on this machine.
    """
    from specgen.memory.errors import CannotTell, DoesNotFit
    from specgen.memory.preflight import check_fits, planner_for

    most = MOST["cpu"] if _on_host(profile) else MOST_ELSEWHERE
    try:
        planner = planner_for(profile, offline=offline)
    except CannotTell:
        return most // 2

    def fits(rows: int) -> bool:
        try:
            check_fits(
                profile, context=PROMPT + max_tokens, batch=rows, lookahead=lookahead, offline=offline, planner=planner
            )
        except DoesNotFit:
            return False
        return True

    rows = most
    while rows > 1 and not fits(rows):
        rows //= 2
    return rows


def _on_host(profile: Profile) -> bool:
    from specgen.models.devices import pick_devices

    return all(device.type == "cpu" for device in pick_devices(profile.target.device))
