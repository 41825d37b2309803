"""``specgen plan-memory``: whether a pair fits, before anything is loaded."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from specgen.cli.environment import Environment
from specgen.cli.logs import library_messages
from specgen.cli.options import Count, Lookahead, common_options, option, pass_environment
from specgen.errors import UsageError
from specgen.profile import DRAFT_DTYPES, DTYPES, ModelSpec, Profile, load_profile, most_proposed

if TYPE_CHECKING:
    from specgen.memory.plan import Planner
    from specgen.memory.request import Request

_DTYPES = click.Choice(DTYPES)
_QUANTS = click.Choice(["int8", "nf4", "nf4-double"])


@dataclass(frozen=True, slots=True)
class Settings:
    """The command's options; None where the profile decides."""

    profile: str | None
    target: str | None
    draft: str | None
    no_draft: bool
    context: int | None
    batch: int
    lookahead: int | str | None
    prefill_chunk: int
    dtype: str | None
    draft_dtype: str | None
    target_quant: str | None
    draft_quant: str | None
    attention: str
    device: str | None
    device_memory: str | None
    fast: bool
    explain: bool
    check: bool
    json: bool
    set: tuple[str, ...]
    offline: bool

    def pair(self, environment: Environment) -> Profile:
        """Return the pair: a profile's, or the one that was named."""
        if self.target is None:
            if self.draft is not None and self.profile is None:
                raise UsageError("--draft needs a --target", "--target ./model --draft ./small")
            profile = load_profile(self.profile or "starter", self.set, env=environment.variables)
            if self.draft is not None:
                profile = replace(profile, draft=ModelSpec(self.draft))
        else:
            if self.profile is not None:
                raise UsageError("--profile and --target exclude each other", "give one of them")
            draft = ModelSpec(self.draft) if self.draft else None
            profile = Profile("", ModelSpec(self.target), draft)
        return replace(profile, draft=None) if self.no_draft else profile


@click.command("plan-memory")
@option("-p", "--profile", metavar="NAME|PATH", help="The pair of models.  [default: starter]")
@option("--target", metavar="MODEL", help="A folder, a .gguf or config.json file, or a hub id, instead of a profile.")
@option("--draft", metavar="MODEL", help="The draft that goes with it.")
@option("--no-draft", is_flag=True, help="The target alone.")
@option(
    "--context", type=Count(min=2), metavar="N", help="Tokens of prompt and output together.  [default: the profile's]"
)
@option("--batch", type=Count(min=1), default=1, show_default=True, metavar="N", help="Rows side by side.")
@option(
    "-k",
    "--lookahead",
    type=Lookahead(),
    metavar="N|auto",
    help="Draft tokens a round.  [default: the profile's]",
)
@option(
    "--prefill-chunk",
    type=Count(min=1),
    default=512,
    show_default=True,
    metavar="N",
    help="Tokens of a prompt that are read at once.",
)
@option("--dtype", type=_DTYPES, help="Arithmetic of both models.  [default: the profile's]")
@option("--draft-dtype", type=click.Choice(DRAFT_DTYPES), help="Arithmetic of the draft.  [default: as --dtype]")
@option("--target-quant", type=_QUANTS, help="Plan the target quantized by bitsandbytes.")
@option("--draft-quant", type=_QUANTS, help="Plan the draft quantized by bitsandbytes.")
@option(
    "--attention",
    type=click.Choice(["auto", "fused", "plain"]),
    default="auto",
    show_default=True,
    help="Whether the device has a fused kernel for grouped queries under a mask.",
)
@option("--device", metavar="NAME", help="Where the models run: auto, cpu, cuda, cuda:1, mps, xpu, or cuda:0,cuda:1.")
@option(
    "--device-memory", metavar="SIZE", help="Plan for a machine that is not here: 80GB, or 24GB,24GB for two devices."
)
@option("--fast", is_flag=True, help="Use the closed form, without tracing a forward pass.")
@option("--explain", is_flag=True, help="Name the largest blocks at every peak.")
@option("--check", is_flag=True, help="Load the pair, run it, and compare the plan with what was measured.")
@option("--json", is_flag=True, help="Write one JSON object.")
@option("--set", multiple=True, metavar="KEY=VALUE", help="Override a profile's key; may be given several times.")
@option("--offline", is_flag=True, help="Use only what is on this machine.")
@common_options
@pass_environment
def command(environment: Environment, /, **options: Any) -> int:
    """Say whether target, draft, caches and working memory fit, and what would; no weights are read.

    Exits with 0 when the pair fits, 3 when it does not, 4 when nobody can tell.

    \b
    specgen plan-memory
    specgen plan-memory -p llama-7b-1b --batch 18 --device-memory 80GB
    specgen plan-memory --target ./big --draft ./small --device cpu --json
    """  # noqa: D301 - click wants the character
    settings = Settings(**options)
    with library_messages(environment):
        return plan_memory(environment, settings)


def plan_memory(environment: Environment, settings: Settings) -> int:
    """Plan, show the plan, and return the exit code."""
    from specgen.memory.advice import advise
    from specgen.memory.as_json import as_data, exit_code
    from specgen.memory.preflight import planner_for

    profile = settings.pair(environment)
    planner = planner_for(profile, offline=settings.offline)
    request = _request(settings, profile, planner)
    plan = advise(planner, request, planner.plan(request))
    if settings.check:
        from specgen.memory.check import check

        return check(environment.write, profile, request, plan, as_json=settings.json)
    if settings.json:
        environment.write(json.dumps(as_data(plan), ensure_ascii=False) + "\n")
    else:
        from specgen.display.plan_table import render

        environment.write(render(plan, _look(environment), explain=settings.explain))
    return int(exit_code(plan))


def _request(settings: Settings, profile: Profile, planner: Planner) -> Request:
    from specgen.memory.preflight import devices_of
    from specgen.memory.request import Request
    from specgen.memory.workload import Workload

    context = settings.context or profile.context or planner.positions()
    draft_dtype = settings.draft_dtype or settings.dtype or (profile.draft.dtype if profile.draft else "auto")
    lookahead = profile.lookahead if settings.lookahead is None else settings.lookahead
    return Request(
        load=Workload(
            context=context,
            batch=settings.batch,
            lookahead=most_proposed(lookahead) if profile.draft else 0,
            prefill_chunk=settings.prefill_chunk,
            sampling=profile.sampling,
            rule=profile.acceptance,
        ),
        devices=devices_of(settings.device or profile.target.device, settings.device_memory),
        target_dtype=settings.dtype or profile.target.dtype,
        draft_dtype=draft_dtype,
        target_quant=settings.target_quant,
        draft_quant=settings.draft_quant if profile.draft else None,
        with_draft=profile.draft is not None,
        attention=settings.attention,
        fast=settings.fast,
        detail=settings.explain,
    )


def _look(environment: Environment) -> Any:
    from specgen.display.look import Look

    colored = environment.colored(terminal=environment.stdout_is_terminal)
    unicode = environment.stdout_is_terminal and not environment.variables.get("NO_COLOR")
    width = shutil.get_terminal_size((100, 24)).columns if environment.stdout_is_terminal else 100
    return Look(width=width, colored=colored, unicode=unicode)
