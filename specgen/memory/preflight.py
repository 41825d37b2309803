"""The plan that ``generate`` makes before it loads anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from specgen.errors import SpecgenError, UsageError
from specgen.memory import free
from specgen.memory.errors import CannotTell, DoesNotFit
from specgen.memory.free import Memory
from specgen.memory.plan import Planner
from specgen.memory.report import Plan
from specgen.memory.request import Request
from specgen.memory.sources import find
from specgen.memory.workload import Workload
from specgen.profile import most_proposed

if TYPE_CHECKING:
    from specgen.profile import Profile

_TEMPLATE = 64
_GIVEN = ("cpu", "cuda", "mps", "xpu")


def planner_for(profile: Profile, *, offline: bool) -> Planner:
    """Find what is known of a profile's models.

    Raises:
        CannotTell: config and headers of a model are nowhere, or damaged.
    """
    draft = find(profile.draft, offline=offline) if profile.draft else None
    return Planner(find(profile.target, offline=offline), draft)


def devices_of(device: str, memory: str | None) -> tuple[Memory, ...]:
    """The devices to plan for: those of this machine, or ones of a given size.

    Args:
        device: as in a profile.
        memory: sizes of devices that are not here.
    """
    if memory is not None:
        kind = "cuda" if device == "auto" else device.partition(",")[0].partition(":")[0]
        if kind not in _GIVEN:
            raise UsageError(f"there is no kind of device called {kind!r}", f"use one of {', '.join(_GIVEN)}")
        return free.assumed(memory, kind)
    if device == "cpu":
        return free.present(("cpu",))
    from specgen.models.devices import pick_devices

    return free.present(tuple(str(found) for found in pick_devices(device)))


def expected_tokens(prompt: str | None, system: str | None) -> int:
    """Tokens to expect of a prompt, before there is a tokenizer: three bytes each, and a chat template."""
    return len(((prompt or "") + (system or "")).encode("utf-8", "replace")) // 3 + _TEMPLATE


def check_fits(
    profile: Profile,
    *,
    context: int,
    prompt: int | None = None,
    batch: int = 1,
    lookahead: int | str | None = None,
    rule: str | None = None,
    columns: int | None = None,
    offline: bool = True,
    planner: Planner | None = None,
) -> Plan | None:
    """Refuse a run that would not fit; an answer that nobody can give refuses nothing.

    Args:
        profile: the pair, on its devices.
        context: tokens of prompt and output together, an upper bound.
        prompt: tokens of the prompt, where known.
        batch: rows side by side.
        lookahead: draft tokens a round; None is the profile's.
        rule: the acceptance rule; None is the profile's.
        columns: constant width of the target's passes (strict mode), or None.
        offline: plan from what is on this machine.
        planner: of the pair, if there is one already.

    Returns:
        The plan; None when the models are not known yet, as before a first download.

    Raises:
        DoesNotFit: with the reason and a way out.
    """
    try:
        planner = planner or planner_for(profile, offline=offline)
        limit = min(planner.positions(), profile.context or planner.positions())
        k = most_proposed(profile.lookahead if lookahead is None else lookahead)
        load = Workload(
            context=max(min(context, limit), 2),
            batch=batch,
            lookahead=k if profile.draft else 0,
            prompt=prompt,
            columns=columns,
            sampling=profile.sampling,
            rule=rule or profile.acceptance,
        )
        request = Request(
            load=load,
            devices=devices_of(profile.target.device, None),
            target_dtype=profile.target.dtype,
            draft_dtype=profile.draft.dtype if profile.draft else "auto",
            with_draft=profile.draft is not None,
        )
        plan = _quickest(planner, request)
    except SpecgenError:
        # Loading says what is wrong with a model, in its own words.
        return None
    if plan.fits:
        return plan
    raise refusal(plan, planner, request)


def _quickest(planner: Planner, request: Request) -> Plan:
    """The closed form where it covers both models and is sure of its answer, else the trace."""
    try:
        plan = planner.plan(replace(request, fast=True))
        sure = all(abs(device.left) > 0.01 * device.need for device in plan.devices)
        if sure:
            return plan
    except CannotTell:
        pass
    return planner.plan(request)


def refusal(plan: Plan, planner: Planner, request: Request) -> DoesNotFit:
    """Say in a line why a plan does not fit, and what would."""
    from specgen.memory.advice import advise

    full = min(plan.devices, key=lambda device: device.left)
    pair = plan.target.name + (f" with {plan.draft.name}" if plan.draft else "")
    found = advise(planner, request, plan).suggestions
    first = (
        f"{found[0].options} would fit; " if found and found[0].options.startswith(("--dtype", "--no-draft")) else ""
    )
    return DoesNotFit(
        f"{pair} needs {full.need / 1e9:.1f} GB on {full.memory.id} at its peak ({plan.peak.name}), "
        f"{full.memory.free / 1e9:.1f} GB are free",
        f"{first}specgen plan-memory shows what would fit; --skip-memory-check loads it anyway",
    )
