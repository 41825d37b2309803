"""The way to end a run from outside: a flag that the loop looks at between rounds."""

from __future__ import annotations

from specgen.decoding.events import FinishReason


class Halt:
    """Set ``reason`` to end the run after the round in progress.

    The text layer sets ``stop`` when a stop string is complete, a signal handler sets ``interrupted``.
    """

    def __init__(self) -> None:
        self.reason: FinishReason | None = None
