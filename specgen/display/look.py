"""How a report for people is to look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw.

    Attributes:
        width: columns of the terminal.
        colored: whether to use colour.
        unicode: whether box-drawing characters can be shown.
    """

    width: int = 80
    colored: bool = False
    unicode: bool = False
