"""What is being loaded, and how far it is: a bar on a terminal, a line a stage where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from specgen.display.escape import printable

if TYPE_CHECKING:
    from rich.progress import Progress

Advance = Callable[[int], None]


class LineProgress:
    """One line when a stage begins.

    Args:
        say: told of stages whose size is known, such as downloads: they take long.
        detail: told of the others; by default ``say``.
    """

    def __init__(self, say: Callable[[str], None], detail: Callable[[str], None] | None = None) -> None:
        self._say = say
        self._detail = detail or say

    @contextmanager
    def stage(self, label: str, total: int | None = None) -> Iterator[Advance]:
        """Announce a stage."""
        if total is None:
            self._detail(label)
        else:
            self._say(f"{label} ({total / 1e6:,.0f} MB)")
        yield lambda _count: None


class BarProgress:
    """A spinner, the label and, where the size is known, a bar with bytes; nothing of it stays on the screen."""

    def __init__(self, stream: TextIO, *, colored: bool) -> None:
        self._stream = stream
        self._colored = colored

    @contextmanager
    def stage(self, label: str, total: int | None = None) -> Iterator[Advance]:
        """Show a stage while it lasts."""
        with self._display(sized=total is not None) as display:
            task = display.add_task(printable(label), total=total)
            yield lambda count: display.advance(task, count)

    def _display(self, *, sized: bool) -> Progress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(file=self._stream, force_terminal=True, no_color=not self._colored, highlight=False)
        label = TextColumn("{task.description}", markup=False)
        columns = (
            (label, BarColumn(bar_width=24), DownloadColumn(), TimeRemainingColumn(compact=True))
            if sized
            else (label, TimeElapsedColumn())
        )
        unicode = (getattr(self._stream, "encoding", None) or "utf-8").lower().startswith("utf")
        return Progress(
            SpinnerColumn("dots" if unicode else "line"),
            *columns,
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
