"""How far a measurement is: a line that is written over itself on a terminal, a line a prompt where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from specgen.display.escape import printable

if TYPE_CHECKING:
    from specgen.bench.run import Started

_ERASE = "\r\x1b[2K"


class BenchLine:
    """Says what is being measured.

    Args:
        stream: standard error.
        note: writes a line there.
        clock: seconds, monotonic.
        moving: whether the stream is a terminal on which a line can be written over.
        columns: of the terminal.
    """

    def __init__(
        self,
        stream: TextIO,
        note: Callable[[str], None],
        clock: Callable[[], float],
        *,
        moving: bool,
        columns: int = 80,
    ) -> None:
        self._stream, self._note, self._clock = stream, note, clock
        self._moving, self._columns = moving, columns
        self._begun: float | None = None
        self._turn: tuple[float, str, int] | None = None
        self._shown = False

    def started(self, event: Started) -> None:
        """A run begins."""
        if self._begun is None and event.number:
            self._begun = self._clock()
        where = "warming up" if not event.repeat else f"{event.number} of {event.total}, repeat {event.repeat}"
        line = f"{where}: {event.prompt}, temperature {event.temperature:g}"
        if self._moving:
            self._write(f"{line}, {event.arm}{self._left(event)}")
            return
        turn = (event.temperature, str(event.prompt), event.repeat)
        if turn != self._turn:
            self._turn = turn
            self._note(f"specgen: {line}{self._left(event)}")

    def close(self) -> None:
        """Leave nothing."""
        if self._shown:
            self._shown = False
            self._out(_ERASE)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the line away while something else is written."""
        self.close()
        yield

    def _left(self, event: Started) -> str:
        done = event.number - 1
        if self._begun is None or done < 1:
            return ""
        seconds = (self._clock() - self._begun) / done * (event.total - done)
        return f", {seconds / 60:.0f} min left" if seconds >= 90 else f", {seconds:.0f} s left"

    def _write(self, line: str) -> None:
        self._shown = True
        self._out(_ERASE + printable(line)[: max(self._columns - 1, 0)])

    def _out(self, text: str) -> None:
        with suppress(OSError):  # losing the line is no reason to lose the measurement
            self._stream.write(text)
            self._stream.flush()
