"""The sequences being decoded: their tokens on the device, their lengths on the host, and how each is sampled."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specgen.decoding.acceptance import RULES, Proposal, match
from specgen.decoding.noise import Noise
from specgen.decoding.sampling import Warper, pick, probabilities, seen_before
from specgen.profile import Sampling


class Rows:
    """Rows of tokens ``[rows, slots]`` with a committed length each.

    Args:
        prompts: the tokens to start from, one sequence a row.
        slots: room for each row; the prompt, everything generated, and one proposal with its bonus token.
        device: where the target is.
    """

    def __init__(self, prompts: Sequence[Sequence[int]], *, slots: int, device: torch.device) -> None:
        self.lengths = [len(prompt) for prompt in prompts]
        self.tokens = torch.zeros(len(prompts), slots, dtype=torch.long, device=device)
        for row, prompt in zip(self.tokens, prompts, strict=True):
            row[: len(prompt)] = torch.tensor(prompt, dtype=torch.long)

    def drafted(self, count: int) -> Tensor:
        """The ``count`` uncommitted tokens after each row's length, ``[rows, count]``."""
        return torch.stack([row[n : n + count] for row, n in zip(self.tokens, self.lengths, strict=True)])

    def draft(self, offset: int, tokens: Tensor) -> None:
        """Write one uncommitted token a row, ``[rows]``, ``offset`` places after its length."""
        for row, n, token in zip(self.tokens, self.lengths, tokens, strict=True):
            row[n + offset] = token

    def commit(self, row: int, tokens: Sequence[int]) -> None:
        """Append tokens to a row for good."""
        n = self.lengths[row]
        for i, token in enumerate(tokens):
            self.tokens[row, n + i] = token
        self.lengths[row] = n + len(tokens)


class Sampler:
    """How the rows' tokens are chosen: the warper chain, the noise and the acceptance rule, for draft and target alike.

    Args:
        samplings: one per row.
        seeds: one per row.
        vocab_size: ids of the target.
        device: where the target is.
        rule: ``coupled`` or a name in ``acceptance.RULES``.
    """

    def __init__(
        self,
        samplings: Sequence[Sampling],
        seeds: Sequence[int],
        *,
        vocab_size: int,
        device: torch.device,
        rule: str = "coupled",
    ) -> None:
        self.warper = Warper(samplings, device)
        self.noise = Noise(vocab_size, device)
        self.seeds = list(seeds)
        self.vocab_size = vocab_size
        # Without noise every rule is an exact match of largest logits.
        self.rule = None if all(self.warper.greedy) else RULES.get(rule)
        self.round = 0

    def scores(self, logits: Tensor, rows: Rows, *, offset: int = 0) -> Tensor:
        """Warp logits ``[rows, n, vocab]`` of the tokens from ``offset`` places after each row's length on."""
        seen = None
        if self.warper.needs_history:
            starts = [n + offset for n in rows.lengths]
            seen = seen_before(rows.tokens, starts, logits.shape[1], logits.shape[-1])
        return self.warper(logits, seen)

    def own(self, scores: Tensor, rows: Rows, *, offset: int = 0) -> Tensor:
        """The tokens that these scores choose under the seed's noise, ``[rows, n]`` (Gumbel-max, or argmax)."""
        if not all(self.warper.greedy):
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
        noise = torch.stack(
            [
                self.noise.gumbel(seed, "draft", self.round, n + offset, dtype=probs.dtype)
                for seed, n in zip(self.seeds, rows.lengths, strict=True)
            ]
        )
        token = pick(probs, noise[:, : probs.shape[-1]])
        return token, torch.nn.functional.pad(probs, (0, self.vocab_size - probs.shape[-1]))

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
