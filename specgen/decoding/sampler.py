"""How the live rows' tokens are chosen: warper chain, noise and acceptance rule, for draft and target alike."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from specgen.decoding.acceptance import RULES, Proposal, match
from specgen.decoding.noise import Noise
from specgen.decoding.rows import Rows
from specgen.decoding.sampling import Warper, pick, probabilities, seen_before
from specgen.profile import Sampling


class Sampler:
    """Chooses tokens.

    Args:
        vocab_size: ids of the target.
        device: where the target is.
        rule: ``coupled`` or a name in ``acceptance.RULES``.
    """

    def __init__(self, *, vocab_size: int, device: torch.device, rule: str = "coupled") -> None:
        self.noise = Noise(vocab_size, device)
        self.vocab_size = vocab_size
        self.round = 0
        self._device = device
        self._rule = RULES.get(rule)
        self.seat([], [])

    def seat(self, samplings: Sequence[Sampling], seeds: Sequence[int]) -> None:
        """Take the live rows' numbers and seeds, one each."""
        self.warper = Warper(samplings, self._device)
        self.seeds = list(seeds)
        self.greedy = all(self.warper.greedy)
        # Without noise every rule is an exact match of largest logits.
        self.rule = None if self.greedy else self._rule

    def scores(self, logits: Tensor, rows: Rows, *, offset: int = 0) -> Tensor:
        """Warp logits ``[rows, n, vocab]`` of the tokens from ``offset`` places after each row's length on."""
        seen = None
        if self.warper.needs_history:
            starts = [n + offset for n in rows.lengths]
            seen = seen_before(rows.tokens, starts, logits.shape[1], logits.shape[-1])
        return self.warper(logits, seen)

    def own(self, scores: Tensor, rows: Rows, *, offset: int = 0) -> Tensor:
        """The tokens that these scores choose under the seed's noise, ``[rows, n]`` (Gumbel-max, or argmax)."""
        if not self.greedy:
            starts = [n + offset for n in rows.lengths]
            noise = self.noise.at(self.seeds, starts, scores.shape[1], dtype=scores.dtype)
            scores = scores + noise[..., : scores.shape[-1]].masked_fill(self.warper.greedy_rows, 0)
        return scores.argmax(-1)

    def draw(self, scores: Tensor, rows: Rows, *, offset: int) -> tuple[Tensor, Tensor | None]:
        """Draw one draft token a row from scores ``[rows, 1, vocab]``.

        Returns:
            Tokens ``[rows]``, and the distributions ``[rows, target's vocab]`` if the rule will ask for them.
        """
        if self.rule is None:
            return self.own(scores, rows, offset=offset)[:, 0], None
        probs = probabilities(scores, self.warper.greedy_rows)[:, 0]
        noise = [
            self.noise.gumbel(seed, "draft", self.round, n + offset, dtype=probs.dtype)
            for seed, n in zip(self.seeds, rows.lengths, strict=True)
        ]
        token = pick(probs, torch.stack(noise)[:, : probs.shape[-1]])
        return token, pad(probs, (0, self.vocab_size - probs.shape[-1]))

    def judge(self, proposal: Proposal, logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Verify a proposal against the target's logits ``[rows, k + 1, vocab]``.

        Returns:
            How many draft tokens are accepted and the target's own token after them, ``[rows]`` each.
        """
        scores = self.scores(logits, rows)
        if self.rule is None or proposal.probs is None:
            return match(proposal.tokens, self.own(scores, rows))
        target = probabilities(scores, self.warper.greedy_rows)
        places = list(zip(self.seeds, rows.lengths, strict=True))
        k, dtype = proposal.tokens.shape[1], target.dtype
        uniforms = torch.stack([self.noise.coins(k, seed, self.round, n, dtype=dtype) for seed, n in places])
        kept = self.rule(proposal.tokens, proposal.probs, target, uniforms)
        fresh = [self.noise.gumbel(seed, "residual", self.round, n, dtype=dtype) for seed, n in places]
        return kept.accepted, pick(kept.weights, torch.stack(fresh))
