"""A draft that knows nothing: whatever it proposes, the text must not change."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specgen.decoding.acceptance import Proposal
from specgen.decoding.noise import derive
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler


class RandomDraft:
    """Proposes pseudo-random ids: a function of position and round, so that runs can be repeated.

    Args:
        vocab_size: ids of the target.
    """

    fed = 0

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def open(self, rows: int, slots: int) -> None:
        """Nothing to make room for."""

    def room(self, lengths: Sequence[int]) -> int:  # noqa: ARG002
        """There is no context to fill."""
        return 2**31

    def propose(self, rows: Rows, sampler: Sampler, k: int) -> Proposal:
        """Write ``k`` ids after each row's length."""
        for offset in range(k):
            ids = [derive(sampler.round, row, n + offset) % self._vocab_size for row, n in enumerate(rows.lengths)]
            rows.draft(offset, torch.tensor(ids, device=rows.tokens.device))
        return Proposal(rows.drafted(k))

    def crop(self, lengths: Sequence[int]) -> None:
        """Nothing is held."""

    def resume(self, row: int, *, source: int, length: int) -> None:
        """Nothing is held."""

    def grow(self, slots: int) -> None:
        """Nothing to make room for."""
