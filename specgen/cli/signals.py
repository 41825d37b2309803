"""Ctrl-C and SIGTERM: the first finishes the round, the second is immediate."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from specgen.errors import ExitCode

if TYPE_CHECKING:
    from specgen.decoding.halt import Halt

Handler = Callable[[int, FrameType | None], None]


def _terminate(_signum: int, _frame: FrameType | None) -> None:
    raise SystemExit(int(ExitCode.TERMINATED))


@contextmanager
def handlers(handle: dict[signal.Signals, Handler]) -> Iterator[None]:
    """Install handlers and put the old ones back; outside the main thread, where Python allows none, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handle.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def terminating() -> Iterator[None]:
    """Let SIGTERM unwind the stack, so that cursors come back and half-made files go."""
    with handlers({signal.SIGTERM: _terminate}):
        yield


class Interruption:
    """The signal that asked a run to end, if one did."""

    def __init__(self) -> None:
        self.exit_code: ExitCode | None = None


@contextmanager
def halting(halt: Halt) -> Iterator[Interruption]:
    """Turn the first SIGINT or SIGTERM into a halt after the current round; the second raises at once."""
    interruption = Interruption()

    def first(signum: int, _frame: FrameType | None) -> None:
        interruption.exit_code = ExitCode.INTERRUPTED if signum == signal.SIGINT else ExitCode.TERMINATED
        halt.reason = halt.reason or "interrupted"
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, _terminate)

    with handlers({signal.SIGINT: first, signal.SIGTERM: first}):
        yield interruption
