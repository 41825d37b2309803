"""The libraries' own messages: kept off the terminal, shown with ``--verbose``, written to ``--log-file``."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from specgen.cli.environment import Environment
from specgen.errors import UsageError

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class _OneLine(logging.Formatter):
    """A record without escape sequences, which have no place in a file."""

    def format(self, record: logging.LogRecord) -> str:
        return _ESCAPES.sub("", super().format(record))


@contextmanager
def library_messages(environment: Environment) -> Iterator[None]:
    """Route logging and warnings while a command works, and put everything back."""
    root = logging.getLogger()
    level, handlers = root.level, _handlers(environment)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(logging.DEBUG if environment.log_file else logging.WARNING)
    logging.captureWarnings(True)
    try:
        _tame()
        yield
    except BaseException as error:
        logging.getLogger("specgen").info("ended by %s", type(error).__name__, exc_info=error)
        raise
    finally:
        logging.captureWarnings(False)
        root.setLevel(level)
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()


def _handlers(environment: Environment) -> list[logging.Handler]:
    # Without any handler, Python's logging writes warnings to standard error by itself.
    handlers: list[logging.Handler] = [logging.NullHandler()]
    if environment.verbose:
        screen = _Screen(environment)
        screen.setLevel(logging.WARNING)
        handlers.append(screen)
    if environment.log_file:
        try:
            file = logging.FileHandler(Path(environment.log_file), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write the log file {environment.log_file}: {error.strerror}") from error
        file.setFormatter(_OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        handlers.append(file)
    return handlers


class _Screen(logging.Handler):
    """Standard error, with control characters escaped like everything there."""

    def __init__(self, environment: Environment) -> None:
        super().__init__()
        self._environment = environment

    def emit(self, record: logging.LogRecord) -> None:
        self._environment.note(f"{record.name}: {record.getMessage()}", dim=True)


def _tame() -> None:
    """Take away transformers' and the hub's handlers and bars, so that their messages go where all others go."""
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
