"""A terminal that can be looked at: pyte, corrected where real terminals do otherwise, on a console of claims."""

from __future__ import annotations

import io
import re

import pyte
from wcwidth import wcwidth

from tests.consoles import Console


class Screen(pyte.HistoryScreen):
    """pyte's screen, which wraps wide characters and keeps a whole erased screen as tmux does."""

    def __init__(self, columns, lines):
        super().__init__(columns, lines, history=100_000, ratio=0.5)
        self.answers = []

    def draw(self, data):
        for char in data:
            if wcwidth(char) == 2 and self.cursor.x == self.columns - 1:
                self.cursor.x = self.columns
            super().draw(char)

    def erase_in_display(self, how=0, *args, **kwargs):
        if how == 0 and (self.cursor.x, self.cursor.y) == (0, 0):
            for row in range(self.lines):
                self.history.top.append(self.buffer[row].copy())
        super().erase_in_display(how, *args, **kwargs)

    def write_process_input(self, data):
        self.answers.append(data)

    @property
    def rows(self):
        """Everything that is or was on the screen, without the empty rows at the end."""
        rows = [self._text(row) for row in self.history.top] + [self._text(self.buffer[y]) for y in range(self.lines)]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def _text(self, row):
        return "".join(row[x].data for x in range(self.columns)).rstrip()

    def style(self, text):
        """The styles of the characters where a text is on the screen: (foreground, underscore, strikethrough)."""
        for y in range(self.lines):
            row = self.buffer[y]
            place = self._text(row).find(text)
            if place >= 0:
                return {(row[x].fg, row[x].underscore, row[x].strikethrough) for x in range(place, place + len(text))}
        raise AssertionError(f"{text!r} is not on the screen")


class Terminal(Console):
    """A console on which specgen sees a terminal of a certain size; the clock stands until it is told to go on."""

    def __init__(self, columns=80, lines=24, *, variables=None, unicode=True, **settings):
        self.screen = Screen(columns, lines)
        self._stream = pyte.Stream(self.screen)
        self._errors = []
        self.now = 0.0
        self.written = ""
        self.muted = []
        self.shown = True
        super().__init__(
            stdin=io.BytesIO(),
            stdout=Written(self),
            stderr=Written(self, self._errors),
            stdout_is_terminal=True,
            stderr_is_terminal=True,
            variables=variables or {},
            clock=lambda: self.now,
            draw_seed=lambda: 7,
            unicode=unicode,
            **settings,
        )

    def size(self):
        return self.screen.columns, self.screen.lines

    def in_foreground(self):
        return self.shown

    def mute_keyboard(self, on):
        self.muted.append(on)

    def feed(self, text):
        self.written += text
        self._stream.feed(text.replace("\n", "\r\n"))

    def resize(self, columns, lines):
        self.screen.resize(lines, columns)

    @property
    def rows(self):
        return self.screen.rows

    @property
    def err(self):
        return "".join(self._errors)

    @property
    def text(self):
        return "\n".join(self.rows)


class Written(io.StringIO):
    """A stream whose text goes to the terminal at once."""

    encoding = "utf-8"

    def __init__(self, terminal, kept=None):
        super().__init__()
        self._terminal = terminal
        self._kept = [] if kept is None else kept

    def write(self, text):
        self._kept.append(text)
        self._terminal.feed(text)
        return len(text)

    def isatty(self):
        return True


def wrapped(text, columns):
    """The rows that a terminal shows for a text, trailing spaces aside."""
    rows = []
    for line in text.removesuffix("\n").split("\n"):
        row, cells = "", 0
        for char in line:
            size = wcwidth(char)
            if cells + size > columns:
                rows.append(row.rstrip())
                row, cells = "", 0
            row += char
            cells += size
        rows.append(row.rstrip())
    return rows


CODE = '''def search(items, wanted):
    """Return the place of wanted in sorted items, or None."""
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if items[middle] < wanted: low = middle + 1  # arr[bold] [/INST] :smile:
        else: high = middle
    return low if low < len(items) and items[low] == wanted else None
'''
CJK = (
    "投機的デコードは小さなモデルで大きなモデルを速くする。小模型先提议、大模型再验证。输出分布不变。한국어도 됩니다.\n"
)
EMOJI = "Rockets 🚀 and fish 🐟, a naïve café, Ωμέγα, кириллица — “quotes” … and 👍 for all of it.\n"
LONG = " ".join(f"word{number:04d}" for number in range(222))[:2000] + "\n"
MIXED = f"# A title\n\n{CODE}\n{CJK}{EMOJI}\n{LONG}\n- one\n- two\n\n{CJK}The end of it, without a newline"


def tokens(text):
    """Cut a text into pieces of about the size of tokens."""
    return re.findall(r"\n+| ?\w{1,5}|.", text, flags=re.DOTALL)
