"""What a plan can end with: it does not fit, or nobody can tell."""

from __future__ import annotations

from typing import ClassVar

from specgen.errors import ExitCode, SpecgenError


class DoesNotFit(SpecgenError):
    """The pair needs more memory than there is."""

    exit_code: ClassVar[ExitCode] = ExitCode.DOES_NOT_FIT


class CannotTell(SpecgenError):
    """Something that the plan depends on is unknown; nothing is guessed in its place."""

    exit_code: ClassVar[ExitCode] = ExitCode.CANNOT_TELL
