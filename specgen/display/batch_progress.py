"""How far a batch is: a line that moves on a terminal, a line every half minute where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

EVERY = 30.0
_REPAINT = 0.1
_DASH = "\N{EN DASH}"


@dataclass(slots=True)
class Sum:
    """What a batch amounts to so far.

    Attributes:
        done: items with a text.
        failed: items without one.
        skipped: items that were done before.
        total: items in the input, as far as it is known; None for a pipe.
        tokens: in all items, those in progress included.
        done_tokens: in the items that are done.
        seconds: of all rounds and prompts.
        measured_tokens_seconds: of the rounds whose baseline is known.
        baseline_seconds: what these would have taken the target alone.
        drafts: whether anything was proposed.
    """

    done: int = 0
    failed: int = 0
    skipped: int = 0
    total: int | None = None
    tokens: int = 0
    done_tokens: int = 0
    seconds: float = 0.0
    measured_seconds: float = 0.0
    baseline_seconds: float = 0.0
    drafts: bool = False

    @property
    def speed(self) -> float | None:
        """Tokens a second, prompts included."""
        return self.tokens / self.seconds if self.seconds else None

    @property
    def speedup(self) -> float | None:
        """Over the target alone beside as many rows; None when nothing was proposed or measured."""
        return self.baseline_seconds / self.measured_seconds if self.drafts and self.measured_seconds else None

    @property
    def eta(self) -> float | None:
        """Seconds to go, from tokens: items differ too much in length to count them alone."""
        finished = self.done + self.failed
        if self.total is None or not self.done or not self.speed:
            return None
        left = max(self.total - self.skipped - finished, 0) * self.done_tokens / self.done
        return max(left - (self.tokens - self.done_tokens), 0) / self.speed


def describe(so_far: Sum) -> str:
    """Return the parts of a progress line after the items."""
    parts = [f"{so_far.tokens:,} tokens", f"{_number(so_far.speed)} tok/s"]
    if so_far.drafts and so_far.speedup is not None:
        parts.append(f"{so_far.speedup:.1f}x target alone")
    if so_far.eta is not None:
        parts.append(f"{_duration(so_far.eta)} left")
    if so_far.failed:
        parts.append(f"{so_far.failed:,} failed")
    return " · ".join(parts)


def items(so_far: Sum) -> str:
    """Return how many items are over."""
    over = so_far.done + so_far.failed + so_far.skipped
    return f"{over:,} of {so_far.total:,} items" if so_far.total is not None else f"{over:,} items"


class BatchProgress(Protocol):
    """Shows how far a batch is."""

    def show(self, so_far: Sum) -> None:
        """Show it, if it is time to."""

    def aside(self) -> AbstractContextManager[None]:
        """A context in which others may write to the terminal."""

    def close(self) -> None:
        """Leave nothing on the screen."""


class Lines:
    """A line now and then.

    Args:
        say: writes a line.
        clock: seconds, monotonic.
        every: seconds between two lines.
    """

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float], *, every: float = EVERY) -> None:
        self._say, self._clock, self._every = say, clock, every
        self._next = clock() + every

    def show(self, so_far: Sum) -> None:
        """Write a line when it is due."""
        if self._clock() >= self._next:
            self._next = self._clock() + self._every
            self._say(f"{items(so_far)} · {describe(so_far)}")

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Nothing is in the way."""
        yield

    def close(self) -> None:
        """Nothing is on the screen."""


class Bar:
    """A bar with items, tokens, speed and time, which leaves nothing on the screen.

    Args:
        stream: the terminal.
        colored: whether to use colour.
        clock: seconds, monotonic.
    """

    def __init__(self, stream: TextIO, *, colored: bool, clock: Callable[[], float]) -> None:
        self._stream, self._clock, self._colored = stream, clock, colored
        self._shown = float("-inf")
        self._display = self._make()
        self._task = self._display.add_task("", total=None)
        self._display.start()

    def _make(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        console = Console(file=self._stream, force_terminal=True, no_color=not self._colored, highlight=False)
        return Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def show(self, so_far: Sum) -> None:
        """Repaint when it is due."""
        if self._clock() - self._shown < _REPAINT:
            return
        self._shown = self._clock()
        over = so_far.done + so_far.failed + so_far.skipped
        self._display.update(
            self._task, total=so_far.total, completed=over, description=f"{items(so_far)} · {describe(so_far)}"
        )
        self._display.refresh()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar away while others write."""
        self._display.stop()
        try:
            yield
        finally:
            self._display.start()

    def close(self) -> None:
        """Take the bar away."""
        self._display.stop()


def batch_summary(so_far: Sum, *, seconds: float, seed: int, remark: str = "") -> str:
    """Return the line that a batch leaves on standard error."""
    parts = [remark] if remark else []
    parts += [f"{so_far.done:,} item{'' if so_far.done == 1 else 's'} in {seconds:.1f} s"]
    if so_far.skipped:
        parts.append(f"{so_far.skipped:,} done before")
    if so_far.failed:
        parts.append(f"{so_far.failed:,} failed")
    parts += [f"{so_far.tokens:,} tokens", f"{_number(so_far.speed)} tok/s"]
    if not so_far.drafts:
        parts.append("target alone")
    elif so_far.speedup is None:
        parts.append("speedup not measured")
    else:
        parts.append(f"{so_far.speedup:.1f}x target alone")
    return " · ".join([*parts, f"seed {seed}"])


def _number(value: float | None) -> str:
    return _DASH if value is None else f"{value:.1f}"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
