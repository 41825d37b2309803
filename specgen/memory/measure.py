"""Run a pair phase by phase in a process of its own and write what it really took, as JSON; ``check`` reads it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import torch

from specgen.decoding.proposers import DraftModel
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler
from specgen.memory.packing import eight_bit_bytes
from specgen.memory.workload import Workload
from specgen.models.cached import CachedModel
from specgen.models.eight_bit import EightBitLinear
from specgen.models.load import Pair, load_pair
from specgen.models.packing import PackedLinear
from specgen.profile import Sampling, parse

Answer = TypeVar("Answer")


class Meter:
    """The allocator's peak of one step after the other: CUDA's own count, or the CPU allocator's events."""

    def __init__(self, device: torch.device, *, events: bool = True) -> None:
        self._device = device
        self._events = events
        self._live: dict[int, int] = {}
        self.peaks: dict[str, int] = {}

    def step(self, name: str, do: Callable[[], Answer]) -> Answer:
        """Run a step; an empty name only keeps the books."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            answer = do()
            peak = torch.cuda.max_memory_allocated(self._device)
        elif self._events:
            peak, answer = self._watch(do)
        else:
            peak, answer = 0, do()
        if name:
            self.peaks[name] = max(peak, self.peaks.get(name, 0))
        return answer

    def _watch(self, do: Callable[[], Answer]) -> tuple[int, Answer]:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            answer = do()
        live = peak = sum(self._live.values())
        for event in _allocations(profiler.profiler.kineto_results.experimental_event_tree()):
            # By address: torch reports the freeing of whatever now lies where an allocation it once saw has been.
            live -= self._live.pop(event.ptr, 0)
            if event.alloc_size > 0:
                live += event.alloc_size
                self._live[event.ptr] = event.alloc_size
            peak = max(peak, live)
        return peak, answer


def _allocations(tree: Iterable[Any]) -> list[Any]:
    """The allocations and frees of a profile, in order of time."""
    found, waiting = [], list(tree)
    while waiting:
        event = waiting.pop()
        waiting += event.children
        if event.tag.name == "Allocation":
            found.append(event)
    return [event.typed[1] for event in sorted(found, key=lambda event: int(event.start_time_ns))]


def run_phases(target: CachedModel, draft: CachedModel | None, load: Workload, meter: Meter) -> None:
    """Do what a run of this workload does, with the longest prompt that it allows."""
    common = min(model.vocab_size for model in (target, draft) if model is not None)
    rows = meter.step("", lambda: Rows(load.batch, load.slots, target.device))
    prompt = [i % common for i in range(load.length)]
    for row in range(load.batch):
        rows.put(row, prompt)
    sampler = meter.step("", lambda: Sampler(vocab_size=target.vocab_size, device=target.device, rule=load.rule))
    sampler.seat([load.sampling] * load.batch, list(range(load.batch)))
    proposer = DraftModel(draft, common=common) if draft is not None and load.lookahead else None
    meter.step("", lambda: target.open(load.batch, load.slots, columns=load.columns))
    if proposer is not None and draft is not None:
        meter.step("", lambda: proposer.open(load.batch, load.slots))
        if load.batch > 1:
            meter.step("", lambda: draft.logits(rows.tokens[:1], [1], last=0))
    for row in range(load.batch):
        if load.length > 1:
            meter.step("target prefill", partial(_read, target, rows, row))
    k, proposal = 0, None
    if proposer is not None and draft is not None:
        k = load.lookahead
        rows.lengths = [load.draft_length(draft.context)] * load.batch
        draft.lengths = [0] * load.batch
        meter.step("draft prefill", lambda: draft.logits(rows.tokens, list(rows.lengths), last=1))
        draft.crop([n - 1 for n in rows.lengths])
        proposal = meter.step("draft steps", lambda: proposer.propose(rows, sampler, k))
        rows.lengths = [load.length] * load.batch
    target.lengths = [load.length - 1] * load.batch
    totals = [load.length + k] * load.batch
    logits = meter.step("verify" if k else "decode", lambda: target.logits(rows.tokens, totals, last=k + 1))
    if proposal is not None:
        meter.step("acceptance", lambda: sampler.judge(proposal, logits, rows))
    else:
        meter.step("sampling", lambda: sampler.own(sampler.scores(logits, rows), rows))


def _read(target: CachedModel, rows: Rows, row: int) -> None:
    """Read one row's prompt, all but its last token."""
    target.logits(rows.tokens[row : row + 1], [rows.lengths[row] - 1], last=0, first_row=row)


def weights_of(model: CachedModel) -> int:
    """Bytes of a loaded model's parameters and buffers, once each, and of its packed weights."""
    tensors = (*model.model.parameters(), *model.model.buffers())
    modules = list(model.model.modules())
    packed: int = sum(module.nbytes for module in modules if isinstance(module, PackedLinear))
    # torch does not say how large these are.
    packed += sum(eight_bit_bytes(m.out_features, m.in_features) for m in modules if isinstance(m, EightBitLinear))
    held: dict[int, int] = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return packed + sum(held.values())


def high_water() -> int:
    """The most memory that this process has had, bytes."""
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def measure(pair: Pair, load: Workload, *, events: bool) -> dict[str, Any]:
    """Run a workload; ``events`` slows it down and adds memory of its own, so the process is measured without."""
    target, draft = pair.target, pair.draft
    target.prefill_chunk = load.prefill_chunk
    if draft is not None:
        draft.prefill_chunk = load.prefill_chunk
    meter = Meter(target.device, events=events)
    run_phases(target, draft, load, meter)
    models = {"target": target} | ({"draft": draft} if draft is not None else {})
    weights = {name: weights_of(model) for name, model in models.items()}
    # CUDA counts weights with the rest; the events begin after they were loaded.
    base = 0 if target.device.type == "cuda" else sum(weights.values())
    return {
        "weights": weights,
        "kv": {name: model._cache.bytes() for name, model in models.items()},
        "phases": {name: peak + base for name, peak in meter.peaks.items()} if events else {},
        "process": high_water(),
    }


def main() -> None:
    """Read a question from standard input, answer on standard output."""
    question = json.load(sys.stdin)
    profile = parse(question["profile"], name="check", source="<check>")
    load = question["load"]
    load["sampling"] = Sampling(**load["sampling"])
    pair = load_pair(profile, offline=question["offline"])
    json.dump(measure(pair, Workload(**load), events=question["events"]), sys.stdout)


if __name__ == "__main__":
    main()
