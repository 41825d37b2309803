"""A plan: what a pair needs, phase by phase and device by device, and what would fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from specgen.memory.free import Memory

Verdict = Literal["fits", "tight", "no"]


@dataclass(frozen=True, slots=True)
class Block:
    """One of the largest blocks at a peak."""

    bytes: int
    op: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a run.

    Attributes:
        name: ``load target``, ``target prefill``, ``verify``, ...
        peak: bytes at its worst, weights included.
        method: ``trace``, ``closed form`` or ``weights``.
        owner: the operation that reached the peak.
        top: the largest blocks at the peak, where asked for.
    """

    name: str
    peak: int
    method: str
    owner: str = ""
    top: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelNeeds:
    """What one model needs.

    Attributes:
        name: of the model.
        weights: bytes of parameters and buffers, as they are loaded.
        weights_source: where the number is from.
        exact: whether it is exact to the byte.
        by_dtype: the weights by data type.
        in_files: bytes of the tensors in its files, where known.
        kv: bytes of the cache.
        kv_slots: slots of each row.
        kv_per_token: bytes of one token, all layers.
        kv_layers: bytes by kind of layer, and how many there are.
        positions: tokens that it was made for.
        dtype: of its arithmetic.
        quantization: how its weights are kept, if they are quantized.
        notes: what a user should know.
        converted: whether its files hold another data type than it is loaded in.
        untouched: bytes of weights that a CPU leaves in their file: rows of an embedding that no token asks for.
        copied: bytes of the packed copy that a head tied to the embedding has.
        packing: bytes of the largest packed matrix that is no copy; 0 when nothing is packed.
    """

    name: str
    weights: int
    weights_source: str
    exact: bool
    by_dtype: Mapping[str, int]
    in_files: int | None
    kv: int
    kv_slots: int
    kv_per_token: int
    kv_layers: Mapping[str, tuple[int, int]]
    positions: int
    dtype: str
    quantization: str | None = None
    notes: tuple[str, ...] = ()
    converted: bool = False
    untouched: int = 0
    copied: int = 0
    packing: int = 0

    @property
    def stays_mapped(self) -> int:
        """Bytes of packed weights whose file stays mapped as well: the embedding is still read from there."""
        if not self.packing or self.converted or not self.in_files:
            return 0
        return self.in_files - self.untouched

    @property
    def twice(self) -> int:
        """Bytes that are there twice while weights are packed, one matrix after the other."""
        return self.packing if self.converted else 0


@dataclass(frozen=True, slots=True)
class Device:
    """One device and what goes there.

    Attributes:
        memory: what it has.
        weights: bytes of weights.
        kv: bytes of caches.
        working: bytes of everything that comes and goes, at the peak.
        runtime: bytes of the process itself.
        margin: what is kept free for what cannot be counted.
    """

    memory: Memory
    weights: int
    kv: int
    working: int
    runtime: int
    margin: int

    @property
    def need(self) -> int:
        """Bytes at the peak."""
        return self.weights + self.kv + self.working + self.runtime

    @property
    def left(self) -> int:
        """Bytes that stay free; below zero are bytes too few."""
        return self.memory.free - self.need

    @property
    def verdict(self) -> Verdict:
        """Whether its share fits."""
        if self.left < 0:
            return "no"
        return "fits" if self.left >= self.margin else "tight"


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that fits, one thing changed at a time, and what sets the limit: ``memory`` or ``model``."""

    context: int
    context_by: str
    batch: int
    lookahead: int


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change, planned again.

    Attributes:
        options: of the command line.
        need: bytes at the new peak.
        verdict: of the new plan.
        cost: ``none``, ``speed``, ``quality`` or ``size``: what the change takes away.
        why: in a few words.
    """

    options: str
    need: int
    verdict: Verdict
    cost: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole of it.

    Attributes:
        target: the model whose text it is.
        draft: the model that proposes, if any.
        phases: in the order in which they come.
        devices: where everything is.
        runtime_source: ``table`` or ``measured``.
        request: what was planned, for JSON.
        closed_form: the formula's peak, where it covers both models.
        limits: the most that fits, where asked for.
        suggestions: what would fit, cheapest first, where asked for.
        warnings: what a user should know.
    """

    target: ModelNeeds
    draft: ModelNeeds | None
    phases: tuple[Phase, ...]
    devices: tuple[Device, ...]
    runtime_source: str
    request: Mapping[str, Any]
    closed_form: int | None = None
    limits: Limits | None = None
    suggestions: tuple[Suggestion, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    @property
    def peak(self) -> Phase:
        """The phase that needs most."""
        return max(self.phases, key=lambda phase: phase.peak)

    @property
    def need(self) -> int:
        """Bytes on all devices, the process included."""
        return sum(device.need for device in self.devices)

    @property
    def left(self) -> int:
        """Bytes that stay free on the fullest device."""
        return min(device.left for device in self.devices)

    @property
    def verdict(self) -> Verdict:
        """The worst of the devices'."""
        verdicts = [device.verdict for device in self.devices]
        return "no" if "no" in verdicts else "tight" if "tight" in verdicts else "fits"

    @property
    def fits(self) -> bool:
        """Whether it can run."""
        return self.verdict != "no"
