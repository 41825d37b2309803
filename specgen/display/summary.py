"""The one line that a run leaves on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specgen.decoding.events import FinishReason

if TYPE_CHECKING:
    from specgen.decoding.stats import Stats

_NOT_MEASURED = "\N{EN DASH}"
_ASCII = str.maketrans({"·": "|", _NOT_MEASURED: "-"})
_REMARKS: dict[FinishReason, str] = {"interrupted": "interrupted", "context": "context full"}


def summary(stats: Stats, *, seed: int, reason: FinishReason, rule: str = "", encoding: str | None = "utf-8") -> str:
    """Return the line: what was not measured is a dash, and a stream that cannot show the signs gets plain ones.

    Args:
        stats: of the whole run.
        seed: the run's seed.
        reason: why the run ended.
        rule: what decided about drafts.
        encoding: of the stream that will show the line; ``None`` for one that takes any text.
    """
    parts = [
        f"{stats.tokens} token{'' if stats.tokens == 1 else 's'} in {_number(stats.seconds)} s",
        f"{_number(stats.tokens_per_second)} tok/s",
    ]
    if stats.proposed:
        parts += [
            "speedup not measured" if stats.speedup is None else f"{stats.speedup:.1f}x target alone",
            f"accepted {stats.accepted} of {stats.proposed} drafts",
            f"{_number(stats.mean_accepted_length)} tokens/round",
        ]
        if rule:
            parts.append(rule)
    else:
        parts.append("target alone")
    if stats.drafting_off:
        parts.append(f"drafting off: {stats.drafting_off}")
    parts.append(f"seed {seed}")
    if reason in _REMARKS:
        parts.insert(0, _REMARKS[reason])
    line = " · ".join(parts)
    try:
        line.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return line.translate(_ASCII)
    return line


def _number(value: float | None) -> str:
    return _NOT_MEASURED if value is None else f"{value:.1f}"
