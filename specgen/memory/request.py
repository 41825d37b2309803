"""What to plan: a pair, its workload, and the machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from specgen.memory.free import Memory
from specgen.memory.workload import Workload

ATTENTION = ("auto", "fused", "plain")


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the planner.

    Attributes:
        load: rows, tokens, lookahead.
        devices: of the target; the draft is on the one of them with most room.
        draft_device: where the draft is, when not with the target.
        target_dtype: ``auto`` or a name.
        draft_dtype: the same of the draft.
        target_quant: a scheme in ``quantized.SCHEMES``, or None.
        draft_quant: the same of the draft.
        with_draft: whether the draft takes part.
        attention: whether masked attention with grouped queries has a fused kernel: ``auto``, ``fused`` or ``plain``.
        fast: use the closed form.
        detail: name the largest blocks at each peak.
    """

    load: Workload
    devices: tuple[Memory, ...]
    draft_device: Memory | None = None
    target_dtype: str = "auto"
    draft_dtype: str = "auto"
    target_quant: str | None = None
    draft_quant: str | None = None
    with_draft: bool = True
    attention: str = "auto"
    fast: bool = False
    detail: bool = False

    def places(self, *, draft: bool) -> tuple[Memory, ...]:
        """Where one of the two models may be."""
        return (self.draft_device,) if draft and self.draft_device is not None else self.devices

    def changed(self, **changes: object) -> Request:
        """A copy; names of the workload's fields change the workload."""
        own = {key: value for key, value in changes.items() if key in Request.__slots__}
        rest = {key: value for key, value in changes.items() if key not in own}
        return replace(self, load=replace(self.load, **rest), **own)  # type: ignore[arg-type]
