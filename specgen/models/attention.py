"""Attention over a slot cache: grouped queries without repeating keys and values, soft caps and sinks included.

transformers expands K and V to every query head whenever a mask is present, which a verify pass always has (10 ms
become 147 ms at 4,096 slots). Folding the query heads of one group into the query length reads each key once instead,
on every device and with any mask.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

NAME = "specgen"

# Above this many query columns attention is bound by arithmetic, not by reading K and V, and folding only costs a copy.
FOLD_UP_TO = 32


def slot_attention(
    module: nn.Module,  # noqa: ARG001
    query: Tensor,  # [rows, heads, columns, head_dim]
    key: Tensor,  # [rows, kv_heads, slots, head_dim]
    value: Tensor,  # [rows, kv_heads, slots, value_dim]
    attention_mask: Tensor | None,  # bool [rows, 1, columns, slots], True = attend; None = causal from slot 0
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,  # [heads], learned sink logits
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend; the signature is the one transformers' ``AttentionInterface`` asks for.

    Returns:
        The mixed values ``[rows, columns, heads, value_dim]``, and no weights.
    """
    rows, heads, columns = query.shape[:3]
    groups = heads // key.shape[1]
    if softcap is not None or s_aux is not None:
        out = _explicit(query, key, value, attention_mask, scaling, softcap, s_aux)
    elif groups > 1 and columns <= FOLD_UP_TO and (attention_mask is not None or columns == 1):
        folded = query.reshape(rows, heads // groups, groups * columns, -1)
        mask = None if attention_mask is None else attention_mask.repeat(1, 1, groups, 1)
        out = scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scaling)
        out = out.reshape(rows, heads, columns, -1)
    else:
        out = scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=attention_mask,
            scale=scaling,
            is_causal=attention_mask is None and columns > 1,
            enable_gqa=groups > 1,
        )
    return out.transpose(1, 2).contiguous(), None


def _explicit(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Attention in plain steps, for what the fused kernels cannot do: capped scores (Gemma 2) and sinks (gpt-oss)."""
    rows, heads, columns, head_dim = query.shape
    kv_heads, slots = key.shape[1:3]
    grouped = query.reshape(rows, kv_heads, heads // kv_heads, columns, head_dim)
    scores = grouped @ key[:, :, None].transpose(-1, -2)  # [rows, kv_heads, group, columns, slots]
    scores = scores * (head_dim**-0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is None:
        mask = torch.ones(columns, slots, dtype=torch.bool, device=query.device).tril()[None, None]
    scores = scores.masked_fill(~mask[:, :, None], float("-inf"))
    wide = scores.double() if scores.dtype == torch.float64 else scores.float()
    if sinks is not None:
        sink = sinks.to(wide.dtype).reshape(1, kv_heads, -1, 1, 1).expand(rows, -1, -1, columns, 1)
        weights = torch.cat([wide, sink], dim=-1).softmax(dim=-1)[..., :-1]
    else:
        weights = wide.softmax(dim=-1)
    out = weights.to(value.dtype) @ value[:, :, None]
    return out.reshape(rows, heads, columns, -1)
