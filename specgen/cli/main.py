"""The ``specgen`` command: commands loaded when they are called, and the one place that maps errors to exit codes."""

from __future__ import annotations

import contextlib
import errno
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from textwrap import shorten
from typing import NamedTuple, TextIO

import click

from specgen import __version__
from specgen.cli.completion import answer
from specgen.cli.environment import Environment
from specgen.cli.options import common_options
from specgen.cli.signals import terminating
from specgen.display.escape import printable
from specgen.errors import ExitCode, SpecgenError, UsageError, is_out_of_memory


class Entry(NamedTuple):
    """A command: the module whose ``command`` it is, and its line in ``specgen --help``."""

    module: str
    help: str


COMMANDS = {
    "generate": Entry("specgen.cli.generate", "Generate text with a target model and a draft."),
    "chat": Entry("specgen.cli.chat", "Talk with a model; the conversation stays in both caches."),
    "profiles": Entry("specgen.cli.profiles", "List, show and check the profiles that name a pair of models."),
    "plan-memory": Entry("specgen.cli.plan_memory", "Say whether a pair fits in memory, and what would."),
    "verify": Entry("specgen.cli.verify", "Prove on your own pair that drafts do not change the text."),
    "estimate": Entry("specgen.cli.estimate", "Say from measured times whether a pair will pay."),
    "bench": Entry("specgen.cli.bench", "Measure a pair against its target alone, and against others."),
    "tune": Entry("specgen.cli.tune", "Measure which settings suit a pair, and write them into a profile."),
    "pull": Entry("specgen.cli.pull", "Fetch a profile's models ahead of time."),
    "replay": Entry("specgen.cli.replay", "Play a recorded run again, without any model."),
    "completion": Entry("specgen.cli.completion", "Print a shell's completion script."),
}


class LazyGroup(click.Group):
    """A group that imports a command's module when that command is called, so that ``--help`` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command, or return None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name].module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, suggesting the nearest name."""
        name = args[0]
        if name.startswith("-") or name in COMMANDS:
            return super().resolve_command(ctx, args)
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean specgen {near[0]}?" if near else 'specgen generate "..." takes a prompt'
        raise UsageError(f"there is no command {shorten(name, 40)!r}", f"{hint}\nspecgen --help lists the commands")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the table without importing what it names."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`specgen COMMAND --help` describes a command. Any option can be set as SPECGEN_<OPTION>.",
    no_args_is_help=False,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.version_option(__version__, message="specgen %(version)s")
@common_options
@click.pass_context
def specgen(context: click.Context) -> None:
    """Make a large language model faster with a small one, and keep its words.

    \b
    specgen generate "Explain speculative decoding in one sentence."
    specgen generate --profile llama-7b-1b "Write a haiku about tests."
    specgen profiles list
    """  # noqa: D301 - click wants the character
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(argv: Sequence[str] | None = None, environment: Environment | None = None) -> int:
    """Run one command and return its exit code; every error of every command ends here.

    Args:
        argv: the arguments, those of the process by default.
        environment: the streams and variables to use, those of the process by default.
    """
    environment = environment or Environment.system()
    streams = contextlib.redirect_stdout(environment.stdout), contextlib.redirect_stderr(environment.stderr)
    with streams[0], streams[1], environment.closing:
        try:
            with terminating():
                completed = answer(specgen, environment)
                code = _run(argv, environment) if completed is None else completed
                environment.stdout.flush()
        except BaseException as error:  # noqa: BLE001 - this is where every exception becomes an exit code
            code = _report(error, environment)
        return _settle(code, environment)


def _run(argv: Sequence[str] | None, environment: Environment) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    # click's own main() answers Ctrl-C and a closed pipe with exit code 1, so it is not called.
    try:
        with specgen.make_context("specgen", arguments, obj=environment) as context:
            result = specgen.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.UsageError as error:
        # click's parser does not say which command it was parsing for.
        error.ctx = error.ctx or _called(arguments)
        raise
    return int(result) if isinstance(result, int) else ExitCode.DONE


def _called(arguments: Sequence[str]) -> click.Context | None:
    name = next((argument for argument in arguments if argument in COMMANDS), None)
    command = name and specgen.get_command(click.Context(specgen), name)
    return click.Context(command, info_name=f"specgen {name}") if command else None


def _report(error: BaseException, environment: Environment) -> int:
    """Say what happened and return the exit code."""
    logging.getLogger("specgen").info("ended by %s", type(error).__name__, exc_info=error)
    match error:
        case SystemExit(code=int(code)):
            return code
        case SystemExit(code=None):
            return ExitCode.DONE
        case KeyboardInterrupt() | click.Abort():
            return _say(environment, ExitCode.INTERRUPTED, "interrupted")
        case BrokenPipeError():
            return ExitCode.CLOSED_PIPE
        case SpecgenError():
            return _say(environment, error.exit_code, error.message, error.hint)
        case click.ClickException():
            return _say(environment, ExitCode.USAGE, *_usage(error))
        case OSError(errno=errno.EIO) if environment.stdout_is_terminal or environment.stderr_is_terminal:
            return ExitCode.HANGUP  # the terminal has gone
        case OSError(errno=errno.ENOSPC):
            where = f" while writing {error.filename}" if error.filename else " while writing the output"
            return _say(environment, ExitCode.FAILED, f"no space left on the device{where}")
    return _report_unforeseen(error, environment)


def _report_unforeseen(error: BaseException, environment: Environment) -> int:
    if environment.debug:
        environment.stderr.write(printable("".join(traceback.format_exception(error))))
    if is_out_of_memory(error):
        return _say(environment, ExitCode.DOES_NOT_FIT, "out of memory", "specgen plan-memory says what would fit")
    if environment.debug:
        return ExitCode.FAILED
    message = " ".join(f"unexpected error: {type(error).__name__}: {error}".split()).rstrip(":")
    return _say(environment, ExitCode.FAILED, message, "run again with SPECGEN_DEBUG=1 for the traceback")


def _say(environment: Environment, code: ExitCode, message: str, hint: str | None = None) -> ExitCode:
    with contextlib.suppress(OSError, ValueError):  # nobody may be left to read it
        environment.error(message, hint)
    return code


def _usage(error: click.ClickException) -> tuple[str, str]:
    """Turn click's message into specgen's: no capital, no full stop, the suggestion as the hint."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "specgen"
    message = error.format_message()
    hints = [f"{command} --help lists the options"]
    if isinstance(error, click.NoSuchOption):
        message = f"no such option {error.option_name!r}"
        if error.possibilities:
            hints.insert(0, f"did you mean {error.possibilities[0]}?")
    message = message.rstrip(".")
    return message[:1].lower() + message[1:], "\n".join(hints)


def _settle(code: int, environment: Environment) -> int:
    """Flush what is left; point a stream that cannot be written at nothing, or Python complains at exit."""
    for stream in (environment.stdout, environment.stderr):
        code = _flush(stream, code)
    return int(code)


def _flush(stream: TextIO, code: int) -> int:
    try:
        stream.flush()
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if code == ExitCode.DONE:
            return ExitCode.CLOSED_PIPE if isinstance(error, BrokenPipeError) else ExitCode.FAILED
    return code
