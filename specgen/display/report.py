"""The report of ``--stats``: where the tokens of a run came from, and where its time went."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.decoding.stats import Stats
from specgen.display.status import number, percent
from specgen.display.styles import ASCII, UNICODE, Signs
from specgen.display.tally import Tally

_BAR = 28
_EIGHTHS = " ▏▎▍▌▋▊▉"


def report(stats: Stats, tally: Tally, *, encoding: str | None = "utf-8") -> list[str]:
    """Return the lines.

    Args:
        stats: of the whole run.
        tally: of its rounds.
        encoding: of the stream that will show them.
    """
    try:
        "█▏…·".encode(encoding or "utf-8")
        signs = UNICODE
    except UnicodeEncodeError:
        signs = ASCII
    lines = [*_speed(stats, signs)]
    if tally.rounds:
        lines += ["", *_acceptance(stats, tally, signs), "", *_lengths(tally, signs)]
    return ["", *lines, "", *_time(stats, tally, signs), "", *_fed(stats, signs)]


def _speed(stats: Stats, signs: Signs) -> Iterator[str]:
    dash = signs.dash
    yield "speed"
    yield f"  this run       {number(stats.tokens_per_second, dash):>7} tok/s, after the prompt"
    yield f"  target alone   {number(stats.baseline_tokens_per_second, dash):>7} tok/s, median in this run"
    yield f"  speedup        {number_2(stats.speedup, dash):>7} x"


def _acceptance(stats: Stats, tally: Tally, signs: Signs) -> Iterator[str]:
    dash = signs.dash
    yield "acceptance by position: accepted of those tested"
    for place in sorted(tally.tested):
        share = tally.accepted[place] / tally.tested[place]
        yield f"  {place + 1:>3}  {bar(share, signs)}  {percent(share, dash):>4}  of {tally.tested[place]}"
    alpha, enough = stats.alpha, tally.break_even_alpha(stats)
    yield f"  alpha {number_2(alpha, dash)} (accepted / tested), break-even {number_2(enough, dash)}"
    yield (
        f"  acceptance rate {percent(stats.acceptance_rate, dash)} (accepted / proposed), "
        f"break-even {percent(tally.break_even_rate(stats), dash)}"
    )


def _lengths(tally: Tally, signs: Signs) -> Iterator[str]:
    yield "accepted length: rounds by how many drafts they accepted"
    most = max(tally.lengths.values())
    for length in range(max(tally.lengths) + 1):
        count = tally.lengths[length]
        yield f"  {length:>3}  {bar(count / most, signs)}  {count:>4}"
    mean = 1 + sum(length * count for length, count in tally.lengths.items()) / tally.rounds
    yield f"  {mean:.2f} tokens a round, the target's own included"


def _time(stats: Stats, tally: Tally, signs: Signs) -> Iterator[str]:
    parts = [
        ("prompt", stats.prefill_seconds),
        ("draft", stats.draft_seconds),
        ("verify", stats.verify_seconds),
        ("own", stats.own_seconds),
    ]
    total = sum(seconds for _, seconds in parts)
    yield f"time: {total:.2f} s"
    for name, seconds in parts:
        share = seconds / total if total else 0.0
        yield f"  {name:<7}{bar(share, signs)}  {percent(share, signs.dash):>4}  {seconds:.2f} s"
    if tally.plain_seconds and tally.rounds:
        yield f"  {tally.plain_seconds:.2f} s of verify were the target alone, {stats.rounds - tally.rounds} rounds"


def _fed(stats: Stats, signs: Signs) -> Iterator[str]:
    yield "positions computed"
    cached = f", {stats.cached_tokens} from the cache" if stats.cached_tokens else ""
    for name, count in stats.fed.items():
        each = number_2(count / stats.tokens if stats.tokens else None, signs.dash)
        yield f"  {name:<7}{count:>7}  {each} a token of text"
    yield f"  the prompt has {stats.prompt_tokens} tokens{cached}, the text {stats.tokens}"


def number_2(value: float | None, dash: str) -> str:
    """Return a number with two decimals, or the dash."""
    return dash if value is None else f"{value:.2f}"


def bar(share: float, signs: Signs) -> str:
    """Return a bar for a share of 1."""
    if signs is ASCII:
        return (signs.bar * round(share * _BAR)).ljust(_BAR, ".")
    whole, eighth = divmod(round(share * _BAR * 8), 8)
    return (signs.bar * whole + (_EIGHTHS[eighth] if eighth else "")).ljust(_BAR)
