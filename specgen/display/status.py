"""The panel's numbers, as words that fit the room there is."""

from __future__ import annotations

from dataclasses import dataclass

from specgen.decoding.stats import Stats
from specgen.display.renderer import Run
from specgen.display.styles import Signs, Spans, Style, cut, width
from specgen.display.tally import Tally

_GAP = "   "
_GIB = 2**30
_OFF_AFTER = 8


@dataclass(frozen=True, slots=True)
class Moment:
    """What the rows are about.

    Attributes:
        stats: of the run so far.
        tally: likewise.
        elapsed: seconds since the run began.
        memory: bytes in use, or None where nobody knows.
        why: why nothing is drafted, if somebody said so.
    """

    stats: Stats
    tally: Tally
    elapsed: float
    memory: int | None
    why: str | None


def numbers(moment: Moment, room: int, signs: Signs) -> Spans:
    """Return the row with the speedup, as many numbers as fit, the most telling first."""
    stats, dash = moment.stats, signs.dash
    speedup = (f"{number(stats.speedup, dash)}x", Style.STRONG)
    parts = [
        [speedup, (" target alone", Style.PLAIN)],
        [(f"{number(stats.tokens_per_second, dash)} tok/s", Style.PLAIN)],
        [(f"{number(stats.mean_accepted_length, dash)} tokens/round", Style.PLAIN)],
        [(acceptance(moment, dash), Style.PLAIN)],
    ]
    if not _fits(parts, room):
        parts[2] = [(f"{number(stats.mean_accepted_length, dash)}/round", Style.PLAIN)]
    if not _fits(parts, room):
        parts[0] = [speedup]
    return _fitting(parts, room, _GAP if _fits(parts, room) else _GAP[1:])


def _fits(parts: list[list[tuple[str, Style]]], room: int) -> bool:
    return 1 + sum(width(text) for part in parts for text, _ in part) + len(_GAP) * (len(parts) - 1) <= room


def compact(moment: Moment, run: Run, room: int, signs: Signs) -> Spans:
    """Return the only row that a narrow or short terminal has."""
    stats, dash = moment.stats, signs.dash
    parts = [
        [(f"{number(stats.speedup, dash)}x", Style.STRONG)],
        [(f"{number(stats.tokens_per_second, dash)} tok/s", Style.PLAIN)],
        [(f"{number(stats.mean_accepted_length, dash)}/round", Style.PLAIN)],
        [(_count(stats, run), Style.PLAIN)],
    ]
    return _fitting(parts, room, signs.dot)


def acceptance(moment: Moment, dash: str) -> str:
    """Say how many drafts were accepted, and how many would have been enough."""
    rate = moment.tally.break_even_rate(moment.stats)
    enough = "" if rate is None else f", break-even {percent(rate, dash)}"
    return f"accepted {percent(moment.stats.acceptance_rate, dash)}{enough}"


def head(moment: Moment, run: Run, room: int, signs: Signs) -> Spans:
    """Return the rule above the numbers: the pair, what is proposed, and the memory in use."""
    left = signs.dot.join(part for part in (run.profile, drafting(moment, run), run.decoding) if part)
    right = "" if moment.memory is None else f"{moment.memory / _GIB:.1f} GiB"
    return _rule(left, right, room, signs)


def foot(moment: Moment, run: Run, room: int, signs: Signs) -> Spans:
    """Return the rule below: how far the run is."""
    stats = moment.stats
    first = f"first token {stats.ttft * 1000:.0f} ms" if stats.ttft is not None and stats.ttft < 10 else None
    if stats.ttft is not None and first is None:
        first = f"first token {stats.ttft:.1f} s"
    parts = [f"{_count(stats, run)} tokens", first, f"{moment.elapsed:.1f} s"]
    return _rule("", signs.dot.join(part for part in parts if part), room, signs)


def drafting(moment: Moment, run: Run) -> str:
    """Say how many tokens are proposed, or why none are."""
    tally = moment.tally
    # A plain round now and then measures the target alone.
    if tally.lookahead and tally.plain_in_a_row < _OFF_AFTER:
        return f"lookup k={tally.lookahead}" if tally.source == "lookup" else f"k={tally.lookahead}"
    if moment.why or not run.drafts:
        return f"drafting off: {moment.why or 'no draft'}"
    if not moment.stats.rounds:
        return ""
    return "drafting off" if tally.rounds else "measuring the target alone"


def number(value: float | None, dash: str) -> str:
    """Return a number with a decimal, or the dash for one that was not measured."""
    return dash if value is None else f"{value:.1f}"


def percent(value: float | None, dash: str) -> str:
    """Return a share as a percentage."""
    return dash if value is None else f"{value * 100:.0f}%"


def _count(stats: Stats, run: Run) -> str:
    return f"{stats.tokens}/{run.max_tokens}" if run.max_tokens else f"{stats.tokens}"


def _fitting(parts: list[list[tuple[str, Style]]], room: int, gap: str) -> Spans:
    row: list[tuple[str, Style]] = [(" ", Style.PLAIN)]
    used = 1
    for place, part in enumerate(parts):
        needed = sum(width(text) for text, _ in part) + (width(gap) if place else 0)
        if used + needed > room:
            break
        row += [(gap, Style.PLAIN)] * bool(place) + part
        used += needed
    return row


def _rule(left: str, right: str, room: int, signs: Signs) -> Spans:
    line = signs.rule
    ends = width(f"{line} {left} ") if left else 0
    start = [(f"{line} ", Style.QUIET), (left, Style.PLAIN), (" ", Style.PLAIN)] if left else []
    tail = [(f" {right} ", Style.PLAIN), (line, Style.QUIET)] if right else []
    taken = ends + (width(right) + 2 + width(line) if right else 0)
    if taken >= room:
        return cut(start, room - 1, signs.more)
    return [*start, (line * (room - taken), Style.QUIET), *tail]
