"""A model with keys and values for a prefix of each row's tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specgen.models.cache import SlotCache


class CachedModel:
    """A model that feeds whatever its cache does not hold yet.

    The cache holds a *prefix* of each row's tokens, never all of them. Prefill, catching up after a full acceptance,
    verifying and plain decoding are therefore one call.

    Args:
        model: a causal language model with specgen's attention.
        name: how to call it in messages.
        context: positions the model was made for.
        prefill_chunk: columns of one pass at the most, which bounds the memory for activations.
    """

    def __init__(self, model: PreTrainedModel, name: str, *, context: int, prefill_chunk: int = 512) -> None:
        self.model = model
        self.name = name
        self.context = context
        self.prefill_chunk = prefill_chunk
        self.device: torch.device = model.get_input_embeddings().weight.device
        self.vocab_size: int = model.get_output_embeddings().weight.shape[0]
        self.lengths: list[int] = []
        self.fed = 0
        self._cache = SlotCache(0, 0)
        self._steps = torch.empty(0)

    def open(self, rows: int, slots: int) -> None:
        """Forget everything and make room for ``rows`` sequences of up to ``slots`` tokens each.

        A cache that is large enough is used again.
        """
        if self._cache.rows != rows or self._cache.slots < slots:
            self._cache = SlotCache(rows, slots)
            self._steps = torch.arange(slots + 1, device=self.device)
        self.lengths = [0] * rows

    @property
    def slots(self) -> int:
        """Positions per row that the cache has room for."""
        return self._cache.slots

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget what lies past ``lengths``, in constant time."""
        self.lengths = [min(held, length) for held, length in zip(self.lengths, lengths, strict=True)]

    @torch.inference_mode()
    def logits(self, tokens: Tensor, totals: Sequence[int], *, last: int) -> Tensor:
        """Feed ``tokens[row, held:total]`` of every row and score what follows the last ``last`` of them.

        Args:
            tokens: ids ``[rows, slots]``; columns past a row's total are ignored but must be valid ids.
            totals: tokens of each row that count. A row with nothing new gives meaningless scores.
            last: positions to score, at most what is new in a row that is fed; 0 only fills the cache.

        Returns:
            Logits ``[rows, last, vocab]`` in the model's dtype.
        """
        tail = max(last, 1)
        while max(t - h for t, h in zip(totals, self.lengths, strict=True)) > self.prefill_chunk + tail:
            part = [
                max(held, min(held + self.prefill_chunk, total - tail))
                for held, total in zip(self.lengths, totals, strict=True)
            ]
            self._pass(tokens, part, last=1)
        return self._pass(tokens, totals, last=tail)[:, tail - last :]

    def _pass(self, tokens: Tensor, totals: Sequence[int], *, last: int) -> Tensor:
        starts = self.lengths
        counts = [total - start for total, start in zip(totals, starts, strict=True)]
        width = max(counts)
        # Slices of one arange and of the token buffer: indices never travel from host to device.
        positions = torch.stack([self._steps[start : start + width] for start in starts])  # [rows, width]
        ids = torch.stack([row[start : start + width] for row, start in zip(tokens, starts, strict=True)])
        self._cache.begin(positions, at_start=not any(starts), extent=max(starts) + width)
        if min(counts) == width:
            keep: int | Tensor = last
        else:
            firsts = [max(count - last, 0) for count in counts]
            keep = torch.stack([self._steps[first : first + last] for first in firsts])  # [rows, last]
        out = self.model(
            input_ids=ids.to(self.device),
            position_ids=positions,
            cache=self._cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        self.lengths = [start + max(count, 0) for start, count in zip(starts, counts, strict=True)]
        self.fed += sum(counts)
        logits: Tensor = out.logits
        return logits.to(self.device)
