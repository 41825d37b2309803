"""Errors a user can act on: what happened, the next step, and the exit code that scripts see."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """The documented exit codes (docs/cli.md)."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DOES_NOT_FIT = 3
    CANNOT_TELL = 4
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143
    CLOSED_PIPE = 141


class SpecgenError(Exception):
    """Something went wrong that the user can mend.

    Args:
        message: what happened, in one line, without a final full stop.
        hint: the next step, as a command or an option where there is one.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(SpecgenError):
    """The command was called in a way it cannot answer."""

    exit_code = ExitCode.USAGE


class ProfileError(UsageError):
    """A profile is missing, unreadable or says something it cannot mean."""


class ModelError(SpecgenError):
    """A model could not be found, read or used."""


class MissingWeights(ModelError):
    """The weights are on none of the places that the profile names."""


class PromptError(UsageError):
    """The prompt is empty, unreadable or longer than the context."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory was asked for that the device or the system did not have; torch need not be imported."""
    told = str(error)
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "DefaultCPUAllocator" in told
        or "Cannot allocate memory" in told
    )
