"""The warper chain: from logits to the scores that a token is chosen by, alike for target and draft.

Order and meaning are transformers': repetition penalty, temperature, top-k, top-p, min-p. Equal probabilities at a cut
are all kept, so that the result does not depend on how a device sorts.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specgen.profile import Sampling

# Sorting a 150k vocabulary for top-p takes a CPU longer than a small draft's forward; its head nearly always holds the
# mass.
_NUCLEUS_HEAD = 1024


class Warper:
    """The chain for a set of rows, each with its own numbers.

    Args:
        samplings: one per row.
        device: where the logits are.
    """

    def __init__(self, samplings: Sequence[Sampling], device: torch.device) -> None:
        def column(values: Sequence[float]) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=device)[:, None, None]

        self.greedy = [s.temperature == 0 for s in samplings]
        # A greedy row is decided by its largest logit, which no other warper moves.
        live = [s if s.temperature else Sampling(repetition_penalty=s.repetition_penalty) for s in samplings]
        self.greedy_rows = torch.tensor(self.greedy, device=device)[:, None, None]  # [rows, 1, 1]
        self._temperature = column([s.temperature or 1.0 for s in live])
        self._top_k = [s.top_k for s in live]
        self._top_p = column([s.top_p for s in live])
        self._log_min_p = column([s.min_p for s in live]).log()
        self._penalty = column([s.repetition_penalty for s in live])
        self.needs_history = any(s.repetition_penalty != 1 for s in live)
        self._cools = any(s.temperature not in (0.0, 1.0) for s in samplings)
        self._trims_p = any(s.top_p < 1 for s in live)
        self._trims_min = any(s.min_p > 0 for s in live)

    def __call__(self, logits: Tensor, seen: Tensor | None = None) -> Tensor:
        """Warp logits ``[rows, n, vocab]``; what is cut off becomes ``-inf``.

        Args:
            logits: in any float type; the work is done in float32 (float64 stays).
            seen: tokens that occur before each position, bool ``[rows, n, vocab]``, for the repetition penalty.

        Returns:
            Scores ``[rows, n, vocab]``: unnormalised log-probabilities. A greedy row keeps its logits.
        """
        scores = logits if logits.dtype == torch.float64 else logits.float()
        if seen is not None and self.needs_history:
            penalised = torch.where(scores < 0, scores * self._penalty, scores / self._penalty)
            scores = torch.where(seen, penalised, scores)
        if self._cools:
            scores = scores / self._temperature
        if any(self._top_k):
            scores = self._keep_top_k(scores)
        if self._trims_p:
            scores = self._keep_nucleus(scores)
        if self._trims_min:
            floor = scores.amax(-1, keepdim=True) + self._log_min_p
            scores = scores.masked_fill(scores < floor, float("-inf"))
        return scores

    def _keep_top_k(self, scores: Tensor) -> Tensor:
        vocab = scores.shape[-1]
        widths = [min(k, vocab) if k else vocab for k in self._top_k]
        best = scores.topk(max(min(k, vocab) for k in self._top_k if k)).values  # [rows, n, widest]
        cut = torch.stack(
            [
                row[:, width - 1, None] if k else row.new_full((row.shape[0], 1), float("-inf"))
                for row, width, k in zip(best, widths, self._top_k, strict=True)
            ]
        )  # [rows, n, 1]
        return scores.masked_fill(scores < cut, float("-inf"))

    def _keep_nucleus(self, scores: Tensor) -> Tensor:
        """Keep the fewest most probable tokens whose mass reaches top-p (Holtzman et al. 2020)."""
        probs = scores.softmax(-1)
        width = probs.shape[-1] if probs.device.type != "cpu" else min(_NUCLEUS_HEAD, probs.shape[-1])
        head = probs.topk(width).values
        if width < probs.shape[-1] and bool(((head.sum(-1, keepdim=True) < self._top_p) & (self._top_p < 1)).any()):
            head = probs.sort(-1, descending=True).values
        before = head.cumsum(-1) - head
        cut = head.masked_fill(before >= self._top_p, float("inf")).amin(-1, keepdim=True)
        cut = cut.masked_fill(self._top_p >= 1, 0)
        return scores.masked_fill(probs < cut, float("-inf"))


def seen_before(tokens: Tensor, lengths: Sequence[int], count: int, vocab: int) -> Tensor:
    """Which tokens occur before each of ``count`` positions from ``lengths`` on.

    Args:
        tokens: ids ``[rows, slots]``, the drafted ones included.
        lengths: first position of each row.
        count: positions.
        vocab: ids covered.

    Returns:
        bool ``[rows, count, vocab]``.
    """
    rows = tokens.shape[0]
    seen = torch.zeros(rows, count, vocab, dtype=torch.bool, device=tokens.device)
    for row, length in enumerate(lengths):
        seen[row].index_fill_(1, tokens[row, :length], True)
        for j in range(1, count):
            seen[row, j:].index_fill_(1, tokens[row, length + j - 1 : length + j], True)
    return seen


def probabilities(scores: Tensor, greedy_rows: Tensor) -> Tensor:
    """Turn scores ``[rows, n, vocab]`` into probabilities; a greedy row's mass is all on its first largest score."""
    probs = scores.softmax(-1)
    best = torch.zeros_like(probs).scatter_(-1, scores.argmax(-1, keepdim=True), 1.0)
    return torch.where(greedy_rows, best, probs)


def pick(weights: Tensor, gumbel: Tensor) -> Tensor:
    """Draw a token in proportion to weights ``[rows, vocab]``, by the Gumbel-max trick; ``[rows]``."""
    return (weights.log() + gumbel).argmax(-1)
