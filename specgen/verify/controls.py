"""Two drafts whose fate is known: the target itself, always accepted, and one that knows nothing, nearly never."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specgen.decoding.acceptance import Proposal
from specgen.decoding.lookahead import Lookahead
from specgen.decoding.noise import derive
from specgen.decoding.proposers import DraftModel
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler
from specgen.models.cached import CachedModel


class SelfDraft(DraftModel):
    """The target as its own draft: the same weights with a cache of its own.

    Args:
        target: the model.
        columns: constant width of its passes too, for a strict run.
    """

    def __init__(self, target: CachedModel, *, columns: int | None) -> None:
        twin = CachedModel(target.model, target.name, context=target.context)
        super().__init__(twin, common=twin.vocab_size)
        self._columns = columns

    def open(self, rows: int, slots: int) -> None:
        """Make room for a new run, in the target's own shape."""
        self.model.open(rows, slots, columns=self._columns)


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

    def propose(self, rows: Rows, sampler: Sampler, k: int, lookahead: Lookahead | None = None) -> Proposal:  # noqa: ARG002
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
