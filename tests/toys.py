"""Models small enough to know everything about: a table of logits that checks the cache invariant on every call."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class TableModel:
    """Logits are a function of the last ``order`` tokens, drawn once and kept.

    It stands in for ``CachedModel`` and asserts what that promises: the cache is a prefix of the tokens asked about.
    """

    def __init__(
        self,
        vocab: int,
        seed: int,
        *,
        order: int = 2,
        spread: float = 2.0,
        context: int = 10_000,
        near: TableModel | None = None,
        noise: float = 0.0,
        row: Callable[[tuple[int, ...]], Sequence[float]] | None = None,
    ) -> None:
        self.vocab_size = vocab
        self.context = context
        self.device = torch.device("cpu")
        self.fed = 0
        self.lengths: list[int] = []
        self._held: list[list[int]] = []
        self._order, self._spread, self._seed = order, spread, seed
        self._near, self._noise, self._row = near, noise, row
        self._table: dict[tuple[int, ...], Tensor] = {}

    def row(self, tokens: Sequence[int]) -> Tensor:
        """Logits after ``tokens``, float64 ``[vocab]``."""
        key = tuple(tokens[-self._order :])
        if key not in self._table:
            if self._row is not None:
                values = torch.tensor(self._row(key), dtype=torch.float64)
            else:
                rng = random.Random(f"{self._seed}:{key}")
                values = torch.tensor([rng.gauss(0, self._spread) for _ in range(self.vocab_size)], dtype=torch.float64)
                if self._near is not None:
                    # An imitation: the other model's logits with some noise.
                    values = self._near.row(tokens)[: self.vocab_size] + self._noise * values
            self._table[key] = values
        return self._table[key]

    def open(self, rows: int, slots: int, *, columns: int | None = None) -> None:
        self.lengths = [0] * rows
        self._held = [[] for _ in range(rows)]
        self.slots = slots

    def crop(self, lengths: Sequence[int]) -> None:
        for row, length in enumerate(lengths):
            self.lengths[row] = min(self.lengths[row], length)

    def resume(self, row: int, *, source: int, length: int) -> None:
        length = min(length, self.lengths[source])
        self._held[row] = self._held[source][:length]
        self.lengths[row] = length

    def grow(self, slots: int) -> None:
        self.slots = max(self.slots, slots)

    def logits(self, tokens: Tensor, totals: Sequence[int], *, last: int, first_row: int = 0) -> Tensor:
        out = torch.zeros(len(totals), last, self.vocab_size, dtype=torch.float64)
        for b, total in enumerate(totals):
            ids = tokens[b, :total].tolist()
            held = self._held[first_row + b][: self.lengths[first_row + b]]
            assert held == ids[: len(held)], "the cache is not a prefix of the tokens"
            assert total <= self.slots, "more tokens than slots"
            assert total <= self.context + 1, "fed past the context"
            assert len(held) < total, "nothing new to feed"
            assert last <= total - len(held), "asked to score what is already cached"
            self.fed += total - len(held)
            self._held[first_row + b] = ids
            self.lengths[first_row + b] = total
            for j in range(last):
                out[b, j] = self.row(ids[: total - last + 1 + j])
        return out


def plain_greedy(
    model: TableModel, prompt: Sequence[int], count: int, stop_ids: frozenset[int] = frozenset()
) -> list[int]:
    """What greedy decoding means, in three lines that share nothing with the package."""
    tokens = list(prompt)
    while len(tokens) - len(prompt) < count:
        tokens.append(int(model.row(tokens).argmax()))
        if tokens[-1] in stop_ids:
            break
    return tokens[len(prompt) :]
