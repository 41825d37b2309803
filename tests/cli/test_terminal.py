"""Real processes on a real pseudo-terminal, looked at with an emulator: signals, sizes, the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyte
import pytest

from tests.display.terminals import Screen

pytestmark = pytest.mark.skipif(os.name == "nt", reason="terminals of POSIX")

ROOT = Path(__file__).parents[2]
PATIENCE = 20


class Window:
    """A terminal window with a program in it."""

    def __init__(self, tmp_path, *arguments, size=(80, 24), variables=None, script="slow_model.py", **streams):
        (tmp_path / "toy.yaml").write_text("target: some/target\ndraft: some/draft\n")
        self.screen = Screen(*size)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.master, slave = pty.openpty()
        self.resize(*size, tell=False)
        # A test runner may export the size of its own terminal, or that it wants no colour.
        foreign = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
        inherited = {name: value for name, value in os.environ.items() if name not in foreign}
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / script), *arguments],
            cwd=tmp_path,
            env={**inherited, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **(variables or {})},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - there are no threads
            **{"stdin": slave, "stdout": slave, "stderr": slave, **streams},
        )
        os.close(slave)

    def resize(self, columns, lines, *, tell=True):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if tell:
            self.screen.resize(lines, columns)

    def read(self, until=None, seconds=PATIENCE):
        """Read until something is on the screen, or to the end."""
        deadline = time.monotonic() + seconds
        while until is None or not re.search(until, "\n".join(self.screen.rows)):
            assert time.monotonic() < deadline, "\n".join(self.screen.rows)
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:  # the other end is closed
                    return self
                if not data:
                    return self
                self.raw += data
                self.stream.feed(data)
            elif until is None and self.process.poll() is not None:
                return self
        return self

    def end(self):
        self.read()
        return self.process.wait(PATIENCE)

    @property
    def echoes(self):
        return bool(termios.tcgetattr(self.master)[3] & termios.ECHO)

    def close(self):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self.master)


@pytest.fixture
def window(tmp_path):
    windows = []

    def open_window(*arguments, **settings):
        windows.append(Window(tmp_path, *arguments, **settings))
        return windows[-1]

    yield open_window
    for one in windows:
        one.close()


GENERATE = ["generate", "-p", "toy.yaml", "Hi"]


def check_end(window, code):
    assert window.end() == code
    rows = window.screen.rows
    assert not window.screen.cursor.hidden
    assert window.echoes
    assert not any(re.match(r"─| round \d| reading", row) for row in rows)
    return rows


def test_a_normal_end(window):
    terminal = window(*GENERATE, variables={"SLOW_WORDS": "8", "SLOW_ROUND": "0.01"})
    rows = check_end(terminal, 0)
    assert rows[0] == ("wörd " * 8).strip()
    assert rows[1] == ""
    assert rows[2].startswith("16 tokens in ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("size", [(80, 24), (20, 8)])
def test_a_signal(window, number, code, size):
    terminal = window(*GENERATE, size=size)
    terminal.read(r"wörd wörd wörd")
    assert terminal.screen.cursor.hidden
    assert not terminal.echoes
    terminal.process.send_signal(number)
    rows = check_end(terminal, code)
    text = "".join(rows[: rows.index("")])
    assert set(text.split("wörd")) <= {"", " "}
    assert "".join(rows[rows.index("") :]).startswith("interrupted · ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_second_signal(window, number, code):
    terminal = window(*GENERATE, variables={"SLOW_ROUND": "600"})
    terminal.read(r"round 1 ")
    terminal.process.send_signal(number)
    time.sleep(0.3)
    terminal.process.send_signal(number)
    rows = check_end(terminal, code)
    assert rows[0] == "wörd"


def test_ctrl_c_is_typed(window):
    terminal = window(*GENERATE)
    terminal.read(r"round 3 ")
    os.write(terminal.master, b"hello\r\x03")
    rows = check_end(terminal, 130)
    assert "hello" not in "".join(rows)
    assert rows[1] == ""


def test_an_exception(window):
    terminal = window(*GENERATE, variables={"SLOW_WORDS": "5", "SLOW_ERROR": "1"})
    rows = check_end(terminal, 1)
    assert rows == [
        ("wörd " * 5).strip(),
        "specgen: unexpected error: RuntimeError: the model broke",
        "  hint: run again with SPECGEN_DEBUG=1 for the traceback",
    ]


def test_ctrl_z_and_fg(window):
    shell = str(Path(__file__).parent / "run_shell.py")
    terminal = window(str(ROOT / "tests" / "slow_model.py"), *GENERATE, script=shell)
    terminal.read(r"round 3 ")
    os.write(terminal.master, b"\x1a")
    terminal.read("Stopped")
    assert not terminal.screen.cursor.hidden
    assert not any(" round " in row for row in terminal.screen.rows)
    assert terminal.echoes
    terminal.read(r"fg\n(.*\n)+ round \d+ ")
    assert terminal.screen.cursor.hidden
    assert not terminal.echoes
    os.write(terminal.master, b"\x03")
    rows = check_end(terminal, 130)
    assert rows[:2] == ["[1]+  Stopped", "$ fg"]
    assert rows[2].startswith("wörd wörd wörd")


def test_another_size_repaints_at_once(window):
    terminal = window(*GENERATE, variables={"SLOW_ROUND": "600"})
    terminal.read(r"round 1 ")
    terminal.resize(50, 20)
    terminal.process.send_signal(signal.SIGWINCH)
    terminal.read(r"tok/s .* 1/256|2/256")
    terminal.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end() == 143
    assert not terminal.screen.cursor.hidden


def test_a_terminal_that_goes_away(window):
    terminal = window(*GENERATE)
    terminal.read(r"round 3 ")
    os.close(terminal.master)
    assert terminal.process.wait(PATIENCE) == 129


@pytest.mark.parametrize(
    ("variables", "panel"),
    [({}, True), ({"TERM": "dumb"}, False), ({"FORCE_COLOR": "1"}, True), ({"TERM": "linux"}, True)],
)
def test_what_the_terminal_can_do(window, variables, panel):
    terminal = window(*GENERATE, variables={"SLOW_WORDS": "4", **variables})
    check_end(terminal, 0)
    assert (b"round 1" in terminal.raw) is panel
    assert (b"\x1b[" in terminal.raw) is panel
    # The console's font has no check marks.
    marks = "✓".encode() in terminal.raw
    assert marks is (panel and variables.get("TERM") != "linux")


def test_no_live(window):
    terminal = window(*GENERATE, "--no-live", variables={"SLOW_WORDS": "3"})
    # Which of the two writers comes first at the end is not for us to say.
    assert "".join(check_end(terminal, 0)).count("wörd") == 3
    assert b"round 1" not in terminal.raw


def test_a_pipe_never_gets_a_panel(window):
    for variables in ({"FORCE_COLOR": "1"}, {}):
        terminal = window(*GENERATE, variables={"SLOW_WORDS": "3", **variables}, stdout=subprocess.PIPE)
        out = terminal.process.stdout.read()
        terminal.process.stdout.close()
        assert out == "wörd wörd wörd \n".encode()
        rows = check_end(terminal, 0)
        # The status line was there, and is not there any more.
        assert b"tokens \xc2\xb7 " in terminal.raw
        assert rows[0].startswith("6 tokens in ")


def test_no_status_line_where_it_would_write_into_the_text(window):
    """What reads the pipe writes to the same terminal, as tee does."""
    command = f"{sys.executable} {ROOT}/tests/slow_model.py generate -p toy.yaml Hi | cat"
    script = Path(__file__).parent / "run_shell.py"
    terminal = window(variables={"SLOW_WORDS": "3", "SHELL_COMMAND": command}, script=str(script))
    # Which of the two writers comes first at the end is not for us to say.
    assert "".join(check_end(terminal, 0)).count("wörd") == 3
    assert b"\x1b[2K" not in terminal.raw.split("wörd".encode(), 1)[1]
