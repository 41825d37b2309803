"""Nothing in a text acts on a terminal, and nothing readable is lost."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgen.display.escape import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        ("\x1b]0;title\x1b\\", "\\x1b]0;title\\x1b\\"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\x08c\x0b\x0c\x00", "a\\x0db\\x08c\\x0b\\x0c\\x00"),
        ("\x7f\x80\x9f", "\\x7f\\x80\\x9f"),
        ("\u202edesrever\u202c", "\\u202edesrever\\u202c"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\udce9", "\\udce9"),
    ],
)
def test_controls_become_visible(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize(
    "text", ["line\n\ttab", "[/INST] [bold]x[/bold] :smile:", "日本 👩\u200d👧 é \xa0 \u200f שלום", "\\x1b"]
)
def test_text_stays(text):
    assert printable(text) == text


@given(st.text(), st.text())
def test_it_makes_no_difference_where_the_text_is_cut(one, two):
    assert printable(one + two) == printable(one) + printable(two)


@given(st.text(st.characters(max_codepoint=0x9F), max_size=60))
def test_a_terminal_only_prints_it(text):
    screen = pyte.Screen(2000, 80)
    before = (screen.title, set(screen.mode), screen.margins)
    pyte.Stream(screen).feed(printable(text).replace("\n", "\r\n").replace("\t", " "))
    assert (screen.title, set(screen.mode), screen.margins) == before
    assert screen.cursor.attrs == pyte.Screen(2, 2).cursor.attrs
