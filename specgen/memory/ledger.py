"""Counting bytes while a forward pass runs on the meta device, where tensors have shapes and no memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True, slots=True)
class Held:
    """One block of memory at the peak.

    Attributes:
        bytes: its size.
        op: what made it.
        shape: of the tensor that it was made for.
    """

    bytes: int
    op: str
    shape: tuple[int, ...]


# Whether a fused kernel takes query, key, value and mask, with grouped queries or without.
Fused = Callable[[Tensor, Tensor, Tensor, Tensor | None, bool], bool]
_COMPOSITE = (
    torch.ops.aten.matmul.default,
    torch.ops.aten.scaled_dot_product_attention.default,
    torch.ops.aten._scaled_dot_product_attention_math.default,
)


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the storages that are alive.

    Args:
        detail: keep the largest blocks of every peak, which takes longer.
    """

    def __init__(self, *, detail: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = 0
        self.peak = 0
        self.owner = ""
        self.top: tuple[Held, ...] = ()
        self._detail = detail
        self._held: dict[int, Held] = {}
        self._known: set[int] = set()

    def ignore(self, tensors: Iterable[Tensor]) -> None:
        """Leave tensors out: weights, which are counted elsewhere."""
        self._known.update(tensor.untyped_storage()._cdata for tensor in tensors)

    def restart(self) -> None:
        """Forget the peak so far."""
        self.peak = self.live
        self.owner = ""
        self.top = self._largest() if self._detail else ()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation and count what it made."""
        if func in _COMPOSITE:
            # In inference mode these arrive whole, and the copies that they make on the way would be missed.
            with self:
                return func.decompose(*args, **(kwargs or {}))
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor):
                self._count(tensor, func)
        return out

    def _count(self, tensor: Tensor, func: Callable[..., Any]) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._held or key in self._known:
            return
        size = storage.nbytes()
        self._held[key] = Held(size, str(func).removesuffix(".default"), tuple(tensor.shape))
        self.live += size
        weakref.finalize(storage, self._release, key).atexit = False
        if self.live > self.peak:
            self.peak, self.owner = self.live, str(func).removesuffix(".default")
            if self._detail:
                self.top = self._largest()

    def _release(self, key: int) -> None:
        held = self._held.pop(key, None)
        self.live -= held.bytes if held else 0

    def _largest(self, count: int = 12) -> tuple[Held, ...]:
        return tuple(sorted(self._held.values(), key=lambda held: -held.bytes)[:count])


_GROUPED = tuple(
    f for f in (getattr(torch, "_grouped_mm", None), getattr(torch.nn.functional, "grouped_mm", None)) if f
)


def _grouped(states: Tensor, weights: Tensor, *_: Any) -> Tensor:
    """The shape of ``[tokens, in] x [experts, in, out]``."""
    return states.new_empty(states.shape[0], weights.shape[-1])


class Kernels(TorchFunctionMode):
    """Stands in for the attention kernels of a device, which need less than the plain steps that meta would take.

    Args:
        device: ``cpu``, ``cuda``, ...
        fused: whether a fused kernel takes a call; the other calls are counted step by step.
        threads: of the CPU kernel, each of which has scratch space.
    """

    def __init__(self, device: str, fused: Fused, threads: int) -> None:
        super().__init__()
        self._device = device
        self._fused = fused
        self._threads = threads

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Replace attention, and the product of experts, which meta has for one data type only."""
        if func in _GROUPED:
            return _grouped(*args)
        if func is not scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        settings = dict(kwargs or {})
        query, key, value = args[:3]
        mask = settings.get("attn_mask")
        if not self._fused(query, key, value, mask, bool(settings.get("enable_gqa"))):
            # The mask is turned into numbers twice on this path, of which tracing sees one.
            bias = None if mask is None else torch.empty_like(mask, dtype=query.dtype)
            out = func(*args, **settings)
            del bias
            return out
        return self._stand_in(query, key, value, mask)

    def _stand_in(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        rows, heads, columns, head_dim = query.shape
        # Every kernel wants the mask as numbers to add.
        bias = None if mask is None else torch.empty_like(mask, dtype=query.dtype)
        if self._device != "cpu":
            out = query.new_empty(rows, columns, heads, value.shape[-1]).transpose(1, 2)
            query.new_empty(rows, heads, columns, dtype=torch.float32)
            del bias
            return out
        out = query.new_empty(rows, heads, columns, value.shape[-1])
        split = min(256 if columns >= 768 else 64 if columns >= 192 else 32, columns)
        keys = min(512, key.shape[2])
        wide = torch.float64 if query.dtype == torch.float64 else torch.float32
        scratch = [query.new_empty(rows, heads, columns, dtype=wide)]  # log-sum-exp
        scratch.append(query.new_empty(self._threads, split * (keys + 2 + head_dim), dtype=wide))
        if query.dtype != wide:
            scratch.append(query.new_empty(self._threads, split * keys))
        del bias, scratch
        return out
