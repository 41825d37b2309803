"""Options as specgen's commands share them: environment variables, numbers, and the four that every command has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from specgen.cli.environment import Environment
from specgen.cli.logs import log_file

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

pass_environment = click.make_pass_decorator(Environment)


class Option(click.Option):
    """An option that is also read from ``SPECGEN_<OPTION>``, in the environment that ``main`` was given."""

    @property
    def variable(self) -> str:
        """The name of its environment variable."""
        return f"SPECGEN_{(self.name or '').upper()}"

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Leave the range out of the help, which says in words what a number means."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the variable's value; an empty one counts as unset."""
        environment = ctx.find_object(Environment)
        if environment is None or not self.allow_from_autoenv:
            return None
        return environment.variables.get(self.variable) or None

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Parse as click does, and say so when a bad value came from the environment."""
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.BadParameter as error:
            if ctx.get_parameter_source(self.name or "") is ParameterSource.ENVIRONMENT:
                message = f"{error.message.rstrip('.')} (from {self.variable})"
                raise click.BadParameter(message, ctx=error.ctx, param=error.param) from error
            raise


class Number(click.FloatRange):
    """A finite number in a range: click's own lets ``nan`` through every bound."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse, then refuse what is no number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Count(click.IntRange):
    """A whole number in a range."""

    name = "whole number"


class Lookahead(click.ParamType):  # type: ignore[type-arg]  # generic in the stubs only
    """A whole number, or ``auto``."""

    name = "lookahead"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Parse either."""
        if isinstance(value, str) and value.strip().lower() == "auto":
            return "auto"
        try:
            number = int(value)
        except ValueError:
            number = -1
        if number < 0:
            self.fail(f"{value!r} is neither auto nor a whole number from 0 on.", param, ctx)
        return number


def option(*names: str, **settings: Any) -> Callable[[Decorated], Decorated]:
    """Declare an option that the environment can set too."""
    return click.option(*names, cls=Option, **settings)


def _keep(name: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def keep(context: click.Context, _parameter: click.Parameter, value: object) -> None:
        environment = context.find_object(Environment)
        # A group and its command both have these options: the one that was given wins over the other's default.
        if environment is not None and value:
            setattr(environment, name, value)

    return keep


def _open_log(context: click.Context, _parameter: click.Parameter, value: object) -> None:
    environment = context.find_object(Environment)
    # SPECGEN_LOG_FILE reaches the group and the command: one file, written once.
    if environment is not None and value and environment.log_file != value:
        environment.log_file = str(value)
        environment.closing.enter_context(log_file(environment.log_file))


def common_options(command: Decorated) -> Decorated:
    """Add ``--quiet``, ``--verbose``, ``--color`` and ``--log-file``, kept in the environment, not passed on."""
    for add in (
        option(
            "--log-file",
            metavar="FILE",
            callback=_open_log,
            expose_value=False,
            is_eager=True,
            help="Write every message of specgen and its libraries there, with the time.",
        ),
        option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            callback=_keep("color"),
            expose_value=False,
            is_eager=True,
            help="Colour messages. NO_COLOR and FORCE_COLOR are respected.  [default: auto]",
        ),
        option(
            "-v",
            "--verbose",
            is_flag=True,
            callback=_keep("verbose"),
            expose_value=False,
            is_eager=True,
            help="Show details, the libraries' own messages, and tracebacks.",
        ),
        option(
            "-q",
            "--quiet",
            is_flag=True,
            callback=_keep("quiet"),
            expose_value=False,
            is_eager=True,
            help="Show errors only.",
        ),
    ):
        command = add(command)
    return command
