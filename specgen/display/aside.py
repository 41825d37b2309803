"""What others print while the panel is there goes above it, a whole line at a time."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO


class LineByLine(io.TextIOBase):
    """A stream that passes whole lines on to another, inside a context.

    Args:
        stream: where the lines go.
        aside: entered around each write.
    """

    def __init__(self, stream: TextIO, aside: Callable[[], AbstractContextManager[None]]) -> None:
        self._stream = stream
        self._aside = aside
        self._line = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The other stream's."""
        return self._stream.encoding

    def isatty(self) -> bool:
        """Whether the other stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The other stream's."""
        return self._stream.fileno()

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Keep text until its line is complete."""
        lines, newline, rest = (self._line + text).rpartition("\n")
        self._line = rest
        if newline:
            with self._aside():
                self._stream.write(lines + newline)
                self._stream.flush()
        return len(text)
