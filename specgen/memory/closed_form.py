"""The same peak from a formula, for the decoders with gated feed-forward layers that it was checked on.

It needs neither torch nor transformers, so it answers at once; the trace is the one that knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specgen.memory.workload import Workload

# What each family has besides the plain Llama layer: biases of q, k, v; norms of queries and keys.
_BIASED = frozenset({"qwen2"})
_NORMED = frozenset({"qwen3"})
_KNOWN = frozenset({"llama", "mistral", "smollm3", *_BIASED, *_NORMED})
# Bytes that sampling takes for each scored number of the vocabulary: scores, noise, sorted probabilities.
_GREEDY, _COUPLED, _COMPARED = 4, 22, 38


@dataclass(frozen=True, slots=True)
class Architecture:
    """The numbers of a decoder that its memory follows from."""

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    positions: int
    attention_bias: bool
    output_bias: bool
    mlp_bias: bool
    normed: bool

    def parameters(self) -> int:
        """Weights, tied ones once."""
        wide, narrow = self.heads * self.head_dim, self.kv_heads * self.head_dim
        layer = 2 * self.hidden * (wide + narrow) + 3 * self.hidden * self.inner + 2 * self.hidden
        layer += (wide + 2 * narrow) * self.attention_bias + self.hidden * self.output_bias
        layer += (2 * self.inner + self.hidden) * self.mlp_bias + 2 * self.head_dim * self.normed
        return self.vocab * self.hidden * (1 if self.tied else 2) + self.layers * layer + self.hidden

    def weights(self, itemsize: int) -> int:
        """Bytes of weights and of the two float32 tables of rotary frequencies."""
        return self.parameters() * itemsize + 2 * 4 * (self.head_dim // 2)

    def linears(self) -> list[tuple[int, int, int]]:
        """How many linear layers there are of each kind, their outputs and inputs; the head comes last."""
        wide, narrow = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes = [(1, wide, self.hidden), (2, narrow, self.hidden), (1, self.hidden, wide)]
        shapes += [(2, self.inner, self.hidden), (1, self.hidden, self.inner)]
        return [(count * self.layers, rows, columns) for count, rows, columns in shapes] + [
            (1, self.vocab, self.hidden)
        ]

    def packed(self, size_of: Callable[[int, int], int]) -> tuple[int, int, int]:
        """Bytes of weights with packed linear layers, of the head's copy among them, and of the largest other matrix.

        Args:
            size_of: bytes of a packed matrix, by its outputs and inputs.
        """
        linears = self.linears()
        sizes = [size_of(*shape) for _, *shape in linears]
        change = sum(n * (size - 4 * rows * columns) for (n, rows, columns), size in zip(linears, sizes, strict=True))
        if not self.tied:
            return self.weights(4) + change, 0, max(sizes)
        # The embedding keeps the weights that it shared.
        head = 4 * self.vocab * self.hidden
        return self.weights(4) + change + head, sizes[-1], max(sizes[:-1])

    def slot(self, itemsize: int) -> int:
        """Bytes of keys and values of one token."""
        return 2 * self.layers * self.kv_heads * self.head_dim * itemsize


def architecture(numbers: Mapping[str, Any]) -> Architecture | None:
    """Read a ``config.json``; None for a family that the formula does not cover."""
    family = numbers.get("model_type")
    if family not in _KNOWN or "quantization_config" in numbers or numbers.get("use_sliding_window"):
        return None
    heads = _count(numbers, "num_attention_heads")
    hidden = _count(numbers, "hidden_size")
    counts = [_count(numbers, key) for key in ("intermediate_size", "num_hidden_layers", "vocab_size")]
    positions = _count(numbers, "max_position_embeddings")
    kv_heads = _count(numbers, "num_key_value_heads") or heads
    if not all((heads, hidden, positions, *counts)):
        return None
    given = numbers.get("head_dim")
    # A config without it means the family's own default, which is not always the quotient.
    if given is None and family in _NORMED:
        return None
    bias = bool(numbers.get("attention_bias", False))
    return Architecture(
        hidden=hidden,
        inner=counts[0],
        layers=counts[1],
        heads=heads,
        kv_heads=kv_heads,
        head_dim=int(given) if given else hidden // heads,
        vocab=counts[2],
        tied=bool(numbers.get("tie_word_embeddings", family == "smollm3")),
        positions=positions,
        attention_bias=bias or family in _BIASED,
        output_bias=bias and family not in _BIASED,
        mlp_bias=bool(numbers.get("mlp_bias", False)),
        normed=family in _NORMED,
    )


def _count(numbers: Mapping[str, Any], key: str) -> int:
    value = numbers.get(key)
    return value if isinstance(value, int) and value > 0 else 0


def activations(model: Architecture, columns: int, extent: int, itemsize: int, *, fused: bool) -> int:
    """Bytes that one row's pass needs at its worst: in the feed-forward layer, or in attention.

    Args:
        model: the decoder.
        columns: of the pass.
        extent: slots that it reads.
        itemsize: of the arithmetic.
        fused: whether a fused kernel takes masked attention with grouped queries.
    """
    wide, narrow = model.heads * model.head_dim, model.kv_heads * model.head_dim
    masked = extent > columns
    mask = columns * extent if masked else 0
    tables = 2 * columns * model.head_dim * itemsize
    inner = columns * itemsize * (3 * model.inner + 4 * model.hidden)
    attention = columns * itemsize * (3 * model.hidden + 2 * wide + 2 * narrow) + mask * itemsize
    grouped = model.heads // model.kv_heads > 1
    if masked and grouped and not fused and columns > 32:
        scores, keys = model.heads * columns * extent, model.heads * extent * model.head_dim
        # The plain steps work in float32: scores before and after the softmax, keys and values of every query head.
        attention += 8 * scores + 8 * keys + (keys * itemsize if itemsize < 4 else 0)
    return mask + tables + max(inner, attention)


def scored(model: Architecture, load: Workload, rows: int, itemsize: int) -> int:
    """Bytes for choosing tokens from ``rows`` scored positions a sequence."""
    sampled = _COUPLED if load.rule == "coupled" else _COMPARED
    extra = sampled if load.sampling.temperature else _GREEDY
    return load.batch * rows * model.vocab * (itemsize + extra)


def phases(
    target: Architecture, draft: Architecture | None, load: Workload, sizes: tuple[int, int], *, fused: bool
) -> dict[str, int]:
    """The peak of every phase, weights left out.

    Args:
        target: the model that verifies.
        draft: the model that proposes, if any.
        load: the rows and their sizes.
        sizes: bytes a number of target and draft.
        fused: whether a fused kernel takes masked attention with grouped queries.
    """
    keys = target.slot(sizes[0]) * load.batch * load.slots
    fixed = 16 * load.batch * load.slots + (8 * target.vocab)
    held = keys + fixed
    drafting = draft is not None and load.lookahead > 0
    theirs = draft.slot(sizes[1]) * load.batch * load.draft_slots(draft.positions) if draft and drafting else 0
    chunk = min(load.prefill_chunk + 1, load.length)
    # In strict mode every pass reads all slots, and after the prompt every pass has one width.
    read = load.slots if load.columns else load.length
    peaks = {
        "target prefill": held
        + (theirs if load.batch > 1 else 0)
        + activations(target, chunk, read, sizes[0], fused=fused)
    }
    if draft is not None and drafting:
        length = load.draft_length(draft.positions)
        few = min(load.prefill_chunk + 1, length)
        peaks["draft prefill"] = held + theirs + activations(draft, few, length, sizes[1], fused=fused)
        peaks["draft steps"] = held + theirs + scored(draft, load, load.lookahead, sizes[1])
    columns = load.lookahead + 1 if drafting else 1
    wide, read = (load.columns, read) if load.columns else (columns, load.length + columns)
    round_ = load.batch * activations(target, wide, read, sizes[0], fused=True)
    round_ += load.batch * wide * target.vocab * sizes[0]
    peaks["verify" if drafting else "decode"] = held + theirs + round_
    peaks["acceptance" if drafting else "sampling"] = held + theirs + scored(target, load, columns, sizes[0])
    return peaks
