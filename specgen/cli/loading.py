"""Loading a pair, with whatever progress the streams can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def load_models(
    environment: Environment, profile: Profile, settings: Settings, *, prompt: str | None = None, rows: int = 1
) -> Pair:
    """Load the models of a profile, saying what is loaded where, unless they would not fit.

    Args:
        environment: the streams.
        profile: the pair.
        settings: the command's options.
        prompt: the text to come, where it is known; its size bounds what has to fit.
        rows: sequences side by side.
    """
    environment.detail(f"profile {profile.name}" + (f" from {profile.source}" if profile.source else ""))
    if not settings.skip_memory_check:
        _check_memory(environment, profile, settings, prompt, rows)
    return load_pair(environment, profile, settings)


def load_pair(environment: Environment, profile: Profile, settings: Any) -> Pair:
    """Load the models of a profile, saying what is loaded and from where.

    Args:
        environment: the streams.
        profile: the pair.
        settings: a command's options, those of ``place_options`` among them.
    """
    from specgen import api

    pair = api.load(
        profile,
        offline=settings.offline,
        trust_remote_code=settings.trust_remote_code,
        threads=settings.threads,
        progress=progress_for(environment),
    )
    environment.detail(pair.describe())
    if pair.threads:
        environment.detail(f"{pair.threads} thread{'s' if pair.threads > 1 else ''} on the CPU")
    return pair


def _check_memory(
    environment: Environment, profile: Profile, settings: Settings, prompt: str | None, rows: int
) -> None:
    from specgen.memory.preflight import check_fits, expected_tokens
    from specgen.models.threads import settle

    settle(settings.threads)  # kernels take scratch memory for every thread
    tokens = expected_tokens(prompt, settings.system)
    plan = check_fits(
        profile,
        context=tokens + settings.max_tokens,
        prompt=tokens,
        batch=rows,
        lookahead=settings.lookahead,
        rule=settings.acceptance,
        columns=strict_columns(settings.strict),
    )
    if plan is None:
        environment.detail("cannot tell beforehand whether the models fit")
    elif plan.verdict == "tight":
        environment.notice(f"memory will be tight: {plan.peak.name} leaves {plan.left / 1e9:.2f} GB")
    else:
        environment.detail(f"needs {plan.need / 1e9:.2f} GB at its peak, {plan.left / 1e9:.2f} GB stay free")


def strict_columns(strict: bool) -> int | None:
    """Return the constant width of the target's passes, where a run has one."""
    if not strict:
        return None
    from specgen.models.strict import COLUMNS

    return COLUMNS
