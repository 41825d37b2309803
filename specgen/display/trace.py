"""Traces: what happened in a run, one JSON line a round, with the text, so that it can be played without a model.

docs/terminal.md describes the lines. The first is a header; ``trace`` in it is the version of the format.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from specgen import __version__
from specgen.decoding.events import Decided, Finished, Notice, Prompted, Round
from specgen.display.json_lines import dump
from specgen.display.renderer import Run
from specgen.errors import UsageError
from specgen.text import Narration, Piece, Spoken

FORMAT = 1
_RUN = ("profile", "seed", "fingerprint", "max_tokens", "decoding", "models", "drafts")
_HINT = "specgen generate --trace FILE writes one"


class TraceError(UsageError):
    """A file is no trace, or none that this version can read."""


@contextmanager
def open_trace(path: str) -> Iterator[TextIO]:
    """Open a file to write a trace into.

    Raises:
        UsageError: if it cannot be written.
    """
    try:
        file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"cannot write the trace {path}: {error.strerror}", "--trace PATH") from error
    with file:
        yield file


def recorded(events: Iterable[Narration], file: TextIO, run: Run, clock: Callable[[], float]) -> Iterator[Narration]:
    """Pass events on, each written to the file first, with the seconds since the run began."""
    start = clock()
    _write(file, _header(run))
    for event in events:
        _write(file, {"at": round(clock() - start, 6), **_to_json(event)})
        yield event


def _header(run: Run) -> dict[str, Any]:
    versions = {"specgen": __version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in ("torch", "transformers")}
    return {"trace": FORMAT, **{name: getattr(run, name) for name in _RUN}, "versions": versions}


def _write(file: TextIO, line: dict[str, Any]) -> None:
    file.write(dump(line) + "\n")
    file.flush()


def _to_json(event: Narration) -> dict[str, Any]:
    match event:
        case Spoken(round=played):
            numbers = {name: value for name, value in asdict(played).items() if name != "proposed"}
            return {
                "event": "round",
                **{name: round(value, 6) if isinstance(value, float) else value for name, value in numbers.items()},
                "proposed": list(played.proposed),
                "text": [piece.text for piece in event.pieces],
                "dropped": list(event.dropped),
            }
        case Prompted():
            return {"event": "prompted", **asdict(event)}
        case Notice():
            return {"event": "notice", "message": event.message}
        case Decided():
            return {"event": "decided", "why": event.why}
        case Finished():
            return {"event": "finished", "reason": event.reason, "fed": dict(event.fed)}


def read_trace(source: str, lines: Iterable[str]) -> tuple[Run, Iterator[tuple[float, Narration]]]:
    """Return what a trace is about, and its events with their times.

    A trace whose run was cut off ends where it was cut, as an interrupted run.

    Args:
        source: the file's name, for errors.
        lines: of the file.

    Raises:
        TraceError: when the file is no trace; the events raise it too.
    """
    iterator = iter(lines)
    first = _parse(source, 1, next(iterator, ""))
    if not isinstance(first.get("trace"), int):
        raise TraceError(f"{source} is not a trace", _HINT)
    if first["trace"] > FORMAT:
        raise TraceError(f"{source} has format {first['trace']}, this specgen reads {FORMAT}", "update specgen")
    known = {name: first[name] for name in _RUN if name in first}
    try:
        run = Run(**{"seed": 0, "fingerprint": "", "profile": "trace", **known})
    except TypeError as error:  # pragma: no cover
        raise TraceError(f"{source} is not a trace: {error}", _HINT) from error
    return run, _events(source, iterator)


def _events(source: str, lines: Iterator[str]) -> Iterator[tuple[float, Narration]]:
    at = 0.0
    for number, line in enumerate(lines, start=2):
        if not line.endswith("\n"):
            break  # the run ended in the middle of it
        record = _parse(source, number, line)
        try:
            at, event = float(record["at"]), _from_json(record)
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"{source}: line {number} is not a line of a trace: {error!r}", _HINT) from error
        yield at, event
        if isinstance(event, Finished):
            return
    yield at, Finished("interrupted", {})


def _parse(source: str, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise TraceError(f"{source}: line {number} is not JSON", _HINT) from error
    if not isinstance(record, dict):
        raise TraceError(f"{source}: line {number} is not an object", _HINT)
    return record


def _from_json(record: dict[str, Any]) -> Narration:
    match record["event"]:
        case "prompted":
            return Prompted(record["prompt_tokens"], record["cached_tokens"], float(record["seconds"]))
        case "round":
            played = Round(
                index=record["index"],
                proposed=tuple(record["proposed"]),
                accepted=record["accepted"],
                tokens=tuple(record["tokens"]),
                **{name: float(record[name]) for name in ("draft_seconds", "verify_seconds", "seconds")},
                source=str(record.get("source", "draft" if record["proposed"] else "")),
                evidence=tuple(record.get("evidence", ())),
            )
            pieces = tuple(
                Piece(str(text), token, place < played.accepted)
                for place, (text, token) in enumerate(zip(record["text"], played.tokens, strict=True))
            )
            return Spoken(played, pieces, tuple(map(str, record["dropped"])))
        case "decided":
            return Decided(str(record["why"]))
        case "notice":
            return Notice(str(record["message"]))
        case "finished":
            return Finished(record["reason"], dict(record["fed"]))
    raise ValueError(record["event"])
