"""``specgen pull``: a profile's models, fetched ahead of time."""

from __future__ import annotations

import click

from specgen.cli.completion import profile_names
from specgen.cli.environment import Environment
from specgen.cli.logs import library_messages
from specgen.cli.options import common_options, pass_environment
from specgen.display.loading import BarProgress, LineProgress
from specgen.profile import load_profile


@click.command("pull")
@click.argument("profile", required=False, shell_complete=profile_names)
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a key first. May be repeated.")
@common_options
@pass_environment
def command(environment: Environment, profile: str | None, settings: tuple[str, ...]) -> None:
    """Fetch the models of a profile, by name or path, so that later runs need no network.

    Without PROFILE it is $SPECGEN_PROFILE, or starter. Models that are on this machine already are left alone. The
    paths go to standard output, the target's first.

    \b
    specgen pull
    specgen pull llama-7b-1b
    specgen pull starter --set target.revision=main
    """  # noqa: D301 - click wants the character
    from specgen.models.sources import locate

    name = profile or environment.variables.get("SPECGEN_PROFILE") or "starter"
    pair = load_profile(name, settings, env=environment.variables)
    progress = (
        BarProgress(environment.stderr, colored=environment.colored(terminal=True))
        if environment.animated
        else LineProgress(environment.notice)
    )
    with library_messages(environment):
        for spec in (pair.target, pair.draft):
            if spec is not None:
                environment.write(f"{locate(spec, progress=progress, profile=name).file}\n")
