"""Where draft tokens come from. A proposer is one class; the loop knows only the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from specgen.decoding.acceptance import Proposal
from specgen.decoding.calibration import UNKNOWN, evidence_of
from specgen.decoding.lookahead import Lookahead
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler
from specgen.models.cached import CachedModel


class Proposer(Protocol):
    """Proposes tokens for every row at once."""

    def open(self, rows: int, slots: int) -> None:
        """Make room for a new run."""

    def room(self, lengths: Sequence[int]) -> int:
        """How many tokens it can propose at most, for rows of these lengths."""

    def propose(self, rows: Rows, sampler: Sampler, k: int, lookahead: Lookahead | None = None) -> Proposal:
        """Write up to ``k`` uncommitted tokens after each row's length and say what they were drawn from.

        Args:
            rows: the sequences.
            sampler: chooses tokens.
            k: tokens a row at most.
            lookahead: asked before every token whether it is worth drafting; without one, all ``k`` are.
        """

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget what lies past ``lengths`` in the live rows."""

    def resume(self, row: int, *, source: int, length: int) -> None:
        """Begin a row with the first ``length`` tokens of another row, or of itself."""

    def grow(self, slots: int) -> None:
        """Make room for more positions a row."""

    @property
    def fed(self) -> int:
        """Positions that its model has computed so far."""


class Drafted:
    """What is known of the tokens drafted so far: the draft's own probability of each, read where that is free.

    Args:
        rows: how many draft.
        device: of the draft; on an accelerator reading a number would mean waiting for it.
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        self.rows: list[list[int]] = [[] for _ in range(rows)]
        self.count = 0
        self._reads = device.type == "cpu"

    def add(self, scores: Tensor, tokens: Tensor, *, read: bool) -> None:
        """Note tokens ``[rows]`` drawn from scores ``[rows, 1, vocab]``."""
        self.count += 1
        if not (self._reads and read):
            for row in self.rows:
                row.append(UNKNOWN)
            return
        scores = scores[:, 0].float()
        chances = (scores.gather(1, tokens[:, None])[:, 0] - scores.logsumexp(-1)).exp()
        for row, chance in zip(self.rows, chances.tolist(), strict=True):
            row.append(evidence_of(chance))

    def proposal(self, rows: Rows, probs: list[Tensor]) -> Proposal:
        """The proposal of what was drafted."""
        tokens = rows.drafted(self.count) if self.count else rows.tokens[:, :0]
        return Proposal(
            tokens, torch.stack(probs, dim=1) if probs else None, "draft", tuple(tuple(row) for row in self.rows)
        )


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

    def propose(self, rows: Rows, sampler: Sampler, k: int, lookahead: Lookahead | None = None) -> Proposal:
        """Draw up to ``k`` tokens a row from the draft, under the target's own warper chain."""
        probs = []
        evidence = Drafted(len(rows.lengths), self.model.device)
        while evidence.count < k and (lookahead is None or lookahead.go_on(evidence.rows)):
            offset = evidence.count
            totals = [n + offset for n in rows.lengths]
            logits = self.model.logits(rows.tokens, totals, last=1)[..., : self.common]
            scores = sampler.scores(logits.to(rows.tokens.device), rows, offset=offset)
            token, drawn_from = sampler.draw(scores, rows, offset=offset)
            rows.draft(offset, token)
            evidence.add(scores, token, read=lookahead is not None)
            if drawn_from is not None:
                probs.append(drawn_from)
        return evidence.proposal(rows, probs)

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget what lies past ``lengths`` in the live rows, in constant time."""
        self.model.crop(lengths)

    def resume(self, row: int, *, source: int, length: int) -> None:
        """Begin a row with the first ``length`` tokens of another row, or of itself, as far as the draft holds them."""
        self.model.resume(row, source=source, length=length)

    def grow(self, slots: int) -> None:
        """Make room for more positions a row, up to the draft's own context."""
        self.model.grow(min(slots, self.model.context + 1))
