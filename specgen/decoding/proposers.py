"""Where draft tokens come from. A proposer is one class; the loop knows only the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from specgen.decoding.acceptance import Proposal
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler
from specgen.models.cached import CachedModel


class Proposer(Protocol):
    """Proposes tokens for every row at once."""

    def open(self, rows: int, slots: int) -> None:
        """Make room for a new run."""

    def room(self, lengths: Sequence[int]) -> int:
        """How many tokens it can propose at most, for rows of these lengths."""

    def propose(self, rows: Rows, sampler: Sampler, k: int) -> Proposal:
        """Write up to ``k`` uncommitted tokens after each row's length and say what they were drawn from."""

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget what lies past ``lengths`` in the live rows."""

    def resume(self, row: int, *, source: int, length: int) -> None:
        """Begin a row with the first ``length`` tokens of another row, or of itself."""

    def grow(self, slots: int) -> None:
        """Make room for more positions a row."""

    @property
    def fed(self) -> int:
        """Positions that its model has computed so far."""


class DraftModel:
    """A small model that proposes one token after the other.

    Args:
        model: the draft.
        common: ids below this mean the same token to draft and target; others are never proposed.
    """

    def __init__(self, model: CachedModel, *, common: int) -> None:
        self.model = model
        self.common = common

    @property
    def fed(self) -> int:
        """Positions that the draft has computed so far."""
        return self.model.fed

    def open(self, rows: int, slots: int) -> None:
        """Make room for a new run, up to the draft's own context."""
        self.model.open(rows, min(slots, self.model.context + 1))

    def room(self, lengths: Sequence[int]) -> int:
        """Tokens until the draft's context is full; the last one proposed is never fed."""
        return max(self.model.context - max(lengths) + 1, 0)

    def propose(self, rows: Rows, sampler: Sampler, k: int) -> Proposal:
        """Draw ``k`` tokens a row from the draft, under the target's own warper chain."""
        probs = []
        for offset in range(k):
            totals = [n + offset for n in rows.lengths]
            logits = self.model.logits(rows.tokens, totals, last=1)[..., : self.common]
            scores = sampler.scores(logits.to(rows.tokens.device), rows, offset=offset)
            token, drawn_from = sampler.draw(scores, rows, offset=offset)
            rows.draft(offset, token)
            if drawn_from is not None:
                probs.append(drawn_from)
        return Proposal(rows.drafted(k), torch.stack(probs, dim=1) if probs else None)

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget what lies past ``lengths`` in the live rows, in constant time."""
        self.model.crop(lengths)

    def resume(self, row: int, *, source: int, length: int) -> None:
        """Begin a row with the first ``length`` tokens of another row, or of itself, as far as the draft holds them."""
        self.model.resume(row, source=source, length=length)

    def grow(self, slots: int) -> None:
        """Make room for more positions a row, up to the draft's own context."""
        self.model.grow(min(slots, self.model.context + 1))
