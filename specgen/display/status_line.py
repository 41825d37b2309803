"""How far a run is, in one line of standard error, for whoever sent the text elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from specgen.decoding.stats import Stats
from specgen.display.renderer import Run, Streams
from specgen.display.status import number
from specgen.display.styles import ASCII, UNICODE

PER_SECOND = 12
_ERASE = "\r\x1b[2K"


class StatusLine:
    """A line that is written over itself and leaves nothing."""

    def __init__(self, streams: Streams, run: Run) -> None:
        self._streams = streams
        self._run = run
        self._signs = UNICODE if (streams.stderr.encoding or "utf-8").lower().startswith("utf") else ASCII
        self._shown = float("-inf")
        self._line = ""

    def show(self, stats: Stats) -> None:
        """Write the line unless it was written too short a time ago."""
        now = self._streams.clock()
        if now - self._shown < 1 / PER_SECOND or not self._streams.in_foreground():
            return
        self._shown = now
        parts = [
            f"{stats.tokens}/{self._run.max_tokens} tokens" if self._run.max_tokens else f"{stats.tokens} tokens",
            f"{number(stats.tokens_per_second, self._signs.dash)} tok/s",
            f"{number(stats.speedup, self._signs.dash)}x",
        ]
        self._line = self._signs.dot.join(parts)[: max(self._streams.size()[0] - 1, 0)]
        self._write(_ERASE + self._line)

    def close(self) -> None:
        """Erase the line."""
        if self._line:
            self._line = ""
            self._write(_ERASE)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the line away while something else is written."""
        self.close()
        yield

    def _write(self, text: str) -> None:
        with suppress(OSError):  # losing the line is no reason to lose the run
            self._streams.stderr.write(text)
            self._streams.stderr.flush()
