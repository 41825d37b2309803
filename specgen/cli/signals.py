"""Signals: the first that ends a run finishes its round, the second is immediate; the panel survives the others."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from specgen import stopwatch

if TYPE_CHECKING:
    from specgen.decoding.halt import Halt

Handler = Callable[[int, FrameType | None], None]


# Windows has none of them.
_HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)
_STOP: signal.Signals | None = getattr(signal, "SIGTSTP", None)
_SIGNALLED = 128


@runtime_checkable
class Repaintable(Protocol):
    """A renderer that can repaint itself at any time."""

    def paint(self) -> None:
        """Repaint for the terminal as it is now."""

    def suspend(self, stop: Callable[[], None]) -> None:
        """Leave the terminal to others while ``stop`` runs."""


def _terminate(signum: int, _frame: FrameType | None) -> None:
    raise SystemExit(_SIGNALLED + signum)


def _ending() -> list[signal.Signals]:
    """The signals that end a program from outside; ``nohup`` has one of them ignored, and it stays so."""
    ignored = _HANGUP is None or signal.getsignal(_HANGUP) is signal.SIG_IGN
    return [signal.SIGTERM] if ignored or _HANGUP is None else [signal.SIGTERM, _HANGUP]


@contextmanager
def handlers(handle: Mapping[signal.Signals, Handler]) -> Iterator[None]:
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
    """Let SIGTERM and SIGHUP unwind the stack, so that cursors come back and half-made files go."""
    with handlers(dict.fromkeys(_ending(), _terminate)):
        yield


class Interruption:
    """The signal that asked a run to end, if one did."""

    def __init__(self) -> None:
        self.exit_code: int | None = None


@contextmanager
def halting(halt: Halt) -> Iterator[Interruption]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into a halt after the current round; the second raises at once.

    A stop by Ctrl-Z does not count as time of the run.
    """
    interruption = Interruption()
    ending = _ending()

    def first(signum: int, _frame: FrameType | None) -> None:
        interruption.exit_code = _SIGNALLED + signum
        halt.reason = halt.reason or "interrupted"
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in ending:
            signal.signal(number, _terminate)

    with handlers({**dict.fromkeys([signal.SIGINT, *ending], first), **_stopping(lambda stop: stop())}):
        yield interruption


@contextmanager
def repainting(renderer: object) -> Iterator[None]:
    """Repaint a panel when the terminal's size changes, and take it away while the program is suspended."""
    if not isinstance(renderer, Repaintable) or _STOP is None:
        yield
        return

    def resized(_signum: int, _frame: FrameType | None) -> None:
        renderer.paint()

    with handlers({signal.SIGWINCH: resized, **_stopping(renderer.suspend)}):
        yield


def _stopping(suspend: Callable[[Callable[[], None]], None]) -> dict[signal.Signals, Handler]:
    """A handler for Ctrl-Z; where it is ignored, as in a shell without job control, it stays so."""
    if _STOP is None or signal.getsignal(_STOP) is signal.SIG_IGN:
        return {}
    number = _STOP

    def suspended(_signum: int, _frame: FrameType | None) -> None:
        suspend(stop)

    def stop() -> None:
        signal.signal(number, signal.SIG_DFL)
        with stopwatch.stopped():
            signal.raise_signal(number)  # returns when somebody continues the program
        signal.signal(number, suspended)

    return {number: suspended}
