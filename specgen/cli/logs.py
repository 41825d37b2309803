"""Messages: specgen's into a log file, the libraries' off the terminal unless somebody asks for them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from specgen.cli.environment import Environment
from specgen.errors import UsageError

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class _Plain(logging.Formatter):
    """Lines with the time, and without escape sequences, which have no place in a file."""

    def format(self, record: logging.LogRecord) -> str:
        return _ESCAPES.sub("", super().format(record))


class _Screen(logging.Handler):
    """Standard error, with control characters escaped like everything there."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(logging.WARNING)
        self._environment = environment

    def emit(self, record: logging.LogRecord) -> None:
        self._environment.note(f"{record.name}: {record.getMessage()}", dim=True)


@contextmanager
def _handling(handler: logging.Handler, level: int) -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(min(level, before))
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        handler.close()


@contextmanager
def log_file(path: str) -> Iterator[None]:
    """Write every message there, whatever its level.

    Raises:
        UsageError: if the file cannot be written.
    """
    try:
        handler = logging.FileHandler(Path(path), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the log file {path}: {error.strerror}", "--log-file PATH") from error
    handler.setFormatter(_Plain("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    with _handling(handler, logging.DEBUG):
        yield


@contextmanager
def library_messages(environment: Environment) -> Iterator[None]:
    """Keep logging, warnings and progress bars of the libraries off the terminal while a command uses them."""
    # Without any handler, Python's logging writes warnings to standard error by itself.
    handler = _Screen(environment) if environment.verbose else logging.NullHandler()
    with _handling(handler, logging.WARNING):
        logging.captureWarnings(True)
        try:
            _tame()
            yield
        finally:
            logging.captureWarnings(False)


def _tame() -> None:
    """Take away transformers' and the hub's own handlers and bars, so that their messages go where all others go."""
    from huggingface_hub.utils import disable_progress_bars
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_default_handler()
    transformers_logging.enable_propagation()
    transformers_logging.disable_progress_bar()
    hub_logging.enable_propagation()
    for handler in list(logging.getLogger("huggingface_hub").handlers):
        logging.getLogger("huggingface_hub").removeHandler(handler)
    disable_progress_bars()
