"""Which device holds what: the target's layers in order, the draft where most room is left."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.memory.free import Memory
from specgen.memory.report import Device, ModelNeeds
from specgen.memory.request import Request

_SHARE = 0.02
_LEAST = {"cpu": 64 * 2**20}
_LEAST_ELSEWHERE = 512 * 2**20


def margin(memory: Memory) -> int:
    """What is kept free for what cannot be counted: fragments, libraries, the desktop."""
    return max(int(_SHARE * memory.free), _LEAST.get(memory.kind, _LEAST_ELSEWHERE))


def place(
    request: Request,
    target: ModelNeeds,
    draft: ModelNeeds | None,
    peak: int,
    runtime: int,
    layers: tuple[Sequence[int], Sequence[int]] | None,
) -> tuple[Device, ...]:
    """Share a plan out over its devices.

    Args:
        request: names the devices.
        target: what the target needs.
        draft: what the draft needs.
        peak: of all phases, weights and caches included.
        runtime: bytes that a process has on every device.
        layers: weights, and bytes of a slot, of each of the target's layers; None when they are alike.
    """
    models = [model for model in (target, draft) if model is not None]
    fixed = sum(m.weights + m.kv for m in models)
    # While a prompt is read for the first time the draft has no cache yet, so the peak can be below the sum.
    working = peak - fixed
    memories = list(request.devices)
    apart = request.draft_device
    if len(memories) == 1 and apart is None:
        kv = sum(m.kv for m in models) + min(working, 0)
        weights = sum(m.weights for m in models)
        if memories[0].address_space:
            weights += sum(m.stays_mapped for m in models)
        elif memories[0].kind == "cpu":
            weights -= sum(m.untouched for m in models)
        return (_device(memories[0], weights, kv, max(working, 0), runtime),)
    working = max(working, 0)
    shares = _split(memories, target, runtime + working, layers)
    loads = [[weights, kv] for weights, kv in shares]
    if draft is not None and apart is None:
        room = [m.free - w - k for m, (w, k) in zip(memories, loads, strict=True)]
        best = room.index(max(room))
        loads[best][0] += draft.weights
        loads[best][1] += draft.kv
    devices = [_device(m, w, k, working, runtime) for m, (w, k) in zip(memories, loads, strict=True)]
    if draft is not None and apart is not None:
        devices.append(_device(apart, draft.weights, draft.kv, working, runtime))
    return tuple(devices)


def _device(memory: Memory, weights: int, kv: int, working: int, runtime: int) -> Device:
    return Device(memory, weights, kv, working, runtime, margin(memory))


def _split(
    memories: list[Memory], target: ModelNeeds, overhead: int, layers: tuple[Sequence[int], Sequence[int]] | None
) -> list[tuple[int, int]]:
    """Fill each device with layers up to its share of the whole, in order: embeddings first, head last."""
    if len(memories) == 1:
        return [(target.weights, target.kv)]
    weights, slots = layers or ([], [])
    if not weights:
        # Layers that cannot be told apart are shared out as one.
        count = max(sum(n for n, _ in target.kv_layers.values()), 1)
        weights, slots = [target.weights // count] * count, [1] * count
    rest = target.weights - sum(weights)
    per_slot = target.kv / max(sum(slots), 1)
    sizes = [(w, int(s * per_slot)) for w, s in zip(weights, slots, strict=True)]
    room = [max(m.free - overhead, 1) for m in memories]
    total = target.weights + target.kv
    shares: list[tuple[int, int]] = []
    at = 0
    for index, space in enumerate(room):
        w = rest // 2 if index == 0 else 0
        k = 0
        quota = total * space / sum(room)
        last = index == len(room) - 1
        while at < len(sizes) and (last or w + k + sum(sizes[at]) / 2 <= quota):
            w, k, at = w + sizes[at][0], k + sizes[at][1], at + 1
        shares.append((w + (rest - rest // 2 if last else 0), k))
    return shares
