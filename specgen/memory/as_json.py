"""A plan as one JSON object (schema 1, docs/memory.md)."""

from __future__ import annotations

from typing import Any

from specgen.errors import ExitCode
from specgen.memory.report import Device, ModelNeeds, Phase, Plan


def exit_code(plan: Plan) -> ExitCode:
    """0 when it can run, 3 when it cannot."""
    return ExitCode.DONE if plan.fits else ExitCode.DOES_NOT_FIT


def as_data(plan: Plan) -> dict[str, Any]:
    """Turn a plan into plain values; every size is in bytes."""
    return {
        "schema": 1,
        "verdict": plan.verdict,
        "exit_code": int(exit_code(plan)),
        "units": "bytes",
        "request": dict(plan.request),
        "models": {"target": _model(plan.target), "draft": _model(plan.draft) if plan.draft else None},
        "phases": [_phase(phase) for phase in plan.phases],
        "peak": {"phase": plan.peak.name, "bytes": plan.peak.peak, "closed_form": plan.closed_form},
        "need": plan.need,
        "runtime": {"bytes": plan.devices[0].runtime, "source": plan.runtime_source},
        "devices": [_device(device) for device in plan.devices],
        "limits": None
        if plan.limits is None
        else {
            "max_context": plan.limits.context,
            "max_context_by": plan.limits.context_by,
            "max_batch": plan.limits.batch,
            "max_lookahead": plan.limits.lookahead,
        },
        "suggestions": [
            {"options": s.options, "need": s.need, "verdict": s.verdict, "cost": s.cost, "why": s.why}
            for s in plan.suggestions
        ],
        "warnings": list(plan.warnings),
    }


def _model(model: ModelNeeds) -> dict[str, Any]:
    return {
        "name": model.name,
        "dtype": model.dtype,
        "quantization": model.quantization,
        "positions": model.positions,
        "weights": {
            "bytes": model.weights,
            "source": model.weights_source,
            "exact": model.exact,
            "by_dtype": dict(model.by_dtype),
            "in_files": model.in_files,
        },
        "kv": {
            "bytes": model.kv,
            "per_token": model.kv_per_token,
            "slots": model.kv_slots,
            "layers": [
                {"kind": kind, "count": count, "bytes": size} for kind, (count, size) in model.kv_layers.items()
            ],
        },
        "notes": list(model.notes),
    }


def _phase(phase: Phase) -> dict[str, Any]:
    top = [{"bytes": block.bytes, "op": block.op, "shape": list(block.shape)} for block in phase.top]
    return {"name": phase.name, "peak": phase.peak, "method": phase.method, "owner": phase.owner, "top": top}


def _device(device: Device) -> dict[str, Any]:
    memory = device.memory
    return {
        "id": memory.id,
        "total": memory.total,
        "free": memory.free,
        "free_source": memory.source,
        "others": [{"pid": pid, "bytes": size} for pid, size in memory.others],
        "weights": device.weights,
        "kv": device.kv,
        "working": device.working,
        "runtime": device.runtime,
        "need": device.need,
        "margin": device.margin,
        "left": device.left,
        "verdict": device.verdict,
    }
