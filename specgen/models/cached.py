"""A model with keys and values for a prefix of each row's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specgen.models.cache import SlotCache

# Columns by which rows of one pass may differ before the longer ones are fed ahead on their own.
_COMPANY = 8


def _width(head: torch.nn.Module) -> int:
    """Logits that an output layer gives; a packed one has no weight to look at."""
    layer: Any = head
    return int(layer.out_features if hasattr(layer, "out_features") else layer.weight.shape[0])


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
        self.vocab_size: int = _width(model.get_output_embeddings())
        self.lengths: list[int] = []
        self.fed = 0
        self.row_invariant: bool | None = None  # not asked yet; see strict.py
        self._cache = SlotCache(0, 0)
        self._steps = torch.empty(0)
        self._columns: int | None = None

    def open(self, rows: int, slots: int, *, columns: int | None = None) -> None:
        """Forget everything and make room for ``rows`` sequences of up to ``slots`` tokens each.

        A cache that is large enough is used again.

        Args:
            rows: sequences side by side.
            slots: positions of each.
            columns: give every pass that is not a prefill this many columns, and read all slots in every pass. Kernels
                that treat the rows of a matrix alike then give a token the same bits wherever it stands in a pass.
        """
        fits = self._cache.slots == slots if columns else self._cache.slots >= slots
        if self._cache.rows != rows or not fits:
            self._cache = SlotCache(rows, slots)
            self._steps = torch.arange(slots + 1, device=self.device)
        self._columns = columns
        self.lengths = [0] * rows

    @property
    def slots(self) -> int:
        """Positions per row that the cache has room for."""
        return self._cache.slots

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget what lies past ``lengths`` in the first rows, in constant time."""
        for row, length in enumerate(lengths):
            self.lengths[row] = min(self.lengths[row], length)

    @torch.inference_mode()
    def grow(self, slots: int) -> None:
        """Make room for more positions a row, keeping what is held."""
        if slots > self._cache.slots:
            self._cache.grow(slots)
            self._steps = torch.arange(slots + 1, device=self.device)

    @torch.inference_mode()
    def resume(self, row: int, *, source: int, length: int) -> None:
        """Begin a row with the first ``length`` tokens of what another row, or it itself, holds."""
        length = min(length, self.lengths[source])
        if source != row:
            self._cache.copy_row(source, row, length)
        self.lengths[row] = length

    @torch.inference_mode()
    def logits(self, tokens: Tensor, totals: Sequence[int], *, last: int, first_row: int = 0) -> Tensor:
        """Feed ``tokens[row, held:total]`` of neighbouring rows and score what follows the last ``last`` of them.

        Args:
            tokens: ids ``[n, slots]``; columns past a row's total are ignored but must be valid ids.
            totals: tokens of each row that count.
            last: positions to score, at most what is new in a row; 0 only fills the cache.
            first_row: row of the cache that ``tokens[0]`` belongs to.

        Returns:
            Logits ``[n, last, vocab]`` in the model's dtype.
        """
        tail = max(last, 1)
        alone = len(totals) > 1
        for row, total in enumerate(totals):
            # A row with much to catch up on goes ahead by itself; in company every other row would be padded to it.
            while total - self.lengths[first_row + row] > tail + (_COMPANY if alone else self.prefill_chunk):
                part = min(self.lengths[first_row + row] + self.prefill_chunk, total - tail)
                self._pass(tokens[row : row + 1], [part], last=1, first_row=first_row + row)
        return self._pass(tokens, totals, last=tail, first_row=first_row)[:, tail - last :]

    def _pass(self, tokens: Tensor, totals: Sequence[int], *, last: int, first_row: int) -> Tensor:
        starts = self.lengths[first_row : first_row + len(totals)]
        counts = [total - start for total, start in zip(totals, starts, strict=True)]
        width = max(*counts, self._columns or 1)
        # Slices of one arange and of the token buffer: indices never travel from host to device.
        positions = torch.stack([self._steps[start : start + width] for start in starts])  # [n, width]
        ids = torch.stack([row[start : start + width] for row, start in zip(tokens, starts, strict=True)])
        extent = self.slots if self._columns else max(starts) + width
        self._cache.begin(positions, first_row=first_row, at_start=not any(starts), extent=extent)
        firsts = [count - last for count in counts]
        constant = width == self._columns  # the output layer must see a constant shape, too
        keep: int | Tensor = 0 if constant else last
        if not constant and min(counts) < width:
            keep = torch.stack([self._steps[first : first + last] for first in firsts])  # [n, last]
        out = self.model(
            input_ids=ids.to(self.device),
            position_ids=positions,
            cache=self._cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        self.lengths[first_row : first_row + len(totals)] = totals
        self.fed += sum(counts)
        logits: Tensor = out.logits
        if constant:
            logits = torch.stack([row[first : first + last] for row, first in zip(logits, firsts, strict=True)])
        return logits.to(self.device)
