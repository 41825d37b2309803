"""Ctrl-Z in a real process: it stops, goes on, and the pause counts as no time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGTSTP"), reason="there is no Ctrl-Z")

ROOT = Path(__file__).parents[2]
PAUSE = 0.5
CHILD = """
import sys, time
from pathlib import Path
from specgen import stopwatch
from specgen.cli.signals import halting, repainting
from specgen.decoding.halt import Halt

class Panel:
    def paint(self): ...
    def suspend(self, stop): stop()

go_on = Path(sys.argv[1])
halt, renderer = Halt(), Panel() if sys.argv[2] == "panel" else None
with halting(halt), repainting(renderer):
    wall, worked = time.perf_counter(), stopwatch.now()
    print("ready", flush=True)
    while not go_on.exists():
        time.sleep(0.01)
    wall, worked = time.perf_counter() - wall, stopwatch.now() - worked
print(wall, worked, halt.reason, flush=True)
"""


@pytest.fixture
def child(tmp_path):
    started = []

    def start(kind, preparation="pass"):
        # A group of its own in the session of the tests: in an orphaned one nothing is stopped by Ctrl-Z.
        process = subprocess.Popen(
            [sys.executable, "-c", f"{preparation}\n{CHILD}", str(tmp_path / "go-on"), kind],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=os.setpgrp,  # noqa: PLW1509 - there are no threads
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.stdout.close()
        process.wait()


def stop(process):
    """Stop a program as Ctrl-Z does, and say how long it certainly stood still."""
    process.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    start = time.perf_counter()
    time.sleep(PAUSE)
    stood = time.perf_counter() - start
    process.send_signal(signal.SIGCONT)
    return stood


@pytest.mark.parametrize("kind", ["panel", "text"])
def test_pauses_are_no_time_of_the_run(child, tmp_path, kind):
    process = child(kind)
    stood = stop(process) + stop(process)
    (tmp_path / "go-on").touch()

    wall, worked, reason = process.communicate()[0].split()

    assert float(wall) - float(worked) >= stood
    assert float(worked) >= 0
    assert reason == "None"
    assert process.returncode == 0


def test_a_program_that_ignores_ctrl_z_goes_on_ignoring_it(child, tmp_path):
    process = child("text", "import signal; signal.signal(signal.SIGTSTP, signal.SIG_IGN)")
    process.send_signal(signal.SIGTSTP)
    (tmp_path / "go-on").touch()

    wall, worked, _ = process.communicate()[0].split()

    assert process.returncode == 0
    assert float(wall) == pytest.approx(float(worked), abs=1e-3)
