"""The one key/value cache, for target and draft, for one row or many. All contact with transformers' cache API is here.

Slot index is position. Each row has a length; a pass writes its columns from there on, and a mask hides every slot
above a column's own position. Rolling back is moving a length: refused slots stay, hidden, until they are overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig
from transformers.cache_utils import Cache, get_layer_types_and_kwargs

from specgen.models.attention import NAME, slot_attention

# What a slot can hold: keys and values, at full length even where the mask only shows a window of them.
ROLLS_BACK = frozenset({"full_attention", "sliding_attention", "chunked_attention"})


class SlotCache(Cache):
    """Keys and values ``[rows, kv_heads, slots, head_dim]`` per layer, allocated on first use and never moved.

    Args:
        rows: sequences held side by side.
        slots: positions per row.
    """

    def __init__(self, rows: int, slots: int) -> None:
        super().__init__(layers=[])
        self.rows = rows
        self.slots = slots
        self._keys: dict[int, Tensor] = {}
        self._values: dict[int, Tensor] = {}
        self._indices: dict[torch.device, tuple[Tensor, Tensor]] = {}
        self._positions = torch.empty(0)
        self._first = 0
        self._at_start = True
        self._extent = 0

    def begin(self, positions: Tensor, *, first_row: int, at_start: bool, extent: int) -> None:
        """Set where the next pass writes.

        Args:
            positions: slot of each column, ``[n, columns]``, for ``n`` neighbouring rows.
            first_row: the first of them.
            at_start: whether every row begins at slot 0, so that a plain causal kernel will do.
            extent: slots that the pass reads, above every position in it.
        """
        self._positions = positions
        self._first = first_row
        self._indices = {}
        self._at_start = at_start
        self._extent = extent

    def bytes(self) -> int:
        """Bytes held by keys and values."""
        return sum(t.nbytes for t in (*self._keys.values(), *self._values.values()))

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write one layer's columns ``[n, kv_heads, columns, head_dim]``; return those rows' slots up to the extent."""
        if layer_idx not in self._keys:
            self._keys[layer_idx] = self._allocate(key_states, self.slots)
            self._values[layer_idx] = self._allocate(value_states, self.slots)
        keys, values = self._keys[layer_idx], self._values[layer_idx]
        row, slot = self._index(keys.device)
        keys[row, :, slot] = key_states.transpose(1, 2)
        values[row, :, slot] = value_states.transpose(1, 2)
        live = slice(self._first, self._first + len(slot))
        return keys[live, :, : self._extent], values[live, :, : self._extent]

    def grow(self, slots: int) -> None:
        """Make room for more positions, keeping what is held."""
        for store in (self._keys, self._values):
            for layer, states in store.items():
                wider = self._allocate(states, slots)
                wider[:, :, : self.slots] = states
                store[layer] = wider
        self.slots = slots

    def copy_row(self, source: int, destination: int, length: int) -> None:
        """Copy the first ``length`` slots of one row over another."""
        for states in (*self._keys.values(), *self._values.values()):
            states[destination, :, :length] = states[source, :, :length]

    def _allocate(self, states: Tensor, slots: int) -> Tensor:
        _, heads, _, dim = states.shape
        # Zeros, not empty: a masked slot still meets a softmax weight of 0, and 0 * NaN is NaN.
        return states.new_zeros(self.rows, heads, slots, dim)

    def _index(self, device: torch.device) -> tuple[Tensor, Tensor]:
        if device not in self._indices:
            slot = self._positions.to(device)
            row = torch.arange(self._first, self._first + len(slot), device=device)[:, None]
            self._indices[device] = (row, slot)
        return self._indices[device]

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002
        """Slots in use, for models that ask although they are given positions."""
        return 0 if self._at_start else self._extent

    def get_query_offset(self, layer_idx: int = 0) -> int | Tensor:  # noqa: ARG002
        """Position of the first column: 0 when every row starts there, else one per row, ``[rows, 1, 1, 1]``."""
        return 0 if self._at_start else self._positions[:, :1, None, None]

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:  # noqa: ARG002
        """The mask spans the slots that the pass reads."""
        return self._extent, 0


def slot_mask(
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor,
    mask_function: Callable[..., Tensor],
    device: torch.device,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    batch_size: int = 1,
    **_: Any,
) -> Tensor | None:
    """Build a boolean mask ``[rows, 1, columns, slots]`` from the model's own rule (causal, sliding, chunked).

    The rule is a function of positions, so giving it one offset per row is all that ragged rows need. None means that
    the kernel's own causal mask says the same.
    """
    whole = local_size is None or kv_length <= local_size
    if allow_is_causal_skip and whole and q_length == kv_length and isinstance(q_offset, int) and q_offset == 0:
        return None
    column = torch.arange(q_length, device=device)[None, None, :, None] + q_offset
    slot = torch.arange(kv_length, device=device)[None, None, None, :]
    row = torch.arange(batch_size, device=device)[:, None, None, None]
    mask = mask_function(row, 0, column, slot)
    return mask.expand(batch_size, 1, q_length, kv_length)


def register() -> None:
    """Make the attention and its mask known to transformers under the name in ``attention.NAME``."""
    AttentionInterface.register(NAME, slot_attention)
    AttentionMaskInterface.register(NAME, slot_mask)


def layer_kinds(config: PreTrainedConfig) -> Sequence[str]:
    """Kind of each decoder layer's state, in transformers' words (``full_attention``, ``linear_attention``, ...)."""
    kinds, _ = get_layer_types_and_kwargs(config.get_text_config(decoder=True))
    return list(kinds)
