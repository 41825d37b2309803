"""What a renderer is: one output format, chosen once from the table in ``cli/generate.py``."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TextIO

from specgen.text import Narration

if TYPE_CHECKING:
    from typing_extensions import Self

    from specgen.decoding.stats import Stats


class Streams(Protocol):
    """Where a renderer writes; the command line's ``Environment`` is one."""

    stdout_is_terminal: bool
    stderr_is_terminal: bool
    stderr: TextIO

    def write(self, text: str) -> None:
        """Write to standard output at once, verbatim."""

    def note(self, line: str, *, dim: bool = False) -> None:
        """Write a line to standard error unless the user asked for quiet."""

    def notice(self, message: str) -> None:
        """Tell the user something: ``specgen: message``."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a renderer says about a run that its events do not.

    Attributes:
        profile: the profile's name.
        seed: the seed, given or drawn.
        fingerprint: a hash of everything that decides the text, the seed included.
    """

    profile: str
    seed: int
    fingerprint: str


class Renderer(Protocol):
    """Turns the events of one run into output; a context manager, so that a terminal is left as it was found."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, also after an error: text that was written stays readable."""

    def on(self, event: Narration, stats: Stats) -> None:
        """Show an event; the statistics include it."""
