"""The rows at the bottom of the screen that are repainted; whatever else is written goes above them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Terminals that know it show a frame at once; the others ignore it.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"


class Region:
    """A few rows that move down as text is written above them.

    Between paints the cursor is hidden at the beginning of the last row, so that an echoed ``^C`` cannot scroll.

    Args:
        write: writes to the terminal, at once.
        columns: how wide the terminal is now.
    """

    def __init__(self, write: Callable[[str], None], columns: Callable[[], int]) -> None:
        self._write = write
        self._columns = columns
        self._drawn: list[tuple[str, int]] = []
        self._hidden = False

    def paint(self, above: str, rows: list[tuple[str, int]]) -> None:
        """Write text above, then the rows.

        Args:
            above: text with complete rows only.
            rows: each with its sequences, and its width in cells.
        """
        frame = _BEGIN + ("" if self._hidden else _HIDE) + self._back() + above
        frame += "\n".join(row for row, _ in rows) + ("\r" if rows else "") + _END
        self._hidden = True
        self._write(frame)
        self._drawn = rows

    def close(self, above: str = "") -> None:
        """Write text where the rows were, and give the cursor back."""
        frame = self._back() + (_SHOW if self._hidden else "") + above
        self._drawn, self._hidden = [], False
        if frame:
            self._write(frame)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the rows away while somebody else writes whole lines, then put them back."""
        rows = self._drawn
        self.close()
        yield
        if rows:
            self.paint("", rows)

    def _back(self) -> str:
        """Go to where the rows began, and erase from there.

        A terminal that became narrower has wrapped them. The first row is erased by itself: tmux moves everything into
        its history when the whole screen is erased from its first row on.
        """
        columns = max(self._columns(), 1)
        heights = [max(-(-cells // columns), 1) for _, cells in self._drawn]
        if not heights:
            return ""
        above = sum(heights[:-1])  # the cursor is at the beginning of the last
        up = f"\x1b[{above}A" if above else ""
        return f"{up}\r\x1b[K" + ("\n\x1b[J\x1b[A" if sum(heights) > 1 else "")
