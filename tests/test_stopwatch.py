"""The stopwatch stands still while the program does."""

from __future__ import annotations

import pytest

from specgen import stopwatch


@pytest.fixture
def time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(stopwatch, "_away", 0.0)
    return now


def test_it_runs(time):
    start = stopwatch.now()
    time[0] += 3
    assert stopwatch.now() - start == 3


def test_it_stands_still(time):
    start = stopwatch.now()
    for _ in range(2):
        time[0] += 1
        with stopwatch.stopped():
            time[0] += 50
        time[0] += 2
    assert stopwatch.now() - start == 6


def test_it_runs_again_after_an_error(time):
    def interrupted():
        with stopwatch.stopped():
            time[0] += 50
            raise KeyboardInterrupt

    start = stopwatch.now()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stopwatch.now() == start
