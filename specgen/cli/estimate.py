"""``specgen estimate``: will this pair pay, from three times and an acceptance, without any model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import click

from specgen.cli.environment import Environment
from specgen.cli.options import Count, Number, common_options, option, pass_environment
from specgen.errors import ExitCode

_TIME = Number(min=0, min_open=True)


@dataclass(frozen=True, slots=True)
class Settings:
    """The command's options."""

    draft_ms: float
    plain_ms: float
    verify_ms: float | None
    overhead_ms: float
    lookahead: int
    alpha: float
    json: bool


@click.command("estimate")
@option("--draft-ms", type=_TIME, required=True, metavar="MS", help="Time of one draft token.")
@option("--plain-ms", type=_TIME, required=True, metavar="MS", help="Time of one token of the target alone.")
@option("--verify-ms", type=_TIME, metavar="MS", help="Time of the target's pass over k drafts.  [default: --plain-ms]")
@option(
    "--overhead-ms",
    type=Number(min=0),
    default=0.0,
    show_default=True,
    metavar="MS",
    help="What a round takes besides.",
)
@option(
    "-k",
    "--lookahead",
    allow_from_autoenv=False,  # SPECGEN_LOOKAHEAD may be auto
    type=Count(min=1, max=64),
    default=4,
    show_default=True,
    metavar="N",
    help="Draft tokens proposed a round.",
)
@option(
    "--alpha",
    type=Number(min=0, max=1),
    required=True,
    metavar="X",
    help="Acceptance, from 0 to 1: accepted of those that were tested.",
)
@option("--json", is_flag=True, help="Write one JSON object.")
@common_options
@pass_environment
def command(environment: Environment, /, **options: Any) -> int:
    """Say whether a pair will pay, from measured times; no model is needed.

    The answer has the speedup for every lookahead, the acceptance at which nothing is gained, and what the same number
    gives if it counts something else: accepted of the tested, of the proposed, with or without the target's own token.

    `specgen generate --stats` shows a pair's times and its alpha.

    \b
    specgen estimate --draft-ms 5 --plain-ms 80 --alpha 0.6
    specgen estimate --draft-ms 20 --plain-ms 80 --verify-ms 110 -k 6 --alpha 0.7
    """  # noqa: D301 - click wants the character
    return estimate(environment, Settings(**options))


def estimate(environment: Environment, settings: Settings) -> int:
    """Work it out and show it."""
    from specgen.bench.estimate import Costs
    from specgen.bench.estimate import estimate as work_out

    verify = settings.plain_ms if settings.verify_ms is None else settings.verify_ms
    costs = Costs(settings.draft_ms, settings.plain_ms, verify, settings.overhead_ms, settings.lookahead)
    found = work_out(costs, settings.alpha)
    if settings.json:
        environment.write(json.dumps(found.as_data()) + "\n")
    else:
        from specgen.display.estimate_table import render

        environment.write(render(found, unicode=environment.stdout_is_terminal and environment.unicode))
    return ExitCode.DONE
