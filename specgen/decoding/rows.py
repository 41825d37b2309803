"""The sequences being decoded: their tokens on the device, and once more on the host as far as they are committed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Rows:
    """Room for rows of tokens, of which the first ones are live, each with a committed length.

    Args:
        count: rows at most.
        slots: room for each: the prompt, everything generated, and one proposal with its bonus token.
        device: where the target is.
    """

    def __init__(self, count: int, slots: int, device: torch.device) -> None:
        self.lengths: list[int] = []
        self._tokens = torch.zeros(count, slots, dtype=torch.long, device=device)
        # What each row holds, live or not: a row that is over still has a cache that a new prompt may begin with.
        self._committed: list[list[int]] = [[] for _ in range(count)]

    @property
    def slots(self) -> int:
        """Room for each row."""
        return self._tokens.shape[1]

    @property
    def tokens(self) -> Tensor:
        """The live rows' ids ``[n, slots]``."""
        return self._tokens[: len(self.lengths)]

    def put(self, row: int, tokens: Sequence[int]) -> None:
        """Begin a row anew; ``row`` is live, or the next one to be."""
        self.hold(row, tokens)
        self.lengths[row : row + 1] = [len(tokens)]

    def hold(self, row: int, tokens: Sequence[int]) -> None:
        """Write the tokens of a row that is not live yet."""
        self._tokens[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.long)
        self._committed[row] = list(tokens)

    def alone(self, row: int) -> Tensor:
        """The ids of one row, live or not, ``[1, slots]``."""
        return self._tokens[row : row + 1]

    def drop_last(self) -> None:
        """End the last live row."""
        self.lengths.pop()

    def move(self, source: int, destination: int) -> None:
        """Put one live row in the place of another."""
        self._tokens[destination] = self._tokens[source]
        self._committed[destination] = list(self._committed[source])
        self.lengths[destination] = self.lengths[source]

    def grow(self, slots: int) -> None:
        """Make room for more tokens a row."""
        self._tokens = torch.nn.functional.pad(self._tokens, (0, max(slots - self.slots, 0)))

    def committed(self, row: int) -> list[int]:
        """The tokens of a row, on the host."""
        return self._committed[row]

    def best_start(self, tokens: Sequence[int], *, at: int) -> tuple[int, int]:
        """The row that begins most like ``tokens``, preferring ``at``, and how many tokens they share."""
        shared = [_shared(held, tokens) for held in self._committed]
        best = max(range(len(shared)), key=lambda row: (shared[row], row == at))
        return best, shared[best]

    def drafted(self, count: int) -> Tensor:
        """The ``count`` uncommitted tokens after each live row's length, ``[n, count]``."""
        return torch.stack([row[n : n + count] for row, n in zip(self.tokens, self.lengths, strict=True)])

    def draft(self, offset: int, tokens: Tensor) -> None:
        """Write one uncommitted token a row, ``[n]``, ``offset`` places after its length."""
        for row, n, token in zip(self.tokens, self.lengths, tokens, strict=True):
            row[n + offset] = token

    def commit(self, row: int, tokens: Sequence[int]) -> None:
        """Append tokens to a row for good."""
        n = self.lengths[row]
        for i, token in enumerate(tokens):
            self._tokens[row, n + i] = token
        self._committed[row] += tokens
        self.lengths[row] = n + len(tokens)


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common prefix."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
