"""Seconds of work: the time for which the program was stopped, as by Ctrl-Z, is left out.

Being stopped is something that happens to the process as a whole, so there is one stopwatch, as there is one
``time.perf_counter``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_away = 0.0


def now() -> float:
    """Return seconds from some moment on, monotonic, for differences only."""
    return time.perf_counter() - _away


@contextmanager
def stopped() -> Iterator[None]:
    """Leave out what happens inside."""
    global _away  # noqa: PLW0603
    start = time.perf_counter()
    try:
        yield
    finally:
        _away += time.perf_counter() - start
