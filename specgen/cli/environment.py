"""The world a command runs in: its streams, whether they are terminals, colour, variables, clock and seeds."""

from __future__ import annotations

import io
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import BinaryIO, Literal, TextIO

from specgen import stopwatch
from specgen.cli import terminal
from specgen.display.escape import printable

Color = Literal["auto", "always", "never"]
SEEDS = 2**31


def _system_variables() -> Mapping[str, str]:
    return os.environ


def _random_seed() -> int:
    return secrets.randbelow(SEEDS)


@dataclass(slots=True)
class Environment:
    """What ``main`` hands to every command, so that a test can fake a terminal without patching anything.

    Attributes:
        stdin: standard input, as bytes: specgen decodes it itself, strictly.
        stdout: text and JSON, nothing else.
        stderr: everything else.
        stdin_is_terminal: whether a person types the input.
        stdout_is_terminal: whether the text is read on a screen, so that control characters must be escaped.
        stderr_is_terminal: whether messages are read on a screen.
        variables: the environment variables.
        clock: seconds, monotonic; those for which the program was stopped are left out.
        sleep: waits for some seconds.
        draw_seed: a seed for a run that was given none.
        unicode: whether the terminal's encoding can show more than ASCII.
        aside: entered around whatever is written to standard error, while something there is repainted.
        color: the ``--color`` option.
        quiet: the ``--quiet`` option: only errors.
        verbose: the ``--verbose`` option: details and tracebacks.
        log_file: the ``--log-file`` option.
        closing: what ``main`` closes when everything is said, such as the log file.
    """

    stdin: BinaryIO
    stdout: TextIO
    stderr: TextIO
    stdin_is_terminal: bool = False
    stdout_is_terminal: bool = False
    stderr_is_terminal: bool = False
    variables: Mapping[str, str] = field(default_factory=_system_variables)
    clock: Callable[[], float] = stopwatch.now
    sleep: Callable[[float], None] = time.sleep
    draw_seed: Callable[[], int] = _random_seed
    unicode: bool = True
    aside: Callable[[], AbstractContextManager[None]] = nullcontext
    color: Color = "auto"
    quiet: bool = False
    verbose: bool = False
    log_file: str | None = None
    closing: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def system(cls) -> Environment:
        """Return the real one; standard output becomes UTF-8 whatever the locale says."""
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        stdout = _utf8(sys.stdout)
        stderr = sys.stderr or _nowhere()
        return cls(
            stdin=_bytes(sys.stdin),
            stdout=stdout,
            stderr=stderr,
            stdin_is_terminal=sys.stdin is not None and sys.stdin.isatty(),
            stdout_is_terminal=stdout.isatty(),
            stderr_is_terminal=stderr.isatty(),
            unicode=terminal.shows_unicode(encoding, os.environ),
        )

    @property
    def debug(self) -> bool:
        """Whether an unexpected error shows its traceback."""
        return self.verbose or self.variables.get("SPECGEN_DEBUG", "") not in ("", "0")

    @property
    def animated(self) -> bool:
        """Whether a progress bar on standard error would be seen, and wanted."""
        return self.stderr_is_terminal and not self.quiet and self.variables.get("TERM") != "dumb"

    @property
    def panel_wanted(self) -> bool:
        """Whether standard output is a terminal that a panel can be drawn on, and nobody asked for quiet."""
        return self.can_draw and not self.quiet and self.in_foreground()

    @property
    def can_draw(self) -> bool:
        """Whether standard output is a terminal that understands cursor movements."""
        return self.stdout_is_terminal and self.variables.get("TERM", "") not in ("dumb", "unknown")

    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal, now."""
        return terminal.size(self.stdout)

    def in_foreground(self) -> bool:
        """Whether the terminal is this program's to draw on: it is not while a shell runs it in the background."""
        return terminal.in_foreground(self.stdout if self.stdout_is_terminal else self.stderr)

    def status_wanted(self) -> bool:
        """Whether a status line on standard error would be seen, and would disturb no text there."""
        return self.animated and not self.stdout_is_terminal and terminal.unshared(self.stdout, self.stderr)

    def mute_keyboard(self, on: bool) -> None:
        """Keep the terminal from showing what is typed, which would scroll the panel away, or let it again."""
        if self.stdin_is_terminal:
            terminal.mute(self.stdin, on)

    def set_aside(self, aside: Callable[[], AbstractContextManager[None]]) -> None:
        """Enter this context around every note, while something near it is repainted."""
        self.aside = aside

    def colored(self, *, terminal: bool) -> bool:
        """Whether to colour a stream: ``--color``, then NO_COLOR, then FORCE_COLOR, then what the stream is."""
        if self.color != "auto":
            return self.color == "always"
        if self.variables.get("NO_COLOR"):
            return False
        force = self.variables.get("FORCE_COLOR")
        if force is not None:
            return force not in ("", "0", "false")
        return terminal and self.variables.get("TERM") != "dumb"

    def write(self, text: str) -> None:
        """Write to standard output at once, verbatim."""
        self.stdout.write(text)
        self.stdout.flush()

    def note(self, line: str, *, dim: bool = False) -> None:
        """Write a line to standard error unless the user asked for quiet."""
        if not self.quiet:
            self._line(line, style="2" if dim else "")

    def notice(self, message: str) -> None:
        """Tell the user something once: ``specgen: message``."""
        self.note(f"specgen: {message}")

    def detail(self, message: str) -> None:
        """Tell a user who asked for details."""
        if self.verbose:
            self.notice(message)

    def error(self, message: str, hint: str | None = None) -> None:
        """Write an error and its next step to standard error, quiet or not."""
        self._line(f"specgen: {message}")
        first, *more = (hint or "").splitlines() or [""]
        if first:
            self._line(f"  hint: {first}")
        for line in more:
            self._line(f"        {line}")

    def _line(self, line: str, style: str = "") -> None:
        line = printable(line)
        # Where --log-file asks for it; no handler shows it on a screen a second time.
        logging.getLogger("specgen").info(line)
        if style and self.colored(terminal=self.stderr_is_terminal):
            line = f"\x1b[{style}m{line}\x1b[0m"
        encoding = getattr(self.stderr, "encoding", None) or "utf-8"
        with self.aside():
            self.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            self.stderr.flush()


def _nowhere() -> TextIO:
    """Return a stream for a descriptor that was closed before specgen started."""
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123


def _utf8(stream: TextIO | None) -> TextIO:
    if stream is None:
        return _nowhere()
    if isinstance(stream, io.TextIOWrapper):
        # A lone surrogate cannot be encoded; showing it as an escape beats losing the run.
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="" if not stream.isatty() else None)
    return stream


def _bytes(stream: TextIO | None) -> BinaryIO:
    if stream is None:
        return io.BytesIO()
    return stream.buffer
