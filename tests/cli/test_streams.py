"""Real processes, real pipes, real signals: the text so far is kept, and nobody sees a traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specgen.cli.main import main
from specgen.cli.signals import halting, terminating
from specgen.decoding.halt import Halt
from tests.consoles import console

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and pipes of POSIX")

ROOT = Path(__file__).parents[2]
PATIENCE = 60


@contextlib.contextmanager
def process(tmp_path, *arguments, prompt="Hi", variables=None, before="", **streams):
    """Start ``specgen generate`` on the slow model."""
    (tmp_path / "toy.yaml").write_text("target: some/target\n")
    command = [sys.executable, str(ROOT / "tests" / "slow_model.py"), "generate", "-p", str(tmp_path / "toy.yaml")]
    command += [*arguments, *([prompt] if prompt else [])]
    if before:
        command = ["sh", "-c", f'exec "$@" {before}', "sh", *command]
    settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(variables or {})}
    running = subprocess.Popen(command, env=environment, cwd=tmp_path, **settings)
    try:
        yield running
    finally:
        running.kill()
        running.wait()
        for stream in (running.stdin, running.stdout, running.stderr):
            if stream:
                stream.close()


def read_until(stream, wanted):
    """Read single bytes, as they come, up to and with ``wanted``."""
    seen = b""
    while not seen.endswith(wanted):
        byte = os.read(stream.fileno(), 1)
        assert byte, f"the output ended: {seen!r}"
        seen += byte
    return seen


def rest(running):
    out, err = running.communicate(timeout=PATIENCE)
    return running.returncode, out, err.decode()


WORD = "wörd ".encode()


def test_text_arrives_round_by_round(tmp_path):
    with process(tmp_path) as running:
        assert read_until(running.stdout, WORD * 2) == WORD * 2
        assert running.poll() is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_first_signal_keeps_the_text_and_the_summary(tmp_path, number, code):
    with process(tmp_path) as running:
        read_until(running.stdout, WORD)
        running.send_signal(number)
        returned, out, err = rest(running)
    assert returned == code
    assert out == WORD * (len(out) // len(WORD)) + b"\n"
    assert err.startswith("interrupted · ")
    assert err.count("\n") == 1


def test_nohup(tmp_path):
    (tmp_path / "toy.yaml").write_text("target: some/target\n")
    script = f'trap "" HUP; exec {sys.executable} {ROOT}/tests/slow_model.py generate -p toy.yaml Hi'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SLOW_WORDS": "6"}
    with subprocess.Popen(["sh", "-c", script], env=environment, cwd=tmp_path, stdout=subprocess.PIPE) as running:
        seen = read_until(running.stdout, WORD)
        running.send_signal(signal.SIGHUP)
        assert seen + running.stdout.read() == WORD * 6 + b"\n"
    assert running.returncode == 0


def test_an_interrupted_object_is_an_object(tmp_path):
    with process(tmp_path, "--json", "-v") as running:
        read_until(running.stderr, b"specgen: slow\n")
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        returned, out, _ = rest(running)
    assert returned == 130
    assert b'"finish_reason": "interrupted"' in out


@pytest.mark.parametrize(
    ("first", "second", "code"), [(signal.SIGINT, signal.SIGINT, 130), (signal.SIGINT, signal.SIGTERM, 143)]
)
def test_the_second_signal_is_immediate(tmp_path, first, second, code):
    with process(tmp_path, variables={"SLOW_ROUND": "600"}) as running:
        read_until(running.stdout, WORD)
        running.send_signal(first)
        time.sleep(0.5)
        assert running.poll() is None, "the round in progress was not finished"
        running.send_signal(second)
        returned, out, err = rest(running)
    assert returned == code
    assert out == b"\n"
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(signal.SIGINT, 130, "specgen: interrupted\n"), (signal.SIGTERM, 143, ""), (signal.SIGHUP, 129, "")],
)
def test_a_signal_while_loading(tmp_path, number, code, message):
    with process(tmp_path, variables={"SLOW_LOADING": "600"}) as running:
        read_until(running.stdout, b"loading\n")
        running.send_signal(number)
        assert rest(running) == (code, b"", message)


def test_a_reader_that_goes_away(tmp_path):
    with process(tmp_path) as running:
        read_until(running.stdout, WORD)
        running.stdout.close()
        running.stdout = None
        assert running.wait(PATIENCE) == 141
        assert running.stderr.read() == b""


def test_a_reader_of_both_streams_that_goes_away(tmp_path):
    with process(tmp_path, "-v", stderr=subprocess.STDOUT) as running:
        read_until(running.stdout, WORD)
        running.stdout.close()
        running.stdout = None
        assert running.wait(PATIENCE) == 141


def test_head(tmp_path):
    script = tmp_path / "pipe.sh"
    (tmp_path / "toy.yaml").write_text("target: some/target\n")
    script.write_text(f'{sys.executable} {ROOT}/tests/slow_model.py generate -p toy.yaml Hi 2> err; echo "$?" > code\n')
    done = subprocess.run(
        f"sh {script} | head -c 8",
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == (WORD * 2)[:8]
    assert (tmp_path / "code").read_text() == "141\n"
    assert (tmp_path / "err").read_text() == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(tmp_path):
    with (
        Path("/dev/full").open("wb") as full,
        process(tmp_path, "--json", variables={"SLOW_WORDS": "1", "PYTHONUNBUFFERED": "0"}, stdout=full) as running,
    ):
        _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert err == b"specgen: no space left on the device while writing the output\n"


def test_standard_input_that_nobody_closes(tmp_path):
    reader, writer = os.pipe()
    try:
        with process(tmp_path, variables={"SLOW_WORDS": "1"}, stdin=reader) as running:
            returned, out, _ = rest(running)
        assert (returned, out) == (0, WORD + b"\n")
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("before", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(tmp_path, before):
    with process(tmp_path, variables={"SLOW_WORDS": "1"}, before=before) as running:
        returned, out, err = rest(running)
    assert returned == 0
    assert out == (b"" if ">&-" in before.replace("2>&-", "") else WORD + b"\n")
    assert "Traceback" not in err


def test_utf8_whatever_the_locale(tmp_path):
    variables = {"SLOW_WORDS": "1", "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    with process(tmp_path, variables=variables) as running:
        returned, out, err = rest(running)
    assert (returned, out) == (0, WORD + b"\n")
    assert err.isascii()
    assert " tok/s | speedup not measured | " in err


def test_a_terminal(tmp_path):
    import pty

    keyboard, terminal = pty.openpty()
    variables = {"SLOW_WORDS": "1", "SLOW_TEXT": "a\x1b]0;title\x07", "TERM": "xterm", "NO_COLOR": "1"}
    with process(tmp_path, variables=variables, stdout=terminal, stderr=terminal) as running:
        os.close(terminal)
        seen = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while chunk := os.read(keyboard, 65536):
                seen += chunk
        running.wait(PATIENCE)
    os.close(keyboard)
    text = seen.decode()
    assert running.returncode == 0
    assert "a\\x1b]0;title\\x07 \r\n\r\n2 tokens in " in text
    assert "\x1b]0" not in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_the_handlers_are_put_back(tmp_path):
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    main(["--version"], console())
    with terminating(), halting(Halt()):
        assert [signal.getsignal(number) for number in numbers] != before
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_halt_that_has_its_reason_keeps_it():
    halt = Halt()
    halt.reason = "stop"
    with halting(halt) as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert halt.reason == "stop"
    assert interruption.exit_code == 130


def test_outside_the_main_thread():
    from threading import Thread

    codes = []
    thread = Thread(target=lambda: codes.append(main(["--version"], console())))
    thread.start()
    thread.join()
    assert codes == [0]


def test_python_m_specgen():
    done = subprocess.run([sys.executable, "-m", "specgen", "--versio"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("specgen: no such option '--versio'")
