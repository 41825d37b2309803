"""Files of the user's: read with errors that say what to do, and written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from specgen.errors import PromptError


def read_text(path: str, hint: str) -> str:
    """Return the text of a file, a byte-order mark left out.

    Args:
        path: the file.
        hint: what to give instead, if it cannot be read.

    Raises:
        PromptError: it cannot be read, or is not UTF-8.
    """
    try:
        # Bytes first: reading as text would turn every kind of line end into one.
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PromptError(f"{path} is not UTF-8", "iconv -f latin1 -t utf-8 converts a Western European file") from None
    except OSError as error:
        raise PromptError(f"cannot read {path}: {error.strerror}", hint) from None


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A name in the same folder to write to, before that file takes the place of ``path``; it does not stay."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield scratch
    finally:
        scratch.unlink(missing_ok=True)
