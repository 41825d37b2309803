"""Drafting without a model: what followed the last few tokens when they occurred before, in the prompt or the text.

The idea of prompt lookup (Saxena 2023) and SuffixDecoding (Oliaro et al. 2024, arXiv 2411.04975): the longest context
that has been seen is followed to its most frequent continuation, one token after the other. A proposal is a function of
the committed text, so every rule verifies it by exact match, and looking at it before deciding its length is safe.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specgen.decoding.acceptance import NOTHING, Proposal
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler

_LONGEST = 8
_SHORTEST = 2
# How often a continuation of a context of this length is right, before anything is known. Two tokens say little.
_PRIOR = {2: 0.35, 3: 0.5, 4: 0.6, 5: 0.7, 6: 0.75, 7: 0.8, 8: 0.85}
# Tokens are proposed while all of them are right with at least this probability: what one more column of a pass costs.
_WORTH = 0.25
_MEMORY = 0.9


class _Index:
    """The contexts of one row's text, and what followed each of them."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._after: dict[tuple[int, ...], dict[int, int]] = {}

    def extend(self, tokens: Sequence[int]) -> None:
        """Take in more text."""
        for token in tokens:
            for length in range(_SHORTEST, min(_LONGEST, len(self.tokens)) + 1):
                seen = self._after.setdefault(tuple(self.tokens[-length:]), {})
                # Taken out and put back, the latest is the last of equals.
                seen[token] = seen.pop(token, 0) + 1
            self.tokens.append(token)

    def next(self, tail: Sequence[int]) -> tuple[int, int] | None:
        """The most frequent continuation of the longest context known, and that context's length."""
        for length in range(min(_LONGEST, len(tail)), _SHORTEST - 1, -1):
            if seen := self._after.get(tuple(tail[-length:])):
                return max(reversed(seen), key=seen.__getitem__), length
        return None


class SuffixLookup:
    """Proposes what followed the last tokens when they occurred before."""

    def __init__(self) -> None:
        self._rows: list[_Index] = []
        self._right = dict(_PRIOR)
        self._proposed: list[list[tuple[int, int]]] = []  # tokens and context lengths of each row's last proposal

    @property
    def fed(self) -> int:
        """There is no model, so nothing is ever computed."""
        return 0

    def open(self, rows: int, slots: int) -> None:  # noqa: ARG002
        """Forget all texts."""
        self._rows = [_Index() for _ in range(rows)]
        self._proposed = [[] for _ in range(rows)]

    def grow(self, slots: int) -> None:
        """Texts may be of any length."""

    def crop(self, lengths: Sequence[int]) -> None:
        """Only committed text is ever taken in."""

    def resume(self, row: int, *, source: int, length: int) -> None:  # noqa: ARG002
        """Begin a row anew; its text is taken in with the next proposal."""
        self._rows[row], self._proposed[row] = _Index(), []

    def room(self, lengths: Sequence[int]) -> int:  # noqa: ARG002
        """There is no context to fill."""
        return 1 << 30

    def propose(self, rows: Rows, sampler: Sampler, k: int) -> Proposal:  # noqa: ARG002
        """Look up to ``k`` tokens ahead in every row, as far as they are likely."""
        found = [self._look(row, rows.committed(row), k) for row in range(len(rows.lengths))]
        width = max(map(len, found))
        padded = [[token for token, _ in ahead] + [NOTHING] * (width - len(ahead)) for ahead in found]
        tokens = torch.tensor(padded, dtype=torch.long, device=rows.tokens.device).view(len(found), width)
        for offset in range(width):
            rows.draft(offset, tokens[:, offset].clamp_min(0))
        return Proposal(tokens)

    def _look(self, row: int, committed: Sequence[int], k: int) -> list[tuple[int, int]]:
        index = self._rows[row]
        self._learn(self._proposed[row], committed[len(index.tokens) :])
        index.extend(committed[len(index.tokens) :])
        tail, chance = list(committed[-_LONGEST:]), 1.0
        ahead: list[tuple[int, int]] = []
        while len(ahead) < k and (step := index.next(tail)):
            token, length = step
            chance *= self._right[length]
            if chance < _WORTH:
                break
            ahead.append(step)
            tail.append(token)
        self._proposed[row] = ahead
        return ahead

    def _learn(self, proposed: Sequence[tuple[int, int]], followed: Sequence[int]) -> None:
        """Note how often contexts of each length were right; tokens after the first wrong one tell nothing."""
        for (token, length), real in zip(proposed, followed, strict=False):
            self._right[length] = _MEMORY * self._right[length] + (1 - _MEMORY) * (token == real)
            if token != real:
                break
