"""The planner's half that needs torch: skeletons kept for the next question, and which attention kernels there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache as remember

import torch
from torch import Tensor

from specgen.errors import ModelError
from specgen.memory import quantized
from specgen.memory.errors import CannotTell
from specgen.memory.free import Memory
from specgen.memory.ledger import Fused
from specgen.memory.packing import packs
from specgen.memory.quantized import Scheme
from specgen.memory.request import Request
from specgen.memory.skeleton import Skeleton, build, config_from
from specgen.memory.sources import Known
from specgen.memory.trace import Actor, Traced, slots_of, trace
from specgen.memory.workload import Workload
from specgen.models.cache import layer_kinds
from specgen.models.devices import DTYPES, EIGHT_BIT

# Under this many columns specgen's attention folds the groups, so that no kernel needs to know of them.
_POSITIONS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length")
_UNKNOWN_CONTEXT = 2048


@dataclass(frozen=True, slots=True)
class Traceable:
    """A model that can be traced, with everything that does not depend on the workload."""

    actor: Actor
    weights: int
    source: str
    exact: bool
    by_dtype: Mapping[str, int]
    layer_weights: tuple[int, ...]
    slot_bytes: tuple[int, ...]
    kinds: tuple[str, ...]
    positions: int
    scratch: int
    embeddings: int
    quantization: str | None
    notes: tuple[str, ...]
    copied: int
    packing: int


class Traces:
    """Skeletons by model and data type."""

    def __init__(self) -> None:
        self._built: dict[object, Traceable] = {}
        self._ran: dict[object, tuple[Traced, ...]] = {}

    def positions(self, known: Known) -> int:
        """Tokens that a model was made for."""
        text = config_from(known.numbers, known.name).get_text_config(decoder=True)
        found = (getattr(text, name, None) for name in _POSITIONS)
        return next((int(value) for value in found if value), _UNKNOWN_CONTEXT)

    def actor(self, known: Known, dtype: str, quant: str | None, devices: tuple[Memory, ...]) -> Traceable:
        """Build a model's skeleton, or take the one that was built before."""
        key = (id(known), dtype, quant, devices[0].kind, packs(dtype, devices))
        if key not in self._built:
            self._built[key] = self._build(known, dtype, quant, devices)
        return self._built[key]

    def _build(self, known: Known, dtype: str, quant: str | None, devices: tuple[Memory, ...]) -> Traceable:
        device = devices[0]
        config = config_from(known.numbers, known.name)
        capability = None
        if device.kind == "cuda" and device.source != "given":
            capability = torch.cuda.get_device_capability(torch.device(device.id))
        packed = quantized.packed(known.numbers, device.kind, capability)
        scheme = _scheme(known, quant, packed)
        # A quantized model keeps its few plain layers as they are.
        plain = scheme is None and not (packed and packed.stays)
        eight_bit, in_order = dtype == EIGHT_BIT and plain, packs(dtype, devices) and plain
        try:
            skeleton = build(
                config, known.name, DTYPES.get(dtype, torch.float32), scheme, packed=in_order, eight_bit=eight_bit
            )
        except ModelError as error:
            raise CannotTell(f"cannot plan {known.name}: {error.message}", error.hint) from error
        notes: list[str] = []
        weights, source = skeleton.weights, "module tree"
        by_dtype = skeleton.by_dtype
        if packed is not None and scheme is None:
            weights, by_dtype, source, notes = _packed_weights(known, packed, skeleton.weights, by_dtype)
        elif known.stored is not None:
            notes = _compare(known, skeleton.weights)
            source = f"{known.stored.source}, {dtype}" if not scheme else source
        kinds = tuple(layer_kinds(config))
        slot_bytes = slots_of(skeleton)
        return Traceable(
            actor=Actor(skeleton, known.name, self.positions(known), 512),
            weights=weights,
            source=source,
            exact=True,
            by_dtype=by_dtype,
            layer_weights=skeleton.layer_weights,
            slot_bytes=slot_bytes,
            kinds=kinds if len(kinds) == len(slot_bytes) else ("full_attention",) * len(slot_bytes),
            positions=self.positions(known),
            scratch=skeleton.scratch,
            embeddings=_read_by_row(skeleton),
            quantization=packed.method if packed else None,
            notes=tuple(notes),
            copied=skeleton.copied,
            packing=skeleton.packing,
        )

    def run(self, actors: list[Traceable], load: Workload, request: Request) -> tuple[Traced, ...]:
        """Trace a workload; how weights are kept makes no difference to it."""
        device = request.devices[0]
        dtypes = tuple(actor.actor.skeleton.dtype for actor in actors)
        here = (device.id, device.source == "given")
        key = (dtypes, len(actors), load, here, request.attention, request.detail)
        if key not in self._ran:
            draft = actors[1].actor if len(actors) > 1 else None
            self._ran[key] = trace(
                actors[0].actor,
                draft,
                load,
                device=device.kind,
                fused=_kernels(device, request.attention),
                detail=request.detail,
            )
        return self._ran[key]


def _read_by_row(skeleton: Skeleton) -> int:
    """Bytes of the input embeddings when the head has weights of its own, or a packed copy of them."""
    model = skeleton.model
    table, head = model.get_input_embeddings().weight, model.get_output_embeddings()
    return 0 if table is getattr(head, "weight", None) and not skeleton.copied else int(table.nbytes)


def _scheme(known: Known, quant: str | None, packed: quantized.Packed | None) -> Scheme | None:
    if quant is None:
        return None
    if packed is not None:
        raise CannotTell(
            f"{known.name} is stored as {packed.method} already", "leave the quantization out to use it as it is"
        )
    return Scheme(quant)


def _packed_weights(
    known: Known, packed: quantized.Packed, dense: int, by_dtype: Mapping[str, int]
) -> tuple[int, Mapping[str, int], str, list[str]]:
    if not packed.stays:
        note = f"its {packed.method} weights are turned into {dense / 1e9:.2f} GB while loading: {packed.reason}"
        return dense, by_dtype, "module tree, dequantized", [note]
    if known.stored is None:
        raise CannotTell(
            f"cannot plan {known.name}: the size of its {packed.method} weights is in its headers, which are not here",
            "name a folder with the weights, or leave out --offline",
        )
    return known.stored.bytes, known.stored.by_dtype, known.stored.source, []


def _compare(known: Known, weights: int) -> list[str]:
    """Notes on files that hold something else than what is loaded."""
    stored = known.stored
    assert stored is not None
    if stored.source.startswith("GGUF") and stored.bytes < 0.9 * weights:
        return [
            f"its {stored.bytes / 1e9:.2f} GB of packed weights are turned into {weights / 1e9:.2f} GB while loading"
        ]
    return []


def _kernels(device: Memory, attention: str) -> Fused:
    def fused(query: Tensor, _key: Tensor, value: Tensor, mask: Tensor | None, grouped: bool) -> bool:
        if attention == "fused":
            return True
        if attention == "plain":
            return False
        here = device.source != "given" or device.kind == "cpu"
        if here and device.kind in ("cpu", "cuda"):
            place = "cpu" if device.kind == "cpu" else device.id
            return _takes(
                place, query.dtype, query.shape[-1], value.shape[-1], mask is not None, grouped, query.shape[2] > 1
            )
        same = query.shape[-1] == value.shape[-1]
        return same and not (device.kind == "cuda" and grouped and (mask is not None or query.dtype == torch.float32))

    return fused


@remember
def _takes(place: str, dtype: torch.dtype, wide: int, narrow: int, masked: bool, grouped: bool, several: bool) -> bool:
    """Ask torch which kernel it would choose, with tensors of the same kind and next to no size."""
    columns = 8 if several else 1
    groups = 2 if grouped else 1
    query = torch.empty(1, groups, columns, wide, dtype=dtype, device=place)
    key = torch.empty(1, 1, 8, wide, dtype=dtype, device=place)
    value = torch.empty(1, 1, 8, narrow, dtype=dtype, device=place)
    mask = torch.ones(1, 1, columns, 8, dtype=torch.bool, device=place) if masked else None
    choice = torch._fused_sdp_choice(
        query, key, value, attn_mask=mask, is_causal=not masked and several, enable_gqa=grouped
    )
    return bool(choice != 0)
