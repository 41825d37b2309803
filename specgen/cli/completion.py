"""``specgen completion``: what a shell needs to complete commands, options and the names of profiles."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from specgen.cli.environment import Environment
from specgen.cli.options import common_options, pass_environment

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE = "_SPECGEN_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


def profile_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a profile, or the path of a file where it looks like one."""
    from click.shell_completion import CompletionItem

    from specgen.profile import listing

    if os.sep in incomplete or incomplete.startswith("."):
        return [CompletionItem(incomplete, type="file")]
    environment = context.find_object(Environment)
    variables = os.environ if environment is None else environment.variables
    names = [found.name for found in listing(env=variables) if not found.shadowed]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def answer(group: click.Command, environment: Environment) -> int | None:
    """Answer a shell that asks for completions; None when none does."""
    if VARIABLE not in environment.variables:
        return None
    from click.shell_completion import get_completion_class

    shell, _, wanted = environment.variables.get(VARIABLE, "").partition("_")
    found = get_completion_class(shell) if wanted == "complete" else None
    if found is None:
        return None
    environment.write(found(group, {"obj": environment}, "specgen", VARIABLE).complete() + "\n")
    return 0


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@common_options
@pass_environment
def command(environment: Environment, /, shell: str) -> None:
    """Print a script that lets a shell complete commands, options and profiles.

    \b
    Examples:
      specgen completion bash > ~/.local/share/bash-completion/completions/specgen
      specgen completion zsh > ~/.zfunc/_specgen
      specgen completion fish > ~/.config/fish/completions/specgen.fish
      source <(specgen completion bash)
    """  # noqa: D301 - click wants the character
    from click.shell_completion import get_completion_class

    from specgen.cli.main import specgen

    found = get_completion_class(shell)
    assert found is not None
    complete = found(specgen, {}, "specgen", VARIABLE)
    # click's own source() starts bash to ask for its version; the script is the same.
    environment.write(complete.source_template % complete.source_vars() + "\n")
