"""Where a conversation's messages are typed: prompt_toolkit, the plain prompt where it is missing, or a pipe."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from specgen.cli.environment import Environment
from specgen.errors import PromptError
from specgen.profile import config_folder

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

PROMPT, CONTINUED = "> ", "… "
_FENCE = '"""'
HINT = 'pip install "specgen[chat]" adds editing over several lines, search in the history and completion'


class Reader(Protocol):
    """Somebody who types messages."""

    def read(self) -> str:
        """Return the next message.

        Raises:
            EOFError: there is no more.
            KeyboardInterrupt: the message was given up.
        """


class PipeReader:
    """Messages from a pipe or a file, one a line; several lines between two lines of three quotes."""

    def __init__(self, environment: Environment) -> None:
        self._stream = environment.stdin

    def read(self) -> str:
        """Return the next message."""
        return join_lines(self._line)

    def _line(self, _prompt: str) -> str:
        data = self._stream.readline()
        if not data:
            raise EOFError
        try:
            return data.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise PromptError("standard input is not UTF-8", "iconv -f latin1 -t utf-8 converts it") from error


class PlainReader:
    """Python's own prompt, with the keys and the history of ``readline`` where Python has it."""

    def __init__(self, environment: Environment) -> None:
        self._continued = CONTINUED if environment.unicode else ". "
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - to import it is to use it

    def read(self) -> str:
        """Return the next message."""
        return join_lines(lambda prompt: input(prompt if prompt == PROMPT else self._continued))


class ToolkitReader:
    """prompt_toolkit: Enter sends, Alt-Enter begins a new line, pasted lines stay together."""

    def __init__(
        self,
        environment: Environment,
        commands: Iterable[str],
        *,
        source: Input | None = None,
        screen: Output | None = None,
    ) -> None:
        self._session = _session(environment, commands, source, screen)

    def read(self) -> str:
        """Return the next message."""
        return self._session.prompt()


def reader_for(environment: Environment, commands: Iterable[str]) -> Reader:
    """Return the best reader that streams and packages allow."""
    if not environment.stdin_is_terminal:
        return PipeReader(environment)
    if not environment.can_draw:
        return PlainReader(environment)
    if importlib.util.find_spec("prompt_toolkit") is None:
        environment.note(HINT, dim=True)
        return PlainReader(environment)
    return ToolkitReader(environment, commands)


def join_lines(line: ReadLine) -> str:
    """Return a message of one line, or of several: continued after a backslash, or between lines of three quotes."""
    text = line(PROMPT)
    if text.startswith(_FENCE):
        lines = [text[len(_FENCE) :]]
        while not lines[-1].rstrip().endswith(_FENCE) or (len(lines) == 1 and not lines[0]):
            lines.append(line(CONTINUED))
        lines[-1] = lines[-1].rstrip()[: -len(_FENCE)]
        return "\n".join(lines).strip("\n")
    while text.endswith("\\"):
        text = text[:-1] + "\n" + line(CONTINUED)
    return text


class ReadLine(Protocol):
    """Reads a line after a prompt."""

    def __call__(self, prompt: str, /) -> str:
        """Return the line."""


def _session(
    environment: Environment, commands: Iterable[str], source: Input | None, screen: Output | None
) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.output import ColorDepth

    keys = KeyBindings()

    @keys.add("enter")
    def _send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _newline(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return PromptSession(
        PROMPT,
        multiline=True,
        prompt_continuation=lambda *_: CONTINUED if environment.unicode else ". ",
        key_bindings=keys,
        history=_history(environment),
        auto_suggest=AutoSuggestFromHistory(),
        completer=WordCompleter(list(commands), sentence=True),
        complete_while_typing=False,
        color_depth=None if environment.colored(terminal=True) else ColorDepth.DEPTH_1_BIT,
        input=source,
        output=screen,
    )


def _history(environment: Environment) -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = config_folder(environment.variables) / "chat-history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
