"""From a request to a plan: weights, caches, phases, devices."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from specgen.errors import UsageError
from specgen.memory import closed_form, free, quantized
from specgen.memory.closed_form import Architecture, architecture
from specgen.memory.errors import CannotTell
from specgen.memory.packing import eight_bit_bytes, eight_bits, packed_bytes, packs
from specgen.memory.placement import place
from specgen.memory.report import Block, ModelNeeds, Phase, Plan
from specgen.memory.request import Request
from specgen.memory.sources import Known
from specgen.memory.workload import Workload

if TYPE_CHECKING:
    from specgen.memory.tracing import Traces

# Bytes of a number that is computed with; weights in eight bits are multiplied by float32.
ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 4}
# As safetensors headers write what is not made anew.
_STORED = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int8": "F32"}
# Measured where it can be; these are what others measured (docs/memory.md): the context, and cuBLAS's workspace.
_RUNTIME = {"cuda": 550_000_000, "xpu": 550_000_000, "mps": 300_000_000}
# torch, transformers and a tokenizer, before any weight.
CPU_RUNTIME = 450_000_000
# Address space that the kernels' threads reserve for heaps and stacks, and gaps: 75 to 190 MB, measured on two cores.
_ARENAS = 176 * 2**20


class Planner:
    """Plans one pair; what was built for one request is used again for the next.

    Args:
        target: what is known of the target.
        draft: what is known of the draft, if there is one.
    """

    def __init__(self, target: Known, draft: Known | None) -> None:
        self.target = target
        self.draft = draft
        self._shapes: tuple[Architecture | None, Architecture | None] = (
            architecture(target.numbers),
            architecture(draft.numbers) if draft else None,
        )
        self._traces: Traces | None = None
        self._calibration: dict[object, int] = {}

    def plan(self, request: Request) -> Plan:
        """Plan a request.

        Raises:
            CannotTell: an architecture or a size is not known.
            UsageError: the context is longer than the target allows.
        """
        dtypes = (self._dtype(self.target, request.target_dtype, request), "")
        if self.draft is not None and request.with_draft:
            dtypes = (dtypes[0], self._draft_dtype(self.draft, request))
        if not request.fast:
            return self._traced(request, dtypes)
        return self._formula(request, dtypes)

    def positions(self) -> int:
        """Tokens that the target was made for."""
        shape = self._shapes[0]
        return shape.positions if shape else self.traces.positions(self.target)

    @property
    def traces(self) -> Traces:
        """The part that needs torch, imported when it is first asked for."""
        if self._traces is None:
            from specgen.memory.tracing import Traces

            self._traces = Traces()
        return self._traces

    def _dtype(self, known: Known, wanted: str, request: Request) -> str:
        if wanted != "auto":
            return wanted
        device = request.devices[0]
        if device.source == "given" and device.kind != "cpu":
            return "bfloat16"
        import torch

        from specgen.models.devices import pick_dtype

        count = known.stored.bytes // 2 if known.stored else None
        # A device that is not here computes what its kind does.
        place = torch.device("cpu" if device.kind == "cpu" else device.id)
        return str(pick_dtype("auto", place, parameters=count)).removeprefix("torch.")

    def _draft_dtype(self, known: Known, request: Request) -> str:
        wanted, devices = request.draft_dtype, request.places(draft=True)
        dtype = "float32" if wanted == "int8" else self._dtype(known, wanted, request)
        plain = request.draft_quant is None and "quantization_config" not in known.numbers
        if plain and eight_bits(wanted, dtype, devices):
            return "int8"
        if wanted == "int8":
            raise UsageError("a draft in int8 needs an x86 CPU to run on", "--draft-dtype auto")
        return dtype

    def _formula(self, request: Request, dtypes: tuple[str, str]) -> Plan:
        drafting = self.draft is not None and request.with_draft
        shapes = self._shapes
        for known, shape in zip((self.target, self.draft if drafting else None), shapes, strict=True):
            if known is not None and shape is None:
                kind = known.numbers.get("model_type")
                raise CannotTell(
                    f"the closed form does not cover {known.name} ({kind})", "leave out --fast: the trace covers it"
                )
        if request.target_quant or request.draft_quant:
            raise CannotTell("the closed form does not cover quantized weights", "leave out --fast")
        target = shapes[0]
        draft = shapes[1] if drafting else None
        assert target is not None
        needs = [_shape_needs(self.target, target, dtypes[0], request, draft=False)]
        if draft is not None and self.draft is not None:
            needs.append(_shape_needs(self.draft, draft, dtypes[1], request, draft=True))
        peaks = self._closed(request, dtypes)
        assert peaks is not None
        phases = [Phase(name, peak + sum(n.weights for n in needs), "closed form") for name, peak in peaks.items()]
        return self._assemble(request, needs, phases, layers=None)

    def _closed(self, request: Request, dtypes: tuple[str, str]) -> dict[str, int] | None:
        target = self._shapes[0]
        drafting = self.draft is not None and request.with_draft
        draft = self._shapes[1] if drafting else None
        if target is None or (drafting and draft is None):
            return None
        sizes = (ITEMSIZE[dtypes[0]], ITEMSIZE.get(dtypes[1], 2))
        kind = request.devices[0].kind
        fused = request.attention == "fused" or (request.attention == "auto" and kind != "cuda")
        return closed_form.phases(target, draft, request.load, sizes, fused=fused)

    def _traced(self, request: Request, dtypes: tuple[str, str]) -> Plan:
        traces, load = self.traces, request.load
        known = [self.target] + ([self.draft] if self.draft is not None and request.with_draft else [])
        quants = [request.target_quant, request.draft_quant]
        actors = [
            traces.actor(model, dtype, quant, request.places(draft=i > 0))
            for i, (model, dtype, quant) in enumerate(zip(known, dtypes, quants, strict=False))
        ]
        needs = [
            _actor_needs(model, actor, dtype, load, quant, draft=i > 0)
            for i, (model, actor, dtype, quant) in enumerate(zip(known, actors, dtypes, quants, strict=False))
        ]
        _check_context(needs[0], load)
        found = traces.run(actors, load, request)
        weights = sum(n.weights for n in needs)
        scratch = max((a.scratch for a in actors), default=0)
        phases = [
            Phase(
                p.name,
                p.peak + weights + scratch,
                "trace",
                p.owner,
                tuple(Block(held.bytes, held.op, held.shape) for held in p.top),
            )
            for p in found
        ]
        layers = (actors[0].layer_weights, actors[0].slot_bytes)
        plan = self._assemble(request, needs, phases, layers=layers)
        closed = None if any(quants) else self._closed(request, dtypes)
        return replace(plan, closed_form=max(closed.values()) + weights if closed else None)

    def _assemble(
        self,
        request: Request,
        needs: list[ModelNeeds],
        phases: list[Phase],
        layers: tuple[tuple[int, ...], tuple[int, ...]] | None,
    ) -> Plan:
        target, draft = needs[0], needs[1] if len(needs) > 1 else None
        _check_context(target, request.load)
        loading = [Phase("load target", _loading(target, request), "weights")]
        if draft is not None:
            loading.append(Phase("load draft", target.weights + _loading(draft, request), "weights"))
        phases = [*loading, *phases]
        peak = max(phase.peak for phase in phases)
        runtime, source = _runtime(request)
        devices = place(request, target, draft, peak, runtime, layers)
        return Plan(
            target=target,
            draft=draft,
            phases=tuple(phases),
            devices=devices,
            runtime_source=source,
            request=_as_data(request, target),
            warnings=_warnings(request, target, draft),
        )


def _check_context(target: ModelNeeds, load: Workload) -> None:
    if load.context > target.positions:
        raise UsageError(
            f"context {load.context:,} is more than the {target.positions:,} positions of {target.name}",
            f"--context {target.positions} or less",
        )


def _loading(model: ModelNeeds, request: Request) -> int:
    """Bytes while weights are read, and then packed.

    Where every mapping counts, the file is mapped once more while it is read.
    """
    packing = model.weights + model.twice
    if request.devices[0].address_space and model.in_files:
        # What stays mapped is added to every phase.
        return max(packing, model.weights - model.copied + model.in_files - model.stays_mapped)
    return packing


def _runtime(request: Request) -> tuple[int, str]:
    device = request.devices[0]
    if device.address_space:
        return free.address_space() + _ARENAS, "measured"
    if device.kind != "cpu":
        return _RUNTIME.get(device.kind, 550_000_000), "table"
    if device.source != "given" and "transformers" in sys.modules and (own := free.resident()):
        return max(own, CPU_RUNTIME), "measured"
    return CPU_RUNTIME, "table"


def _shape_needs(known: Known, shape: Architecture, dtype: str, request: Request, *, draft: bool) -> ModelNeeds:
    itemsize, load = ITEMSIZE[dtype], request.load
    slots = load.draft_slots(shape.positions) if draft else load.slots
    packed = packs(dtype, request.places(draft=draft))
    size_of = packed_bytes if packed else eight_bit_bytes if dtype == "int8" else None
    weights, copied, packing = shape.packed(size_of) if size_of else (shape.weights(itemsize), 0, 0)
    by_row = size_of is not None or not shape.tied
    rounded = sum(n * eight_bit_bytes(*matrix) for n, *matrix in shape.linears()) if dtype == "int8" else weights
    return ModelNeeds(
        name=known.name,
        weights=weights,
        weights_source="config",
        exact=True,
        by_dtype={dtype: rounded} | ({"float32": weights - rounded} if rounded < weights else {}),
        in_files=known.stored.bytes if known.stored else None,
        kv=shape.slot(itemsize) * slots * load.batch,
        kv_slots=slots,
        kv_per_token=shape.slot(itemsize),
        kv_layers={"full_attention": (shape.layers, shape.slot(itemsize) * slots * load.batch)},
        positions=shape.positions,
        dtype=dtype,
        converted=_converted(known, dtype),
        untouched=shape.vocab * shape.hidden * itemsize if by_row and not _converted(known, dtype) else 0,
        copied=copied,
        packing=packing,
    )


def _converted(known: Known, dtype: str) -> bool:
    """Whether weights are made anew while loading; what stays as it is in its file is only mapped."""
    return known.stored is None or set(known.stored.by_dtype) != {_STORED[dtype]}


def _actor_needs(
    known: Known, actor: object, dtype: str, load: Workload, quant: str | None, *, draft: bool
) -> ModelNeeds:
    from specgen.memory.tracing import Traceable

    assert isinstance(actor, Traceable)
    slots = load.draft_slots(actor.positions) if draft else load.slots
    cells = slots * load.batch
    kinds: Counter[str] = Counter()
    counts: Counter[str] = Counter(actor.kinds)
    for kind, size in zip(actor.kinds, actor.slot_bytes, strict=True):
        kinds[kind] += size * cells
    return ModelNeeds(
        name=known.name,
        weights=actor.weights,
        weights_source=actor.source,
        exact=actor.exact,
        by_dtype=dict(actor.by_dtype),
        in_files=known.stored.bytes if known.stored else None,
        kv=sum(actor.slot_bytes) * cells,
        kv_slots=slots,
        kv_per_token=sum(actor.slot_bytes),
        kv_layers={kind: (counts[kind], size) for kind, size in kinds.items()},
        positions=actor.positions,
        dtype=dtype,
        quantization=quant or actor.quantization,
        notes=actor.notes,
        converted=_converted(known, dtype),
        untouched=0 if quant or actor.quantization or _converted(known, dtype) else actor.embeddings,
        copied=actor.copied,
        packing=actor.packing,
    )


def _as_data(request: Request, target: ModelNeeds) -> dict[str, object]:
    load = request.load
    return {
        "context": load.context,
        "batch": load.batch,
        "lookahead": load.lookahead,
        "slots": target.kv_slots,
        "prefill_chunk": load.prefill_chunk,
        "attention": request.attention,
        "target_quantization": request.target_quant,
        "draft_quantization": request.draft_quant,
    }


def _warnings(request: Request, target: ModelNeeds, draft: ModelNeeds | None) -> tuple[str, ...]:
    found = [f"{model.name}: {note}" for model in (target, draft) if model for note in model.notes]
    if draft is not None and draft.positions < request.load.context:
        found.append(
            f"{draft.name} knows {draft.positions:,} tokens; past them {target.name} goes on alone, without speedup"
        )
    if request.devices[0].kind == "cuda" and request.attention == "auto" and request.devices[0].source == "given":
        found.append(
            "grouped queries under a mask are counted without a fused kernel; where there is one: --attention fused"
        )
    if request.devices[0].integrated:
        found.append(f"{request.devices[0].id} shares the host's memory")
    return tuple(found)


__all__ = ["Planner", "quantized"]
