"""A memory plan for people: a table, a bar for each device, the verdict, and what would fit."""

from __future__ import annotations

import io
from collections.abc import Iterator

from specgen.display.escape import printable
from specgen.display.look import Look
from specgen.memory.report import Device, ModelNeeds, Plan

_WORDS = {"fits": "fits", "tight": "tight: it fits with little to spare", "no": "does not fit"}
_STYLES = {"fits": "green", "tight": "yellow", "no": "red"}
# One letter a part, so that a bar can be read without colour.
_PARTS = (("weights", "w", "cyan"), ("kv", "K", "blue"), ("working", "a", "magenta"), ("runtime", "r", "white"))


def size(count: int) -> str:
    """Write bytes in the unit that suits them: ``13.48 GB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= scale:
            return f"{count / scale:.2f} {unit}"
    return f"{count} B"


def render(plan: Plan, look: Look, *, explain: bool = False) -> str:
    """Draw a plan."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out,
        width=max(look.width, 60),
        force_terminal=look.colored,
        color_system="standard" if look.colored else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    table = Table(box=box.SIMPLE_HEAD if look.unicode else box.ASCII, pad_edge=False, show_edge=False)
    table.add_column("")
    for name in ("target", "draft", "both"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in _rows(plan):
        table.add_row(*row)
    console.print(table)
    console.print()
    for device in plan.devices:
        console.print(_bar(device, look))
        console.print(Text(f"  {_left(device)}", style=_STYLES[device.verdict]))
    for line in _lines(plan):
        console.print(Text(printable(line)), soft_wrap=True)
    if explain:
        for line in _explained(plan):
            console.print(Text(printable(line)), soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _rows(plan: Plan) -> Iterator[tuple[str, str, str, str, str]]:
    target, draft = plan.target, plan.draft
    models = [target] + ([draft] if draft else [])
    weights = [size(m.weights) for m in models]
    yield "weights", weights[0], weights[1] if draft else "", size(sum(m.weights for m in models)), _from(models)
    load = plan.request
    yield (
        f"KV cache, {load['batch']} x {load['context']}",
        size(target.kv),
        size(draft.kv) if draft else "",
        size(sum(m.kv for m in models)),
        _slots(models),
    )
    base = sum(m.weights for m in models)
    for phase in plan.phases:
        mark = "  <- peak" if phase is plan.peak else ""
        if phase.method == "weights":
            if mark:
                yield phase.name, "", "", size(phase.peak), f"{phase.method}{mark}"
            continue
        own = max(phase.peak - base - sum(m.kv for m in models), 0)
        side = "draft" if phase.name.startswith("draft") else "target"
        cells = ("", size(own)) if side == "draft" else (size(own), "")
        yield phase.name, *cells, size(phase.peak), f"{phase.method}{mark}"
    runtime = sum(device.runtime for device in plan.devices)
    yield "runtime", "", "", size(runtime), plan.runtime_source
    yield "needed", "", "", size(plan.need), f"at the peak: {plan.peak.name}"


def _from(models: list[ModelNeeds]) -> str:
    kinds = list(dict.fromkeys(m.quantization or m.dtype for m in models))
    exact = "exact" if all(m.exact for m in models) else "estimated"
    return f"{exact}, {' and '.join(kinds)}"


def _slots(models: list[ModelNeeds]) -> str:
    per_token = " + ".join(f"{m.kv_per_token:,}" for m in models)
    return f"{per_token} B a token, {' and '.join(f'{m.kv_slots:,}' for m in models)} slots"


def _bar(device: Device, look: Look) -> object:
    from rich.text import Text

    whole = max(device.need, device.memory.free, 1)
    cells = max(min(look.width, 100) - 30, 20)
    text = Text(f"{device.memory.id:8} {size(device.memory.free):>10} ")
    used = 0
    drawn = 0
    text.append("|")
    for name, letter, style in _PARTS:
        used += getattr(device, name)
        count = round(cells * used / whole) - drawn
        text.append(("█" if look.unicode and look.colored else letter) * count, style=style)
        drawn += count
    text.append("." * (cells - drawn))
    text.append("|")
    return text


def _left(device: Device) -> str:
    what = f"{size(device.left)} free" if device.left >= 0 else f"{size(-device.left)} short"
    others = "".join(f"; process {pid} holds {size(count)}" for pid, count in device.memory.others)
    return f"{_WORDS[device.verdict]}, {what} of {size(device.memory.free)} ({device.memory.source}){others}"


def _lines(plan: Plan) -> Iterator[str]:
    yield "  w weights, K keys and values, a activations and buffers, r runtime, . free"
    if plan.limits is not None:
        limits, load = plan.limits, plan.request
        by = "the model" if limits.context_by == "model" else "memory"
        yield (
            f"what fits, one thing changed at a time: context {limits.context:,} (limited by {by}), "
            f"batch {limits.batch:,} at {load['context']:,}" + (f", lookahead {limits.lookahead}" if plan.draft else "")
        )
    if plan.suggestions:
        yield "to fit, cheapest first:"
        width = max(len(s.options) for s in plan.suggestions)
        for s in plan.suggestions:
            yield f"  {s.options:{width}}  {size(s.need):>9}  {s.verdict:5}  {s.why} (costs {s.cost})"
    elif plan.verdict == "no":
        yield "no single change makes it fit"
    for warning in plan.warnings:
        yield f"note: {warning}"


def _explained(plan: Plan) -> Iterator[str]:
    for model in [plan.target] + ([plan.draft] if plan.draft else []):
        yield f"{model.name}: weights from the {model.weights_source}"
        for name, count in model.by_dtype.items():
            yield f"  {name:12} {count:>18,} B"
        for kind, (layers, count) in model.kv_layers.items():
            yield f"  {layers:3} x {kind:20} {count:>18,} B of keys and values"
    if plan.closed_form is not None:
        traced = max(phase.peak for phase in plan.phases if phase.method == "trace")
        yield f"closed form: {plan.closed_form:,} B, trace: {traced:,} B"
    for phase in plan.phases:
        if phase.top:
            yield f"{phase.name}: {phase.peak:,} B, reached by {phase.owner}; the largest blocks then:"
            for block in phase.top:
                yield f"  {block.bytes:>18,} B  {block.op} {list(block.shape)}"
