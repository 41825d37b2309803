"""``specgen pull``: a profile's models, fetched ahead of time."""

from __future__ import annotations

import click

from specgen.cli.environment import Environment
from specgen.cli.logs import library_messages
from specgen.cli.options import common_options, option, pass_environment
from specgen.display.loading import BarProgress, LineProgress
from specgen.profile import load_profile


@click.command("pull")
@click.argument("profile", default="starter")
@option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Replace a key of the profile. Repeatable.")
@common_options
@pass_environment
def command(environment: Environment, profile: str, settings: tuple[str, ...]) -> None:
    """Fetch the target and the draft of PROFILE, `starter` by default, so that later runs need no network.

    Models that are on this machine already are left alone. The paths go to standard output, the target's first:

    \b
    specgen pull
    specgen pull llama-7b-1b
    specgen pull starter --set target.revision=main
    """  # noqa: D301 - click wants the character
    from specgen.models.sources import locate

    pair = load_profile(profile, settings, env=environment.variables)
    progress = (
        BarProgress(environment.stderr, colored=environment.colored(terminal=True))
        if environment.animated
        else LineProgress(environment.notice)
    )
    with library_messages(environment):
        for spec in (pair.target, pair.draft):
            if spec is not None:
                environment.write(f"{locate(spec, progress=progress, profile=profile).file}\n")
