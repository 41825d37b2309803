"""Questions to the terminal behind a stream; a stream without one gets an answer that does no harm."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

_FALLBACK = (80, 24)
# Terminals whose fonts lack the signs.
_PLAIN_FONTS = ("linux", "vt100", "vt102", "vt220", "ansi")


def size(stream: IO[Any]) -> tuple[int, int]:
    """Return columns and rows."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return _FALLBACK
    return (columns or _FALLBACK[0], rows or _FALLBACK[1])


def shows_unicode(encoding: str, variables: Mapping[str, str]) -> bool:
    """Whether check marks can be shown."""
    try:
        "✓✗·→⏎␣─…█".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return variables.get("TERM") not in _PLAIN_FONTS


def in_foreground(stream: IO[Any]) -> bool:
    """Whether the terminal's shell has this program in the foreground."""
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return True  # no job control


def mute(stream: IO[Any], on: bool) -> None:
    """Switch the echo off or on."""
    if termios is None or not in_foreground(stream):  # the kernel stops a background program that tries
        return
    try:
        settings = termios.tcgetattr(stream.fileno())
        settings[3] = settings[3] & ~termios.ECHO if on else settings[3] | termios.ECHO
        termios.tcsetattr(stream.fileno(), termios.TCSADRAIN, settings)
    except (termios.error, OSError, ValueError):
        pass


def unshared(stdout: IO[Any], stderr: IO[Any]) -> bool:
    """Whether standard output can lead to no text on standard error's terminal.

    A pipe may: in ``specgen generate ... | tee text`` it is ``tee`` that writes there. The programs of a pipeline are a
    process group, and Linux says where each of them writes.
    """
    try:
        if not stat.S_ISFIFO(os.fstat(stdout.fileno()).st_mode):
            return True
        screen = os.fstat(stderr.fileno()).st_rdev
    except (OSError, ValueError, AttributeError):
        return True
    if not sys.platform.startswith("linux"):
        return False
    return not any(_writes_to(process, screen) for process in Path("/proc").glob("[0-9]*"))


def _writes_to(process: Path, screen: int) -> bool:
    number = int(process.name)
    try:
        if number == os.getpid() or os.getpgid(number) != os.getpgrp():
            return False
        return (process / "fd" / "1").stat().st_rdev == screen
    except OSError:
        return False  # it has ended, or is none of ours
