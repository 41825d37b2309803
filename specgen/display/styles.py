"""How each kind of text looks: hue, attribute and sign, so that losing any one of them loses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from unicodedata import category

Spans = Sequence[tuple[str, "Style"]]


class Style(Enum):
    """What a stretch of text is; the value is its hue and its attribute as ANSI codes, of the 16 colours only."""

    PLAIN = ("", "")
    ACCEPTED = ("36", "4")
    REJECTED = ("33", "9")
    DISCARDED = ("", "2")
    QUIET = ("", "2 ")
    STRONG = ("", "1")
    GOOD = ("36", "1")
    BAD = ("33", "1")


@dataclass(frozen=True, slots=True)
class Palette:
    """Turns styles into escape sequences; without colour the attributes stay."""

    colored: bool

    def paint(self, spans: Spans) -> str:
        """Return the spans with their sequences."""
        return "".join(self._one(text, style) for text, style in spans)

    def _one(self, text: str, style: Style) -> str:
        hue, attribute = style.value
        codes = ";".join(code for code in (attribute.strip(), hue if self.colored else "") if code)
        return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs of the panel."""

    accepted: str
    rejected: str
    discarded: str
    own: str
    newline: str
    tab: str
    space: str
    more: str
    rule: str
    dot: str
    dash: str
    bar: str


UNICODE = Signs("✓ ", "✗ ", "· ", "→ ", "⏎", "⇥", "␣", "…", "─", " · ", "\N{EN DASH}", "█")
ASCII = Signs("+", "x", ".", ">", "\\n", "\\t", "_", "..", "-", " | ", "-", "#")

# Characters about whose width terminals disagree when they meet others: joiners, selectors, flags, skin tones.
_UNCERTAIN = {0x200D, 0xFE0E, 0xFE0F, *range(0x1F1E6, 0x1F200), *range(0x1F3FB, 0x1F400)}


@lru_cache(maxsize=4096)
def cells(char: str) -> int:
    """Return how many cells a character takes; where terminals disagree, the most that any of them gives it."""
    from rich.cells import get_character_cell_size

    code = ord(char)
    if code in _UNCERTAIN:
        return 1 if code in (0xFE0E, 0xFE0F) else 0 if code == 0x200D else 2
    return get_character_cell_size(char) or int(category(char) == "Mc")


@lru_cache(maxsize=4096)
def certain(char: str) -> bool:
    """Whether every terminal gives the character the same width."""
    return ord(char) not in _UNCERTAIN and category(char) not in ("Mc", "Cf", "Cn", "Co")


def width(text: str) -> int:
    """Return how many cells a text takes at most."""
    return len(text) if text.isascii() else sum(map(cells, text))


def cut(spans: Spans, room: int, more: str = "") -> list[tuple[str, Style]]:
    """Return what fits into a number of cells, with a mark at the end when something did not."""
    if sum(width(text) for text, _ in spans) <= room:
        return list(spans)
    room -= width(more)
    kept: list[tuple[str, Style]] = []
    for text, style in spans:
        whole = ""
        for char in text:
            if (room := room - cells(char)) < 0:
                kept += [(whole, style), (more, Style.QUIET)]
                return kept
            whole += char
        kept.append((whole, style))
    return kept
