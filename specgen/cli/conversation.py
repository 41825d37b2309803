"""A conversation: its messages, its settings, and the commands that begin with a slash."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specgen import __version__
from specgen.cli.environment import Environment
from specgen.cli.options import Count, Lookahead, Number
from specgen.cli.output import Played, describe_decoding, describe_rule, describe_translation, play, report_on
from specgen.cli.settings import SAMPLING
from specgen.decoding.halt import Halt
from specgen.display.json_lines import dump
from specgen.display.renderer import Run
from specgen.errors import SpecgenError, UsageError
from specgen.profile import Sampling

if TYPE_CHECKING:
    from specgen.api import Request, Session

_TYPES: Mapping[str, click.ParamType[Any]] = {
    "temperature": Number(min=0),
    "top_k": Count(min=0),
    "top_p": Number(min=0, max=1, min_open=True),
    "min_p": Number(min=0, max=1),
    "repetition_penalty": Number(min=0, min_open=True),
    "seed": Count(min=0, max=2**63 - 1),
    "max_tokens": Count(min=1),
    "lookahead": Lookahead(),
    "system": click.STRING,
}
COMMANDS = {
    "/reset": "Forget the conversation.",
    "/stats": "Report on the last answer.",
    "/set": "/set NAME VALUE changes a setting; /set lists them.",
    "/save": "/save FILE writes the conversation.",
    "/load": "/load FILE goes on with a conversation that was saved.",
    "/help": "List the commands.",
    "/exit": "End, as Ctrl-D does.",
}


@dataclass(slots=True)
class Conversation:
    """What was said so far, and how to go on.

    Attributes:
        environment: where it happens.
        session: the models and their caches.
        request: the settings of the next turn.
        form: the renderer's name.
        highlight: whether accepted drafts stay marked.
        report: whether every turn ends with a report.
        messages: what was said, without the system message.
        last: the last turn.
    """

    environment: Environment
    session: Session
    request: Request
    form: str
    highlight: bool
    report: bool
    messages: list[dict[str, str]]
    last: Played | None = None

    def turn(self, text: str) -> int:
        """Let the model answer; returns the exit code of a signal that is to end the program, or 0.

        An answer that was interrupted stays in the conversation. One that failed does not, nor does its question.
        """
        messages = [*self.messages, {"role": "user", "content": text}]
        halt = Halt()
        events = self.session.stream(messages, self.request, halt=halt)
        played = play(self.environment, events, self._run(), form=self.form, halt=halt)
        self.last = played
        self.messages = [*messages, {"role": "assistant", "content": played.text}]
        if self.report:
            report_on(self.environment, played)
        # Ctrl-C ends the answer, not the conversation.
        return 0 if played.exit_code == 130 else played.exit_code

    def obey(self, line: str) -> bool:
        """Run a command; returns whether the conversation goes on.

        Raises:
            UsageError: there is no such command, or it cannot do that.
        """
        name, _, argument = line.strip().partition(" ")
        if name in ("/exit", "/quit", "/bye"):
            return False
        commands: dict[str, Callable[[str], None]] = {
            "/reset": self._reset,
            "/stats": self._stats,
            "/set": self._set,
            "/save": self._save,
            "/load": self._load,
            "/help": self._help,
        }
        if name not in commands:
            raise UsageError(f"there is no command {name}", "/help lists them; a space before / makes it a message")
        commands[name](argument.strip())
        return True

    def _run(self) -> Run:
        from specgen.api import lookahead_of

        profile, request = self.session.pair.profile, self.request
        return Run(
            profile.name,
            request.seed,
            "",
            max_tokens=request.max_tokens,
            decoding=describe_decoding(self._sampling),
            rule=describe_rule(profile, replace(request, sampling=self._sampling)),
            translation=describe_translation(self.session.pair),
            models=self.session.pair.describe(),
            drafts=lookahead_of(profile, request)[1] > 0,
            highlight=self.highlight,
        )

    @property
    def _sampling(self) -> Sampling:
        return self.request.sampling or self.session.pair.profile.sampling

    def _reset(self, _argument: str) -> None:
        self.messages, self.last = [], None
        self.environment.note("The conversation is empty.", dim=True)

    def _stats(self, _argument: str) -> None:
        if self.last is None:
            raise UsageError("nothing was said yet", "/stats reports on the last answer")
        report_on(self.environment, self.last)

    def _help(self, _argument: str) -> None:
        for name, what in COMMANDS.items():
            self.environment.note(f"  {name:<8}{what}")

    def _set(self, argument: str) -> None:
        name, _, value = argument.replace("=", " ", 1).partition(" ")
        name = name.replace("-", "_")
        if not name:
            for known in _TYPES:
                value = getattr(self._sampling if known in SAMPLING else self.request, known)
                self.environment.note(f"  {known:<20}{'the profile' + chr(39) + 's' if value is None else value}")
            return
        if name not in _TYPES:
            raise UsageError(f"there is no setting {name}", "/set lists them")
        try:
            parsed: Any = _TYPES[name].convert(value.strip(), None, None) if value.strip() else None
        except click.BadParameter as error:
            raise UsageError(f"{name}: {error.message.rstrip('.')}", "/set temperature 0.8") from error
        if parsed is None and name not in ("lookahead", "system"):
            raise UsageError(f"{name} needs a value", "/set temperature 0.8")
        if name in SAMPLING:
            self.request = replace(self.request, sampling=replace(self._sampling, **{name: parsed}))
        else:
            self.request = replace(self.request, **{name: parsed})

    def _save(self, argument: str) -> None:
        if not argument:
            raise UsageError("/save needs a file", "/save talk.json")
        record = {"specgen": __version__, "system": self.request.system, "messages": self.messages}
        try:
            Path(argument).expanduser().write_text(dump(record) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {argument}: {error.strerror}", "/save talk.json") from error
        self.environment.note(f"{len(self.messages)} messages written to {argument}.", dim=True)

    def _load(self, argument: str) -> None:
        if not argument:
            raise UsageError("/load needs a file", "/load talk.json")
        system, self.messages = read_messages(argument)
        self.request = replace(self.request, system=system)
        self.last = None
        self.environment.note(f"{len(self.messages)} messages read from {argument}.", dim=True)


def read_messages(path: str) -> tuple[str | None, list[dict[str, str]]]:
    """Read a saved conversation, or a plain list of messages.

    Raises:
        UsageError: the file cannot be read or is neither.
    """
    try:
        found = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "/save FILE writes one") from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON", "/save FILE writes one") from error
    messages = found.get("messages") if isinstance(found, dict) else found
    system = found.get("system") if isinstance(found, dict) else None
    if not isinstance(messages, list) or not all(map(_is_message, messages)):
        raise UsageError(f"{path} holds no conversation", '[{"role": "user", "content": "..."}, ...]')
    if messages and messages[0]["role"] == "system":
        system, messages = messages[0]["content"], messages[1:]
    return system, [{"role": message["role"], "content": message["content"]} for message in messages]


def _is_message(message: object) -> bool:
    return isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))


def complain(environment: Environment, error: SpecgenError) -> None:
    """Say what went wrong, and go on."""
    environment.error(error.message, error.hint)
