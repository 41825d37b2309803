"""Loading a pair, with whatever progress the streams can show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specgen.cli.environment import Environment
from specgen.cli.settings import Settings
from specgen.display.loading import BarProgress, LineProgress
from specgen.profile import Profile

if TYPE_CHECKING:
    from specgen.models.load import Pair
    from specgen.models.progress import Progress


def progress_for(environment: Environment) -> Progress:
    """Return a bar for a terminal; elsewhere a line for what takes long, and for the rest where details are wanted."""
    if environment.animated:
        return BarProgress(environment.stderr, colored=environment.colored(terminal=True))
    return LineProgress(environment.notice, environment.detail)


def load_models(environment: Environment, profile: Profile, settings: Settings) -> Pair:
    """Load the models of a profile, saying what is loaded where."""
    from specgen import api

    environment.detail(f"profile {profile.name}" + (f" from {profile.source}" if profile.source else ""))
    pair = api.load(
        profile,
        offline=settings.offline,
        trust_remote_code=settings.trust_remote_code,
        progress=progress_for(environment),
    )
    environment.detail(pair.describe())
    return pair
