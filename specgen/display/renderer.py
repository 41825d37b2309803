"""What a renderer is: one output format, chosen once from the table in ``cli/output.py``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
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
    unicode: bool

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds, monotonic."""

    def set_aside(self, aside: Callable[[], AbstractContextManager[None]]) -> None:
        """Enter this context around every note, while something near it is repainted."""

    def write(self, text: str) -> None:
        """Write to standard output at once, verbatim."""

    def note(self, line: str, *, dim: bool = False) -> None:
        """Write a line to standard error unless the user asked for quiet."""

    def notice(self, message: str) -> None:
        """Tell the user something: ``specgen: message``."""

    def colored(self, *, terminal: bool) -> bool:
        """Whether to colour a stream."""

    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal, now."""

    def in_foreground(self) -> bool:
        """Whether the terminal is this program's to draw on."""

    def status_wanted(self) -> bool:
        """Whether a status line on standard error would be seen and would disturb nobody."""

    def mute_keyboard(self, on: bool) -> None:
        """Keep the terminal from showing what is typed, or let it again."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a renderer says about a run that its events do not.

    Attributes:
        profile: the profile's name.
        seed: the seed, given or drawn.
        fingerprint: a hash of everything that decides the text, the seed included.
        max_tokens: tokens at most, None where nobody knows.
        decoding: how tokens are chosen, such as ``greedy``.
        rule: what decides about drafts: ``greedy`` or the name of an acceptance rule.
        translation: how drafts cross vocabularies, in words; empty where both are one.
        strict: whether every pass of the target has one shape.
        models: what was loaded where.
        drafts: whether anything proposes tokens.
        highlight: whether accepted drafts stay marked in the text on a terminal.
    """

    profile: str
    seed: int
    fingerprint: str
    max_tokens: int | None = None
    decoding: str = ""
    rule: str = ""
    translation: str = ""
    strict: bool = False
    models: str = ""
    drafts: bool = True
    highlight: bool = False


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
