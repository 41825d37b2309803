"""``plan-memory --check``: what was planned beside what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from specgen.errors import ExitCode, ModelError
from specgen.memory.as_json import as_data
from specgen.memory.report import Plan
from specgen.memory.request import Request

if TYPE_CHECKING:
    from specgen.profile import Profile


def check(write: Callable[[str], None], profile: Profile, request: Request, plan: Plan, *, as_json: bool) -> int:
    """Run the pair in processes of its own and print both numbers of everything.

    Args:
        write: where the result goes.
        profile: the pair.
        request: what was planned.
        plan: the answer.
        as_json: write one object instead of lines.

    Returns:
        The exit code: 0 when it ran.

    Raises:
        ModelError: the pair could not be run.
    """
    found = _ask(profile, request, events=True)
    if request.devices[0].kind == "cpu":
        # Watching the allocator takes memory itself.
        found["process"] = _ask(profile, request, events=False)["process"]
    rows = list(compare(plan, found))
    if as_json:
        data = as_data(plan) | {"check": [{"what": w, "planned": p, "measured": m} for w, p, m in rows]}
        write(json.dumps(data, ensure_ascii=False) + "\n")
        return int(ExitCode.DONE)
    write(f"{'':22}{'planned':>18}{'measured':>18}\n")
    for what, planned, measured in rows:
        error = f"{100 * (planned / measured - 1):+.2f} %" if measured else "-"
        write(f"{what:22}{planned:>18,}{measured:>18,}  {error if planned != measured else 'equal'}\n")
    return int(ExitCode.DONE)


def compare(plan: Plan, found: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Pair up what was planned and what was measured: a name and two numbers of bytes."""
    models = {"target": plan.target, "draft": plan.draft}
    for what in ("weights", "kv"):
        for name, measured in found[what].items():
            model = models[name]
            if model is not None:
                yield f"{name} {what}", getattr(model, what), measured
    for phase in plan.phases:
        if phase.name in found["phases"]:
            yield phase.name, phase.peak, found["phases"][phase.name]
    yield "process", process(plan), found["process"]


def process(plan: Plan) -> int:
    """The most memory that the process should have: pages of a file that was read count, though they can go."""
    runtime = sum(device.runtime for device in plan.devices)
    models = [model for model in (plan.target, plan.draft) if model is not None]
    if plan.devices[0].memory.kind != "cpu" or not any(model.converted or model.packing for model in models):
        return plan.need
    peaks, held, pages = [0], 0, 0
    for model in models:
        reading = model.weights - model.copied + (model.in_files or 0 if model.converted else 0)
        # Packing reads all of a file but an untied embedding.
        unread = model.untouched if model.stays_mapped and not model.copied else 0
        kept = model.weights + model.stays_mapped - unread
        peaks.append(held + runtime + max(reading, kept + model.twice))
        held += kept
        pages += kept - model.weights + model.untouched if model.stays_mapped else 0
    return max(plan.need + pages, *peaks)


def _ask(profile: Profile, request: Request, *, events: bool) -> dict[str, Any]:
    from specgen.profile import as_data as profile_data

    # What was planned is measured, and not what the profile has in its place.
    draft = profile.draft and replace(profile.draft, dtype=request.draft_dtype)
    profile = replace(profile, target=replace(profile.target, dtype=request.target_dtype), draft=draft)
    question = {
        "profile": profile_data(profile),
        "load": asdict(request.load),
        "offline": True,
        "events": events,
    }
    done = subprocess.run(
        [sys.executable, "-m", "specgen.memory.measure"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        reason = (done.stderr.strip().splitlines() or ["it ended without an answer"])[-1]
        killed = " (killed, as when memory runs out)" if done.returncode == -9 else ""
        raise ModelError(
            f"the pair could not be run{killed}: {reason}", "specgen generate with the same pair says more"
        )
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer
