"""Text laid out in rows as a terminal does it, so that the newest rows can be shown before they are committed.

Lines are committed unwrapped: the terminal wraps them, so that copying and resizing work. A paragraph of more rows than
are held back is committed row by row, and each row continues the one before it as if they had been written at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from specgen.display.styles import Palette, Style, cells, certain

_TAB = 8


@dataclass(slots=True)
class Row:
    """A row of the screen.

    Attributes:
        spans: its text.
        cells: how wide it is.
        certain: whether every terminal would agree on that.
        ended: whether a newline ends it; else the terminal wraps it, or it is not finished.
        last: the character in its last cells, with what combines with it.
    """

    spans: list[tuple[str, Style]] = field(default_factory=list)
    cells: int = 0
    certain: bool = True
    ended: bool = False
    last: str = ""

    def put(self, char: str, style: Style, size: int) -> None:
        """Append a character."""
        if self.spans and self.spans[-1][1] is style:
            self.spans[-1] = (self.spans[-1][0] + char, style)
        else:
            self.spans.append((char, style))
        self.last = char if size else self.last + char
        self.cells += size
        self.certain = self.certain and certain(char) if char != "\t" else False


class Flow:
    """The rows that are not committed yet.

    Args:
        columns: of the terminal.
        palette: for the text that is committed.
        highlight: whether committed text keeps the style of accepted drafts.
    """

    def __init__(self, columns: int, palette: Palette, *, highlight: bool) -> None:
        self._columns = columns
        self._palette = palette
        self._highlight = highlight
        self._rows = [Row()]
        self._open: Row | None = None  # the last committed row, when the next one continues it

    @property
    def rows(self) -> list[Row]:
        """The rows held, without an empty last one."""
        return self._rows if self._rows[-1].spans else self._rows[:-1]

    def add(self, text: str, style: Style) -> None:
        """Append text, in which control characters are escaped already."""
        for char in text:
            self._put(char, style)

    def _put(self, char: str, style: Style) -> None:
        row = self._rows[-1]
        if char == "\n":
            row.ended = True
            self._rows.append(Row())
            return
        if char == "\t":
            # A tab stops at the last column and never wraps.
            size = max(min((row.cells // _TAB + 1) * _TAB, self._columns - 1) - row.cells, 0)
        else:
            size = cells(char)
            if row.cells + size > self._columns and row.spans:
                row = Row()
                self._rows.append(row)
        row.put(char, style, size)

    def resize(self, columns: int) -> None:
        """Lay the held rows out anew."""
        if columns == self._columns:
            return
        self._columns = columns
        self._open = None
        rows, self._rows = self._rows, [Row()]
        for row in rows:
            for text, style in row.spans:
                self.add(text, style)
            if row.ended:
                self._put("\n", Style.PLAIN)

    def take(self, keep: int) -> str:
        """Return what is to be committed so that no more than ``keep`` rows stay, as the terminal should get it.

        It is written with the cursor at the beginning of the row below the last committed one, and leaves it there.
        """
        written = ""
        while len(self.rows) > keep:
            end = next((place for place, row in enumerate(self._rows) if row.ended), None)
            count = 1 if end is None else end + 1
            batch, self._rows = self._rows[:count], self._rows[count:]
            written += self._commit(batch)
        return written

    def finish(self) -> str:
        """Return all that is left."""
        rows, self._rows = self.rows, [Row()]
        return self._commit(rows) if rows else ""

    def _commit(self, rows: list[Row]) -> str:
        """Write rows, all but the last of which the terminal wraps by itself or a newline ends."""
        written = self._resume() if rows[0].spans else ""
        for row in rows:
            written += self._paint(row.spans) + ("\n" if row.ended else "")
        last = rows[-1]
        self._open = None
        if not last.ended:
            written += "\n"
            full = last.cells == self._columns and last.certain
            self._open = last if full else None
        return written

    def _resume(self) -> str:
        """Go back to the end of the last row: printing its last character again makes the terminal wrap after it."""
        if self._open is None:
            return ""
        column = self._columns - max(sum(map(cells, self._open.last)), 1) + 1
        return f"\x1b[A\x1b[{column}G" + self._paint([(self._open.last, self._open.spans[-1][1])])

    def _paint(self, spans: list[tuple[str, Style]]) -> str:
        if self._highlight:
            return self._palette.paint(spans)
        return "".join(text for text, _ in spans)
