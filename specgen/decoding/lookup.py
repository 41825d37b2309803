"""Drafting without a model: what followed the last few tokens when they occurred before.

The idea of prompt lookup (Saxena 2023) and SuffixDecoding (Oliaro et al. 2024, arXiv 2411.04975): the longest context
that has been seen, in the prompt, in the text so far or in a corpus, is followed to its most frequent continuation, one
token after the other. A proposal is a function of the committed text, so every rule verifies it by exact match, and
looking at it before deciding its length is safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from specgen.decoding.acceptance import NOTHING, Proposal
from specgen.decoding.lookahead import Lookahead
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler

LONGEST = 8
_SHORTEST = 2
PRIOR = {2: 0.3, 3: 0.5, 4: 0.6, 5: 0.7, 6: 0.75, 7: 0.8, 8: 0.9}
"""How often a continuation of a context of this length is right, before anything is known; two tokens say little."""

Step = tuple[int, int]
"""A proposed token, and the length of the context that it followed: its evidence."""


class _Text:
    """The contexts of one row's text, and what followed each of them."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._after: dict[tuple[int, ...], dict[int, int]] = {}

    def extend(self, tokens: Sequence[int]) -> None:
        """Take in more text."""
        for token in tokens:
            for length in range(_SHORTEST, min(LONGEST, len(self.tokens)) + 1):
                seen = self._after.setdefault(tuple(self.tokens[-length:]), {})
                # Taken out and put back, the latest is the last of equals.
                seen[token] = seen.pop(token, 0) + 1
            self.tokens.append(token)

    def next(self, tail: Sequence[int]) -> Step | None:
        """The most frequent continuation of the longest context known, and that context's length."""
        for length in range(min(LONGEST, len(tail)), _SHORTEST - 1, -1):
            if seen := self._after.get(tuple(tail[-length:])):
                return max(reversed(seen), key=seen.__getitem__), length
        return None


class Corpus:
    """Texts that other texts are likely to quote, looked up like the text itself.

    Only where each pair of tokens occurs is kept, about a hundred bytes a token; longer contexts are compared in place.

    Args:
        texts: token ids.
    """

    _AT_MOST = 64  # occurrences of a pair that are compared, the latest

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        self._tokens: list[int] = []
        self._places: dict[tuple[int, int], list[int]] = {}
        for text in texts:
            for place in range(len(text) - _SHORTEST):
                after = len(self._tokens) + place + _SHORTEST
                self._places.setdefault((text[place], text[place + 1]), []).append(after)
            self._tokens += [*text, NOTHING]  # which equals no token, so no context reaches into the text before

    def next(self, tail: Sequence[int]) -> Step | None:
        """The most frequent continuation of the longest context known, and that context's length."""
        best, found = 0, Counter[int]()
        if len(tail) < _SHORTEST:
            return None
        for place in self._places.get((tail[-2], tail[-1]), ())[-self._AT_MOST :]:
            length = _SHORTEST
            while length < min(LONGEST, len(tail), place) and self._tokens[place - length - 1] == tail[-length - 1]:
                length += 1
            if length > best:
                best, found = length, Counter()
            if length == best:
                found[self._tokens[place]] += 1
        return (max(found, key=found.__getitem__), best) if best else None


class SuffixLookup:
    """Proposes what followed the last tokens when they occurred before.

    Args:
        corpus: texts to look in besides the row's own.
    """

    def __init__(self, corpus: Corpus | None = None) -> None:
        self._corpus = corpus
        self._rows: list[_Text] = []

    @property
    def fed(self) -> int:
        """There is no model, so nothing is ever computed."""
        return 0

    def open(self, rows: int, slots: int) -> None:  # noqa: ARG002
        """Forget all texts."""
        self._rows = [_Text() for _ in range(rows)]

    def grow(self, slots: int) -> None:
        """Texts may be of any length."""

    def crop(self, lengths: Sequence[int]) -> None:
        """Only committed text is ever taken in."""

    def resume(self, row: int, *, source: int, length: int) -> None:  # noqa: ARG002
        """Begin a row anew; its text is taken in with the next proposal."""
        self._rows[row] = _Text()

    def room(self, lengths: Sequence[int]) -> int:  # noqa: ARG002
        """There is no context to fill."""
        return 1 << 30

    def propose(self, rows: Rows, sampler: Sampler, k: int, lookahead: Lookahead | None = None) -> Proposal:  # noqa: ARG002
        """Look up to ``k`` tokens ahead in every row, as far as they are worth verifying."""
        found = self.find(rows, k)
        width = max(map(len, found))
        if lookahead is not None and width:
            width = lookahead.columns(evidence_of(found), drafting=False)
        return self.proposal(rows, found, width)

    def find(self, rows: Rows, k: int) -> list[list[Step]]:
        """What every row's text suggests, up to ``k`` tokens."""
        return [self._look(row, rows.committed(row), k) for row in range(len(rows.lengths))]

    def proposal(self, rows: Rows, found: list[list[Step]], width: int) -> Proposal:
        """Propose the first ``width`` tokens of what was found in every row."""
        found = [ahead[:width] for ahead in found]
        padded = [[token for token, _ in ahead] + [NOTHING] * (width - len(ahead)) for ahead in found]
        tokens = torch.tensor(padded, dtype=torch.long, device=rows.tokens.device).view(len(found), width)
        for offset in range(width):
            rows.draft(offset, tokens[:, offset].clamp_min(0))
        return Proposal(tokens, None, "lookup", evidence_of(found))

    def _look(self, row: int, committed: Sequence[int], k: int) -> list[Step]:
        text = self._rows[row]
        text.extend(committed[len(text.tokens) :])
        tail = list(committed[-LONGEST:])
        ahead: list[Step] = []
        while len(ahead) < k and (step := self._next(text, tail)):
            ahead.append(step)
            tail.append(step[0])
        return ahead

    def _next(self, text: _Text, tail: Sequence[int]) -> Step | None:
        """The step that follows the longer context; of equals, the text's own."""
        own = text.next(tail)
        other = self._corpus.next(tail) if self._corpus is not None else None
        return other if other and (own is None or other[1] > own[1]) else own


def evidence_of(found: Sequence[Sequence[Step]]) -> tuple[tuple[int, ...], ...]:
    """The evidence of what a lookup found."""
    return tuple(tuple(length for _, length in ahead) for ahead in found)
