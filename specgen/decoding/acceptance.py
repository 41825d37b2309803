"""The acceptance rules: pure functions from a proposal and the target's distributions to what is kept.

All of them are lossless. ``match`` under the coupled draw also fixes the text: with one seed it emits what the target
alone would have sampled, whatever was proposed. ``block_rule`` and ``token_rule`` accept more when draft and target
sample, and promise the distribution only. Adding a rule is one function and one line in ``RULES``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

NOTHING = -1
"""Fills a row of a proposal that has fewer tokens than its neighbours; it equals no token."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Draft tokens, and what they were drawn from.

    Attributes:
        tokens: ids ``[rows, k]``; a deterministic proposal may have ``NOTHING`` at the end of a row.
        probs: the draft's warped distributions ``[rows, k, vocab]``, or None when the tokens follow from the text
            before them (lookup) or from noise shared with the target (coupled).
        source: ``draft`` or ``lookup``.
        evidence: what is known of each token of each row, see ``calibration``; empty where nothing is.
    """

    tokens: Tensor
    probs: Tensor | None = None
    source: str = "draft"
    evidence: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """What a rule keeps of a proposal, and what the target's own token after it is drawn from.

    Attributes:
        accepted: length of the kept prefix, ``[rows]``.
        weights: unnormalised distribution of the next token, ``[rows, vocab]``: the residual where a token was
            rejected, the target's own distribution for the bonus token.
    """

    accepted: Tensor
    weights: Tensor


Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Kept]


def match(proposed: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Keep drafts while they equal the target's own tokens; the target's token at the first difference follows.

    This is greedy verification when ``own`` is an argmax, *coupled* verification when draft and target add the same
    Gumbel noise to their log-probabilities (Daliri, Musco and Suresh 2024, arXiv 2408.07978), and the exact rule for a
    deterministic proposal when ``own`` is sampled.

    Args:
        proposed: ids ``[rows, k]``.
        own: the target's token at each of the ``k + 1`` positions, ``[rows, k + 1]``.

    Returns:
        How many were accepted and the token after them, ``[rows]`` each.
    """
    agreed = (proposed == own[:, :-1]).long().cumprod(-1)  # [rows, k]
    accepted = agreed.sum(-1)
    return accepted, own.gather(1, accepted[:, None])[:, 0]


def token_rule(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Tensor) -> Kept:
    """Accept each draft token with probability ``min(1, p / q)``; replace the first refused one from the residual.

    Leviathan, Kalman and Matias 2023 (arXiv 2211.17192); Chen et al. 2023 (arXiv 2302.01318). The comparison is the
    strict ``u q < p``, so a token that the target gives no mass is never accepted and nothing is divided.

    Args:
        tokens: ids ``[rows, k]``, drawn from ``draft``.
        draft: the draft's warped distributions ``[rows, k, vocab]``.
        target: the target's ``[rows, k + 1, vocab]``.
        uniforms: fresh numbers in (0, 1), ``[rows, k]``.
    """
    p, q = _of(target[:, :-1], tokens), _of(draft, tokens)  # [rows, k]
    accepted = (uniforms * q < p).long().cumprod(-1).sum(-1)
    residual = (target - _with_bonus(draft)).clamp_min(0)
    return Kept(accepted, _weights_at(accepted, residual, target))


def block_rule(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Tensor) -> Kept:
    """Verify the block as a whole: keep the longest prefix whose coin succeeds, not the one before the first failure.

    Sun et al. 2024 (ICLR 2025, arXiv 2403.10444). Never accepts fewer tokens in expectation than ``token_rule``.

    Args:
        tokens: ids ``[rows, k]``, drawn from ``draft``.
        draft: the draft's warped distributions ``[rows, k, vocab]``.
        target: the target's ``[rows, k + 1, vocab]``.
        uniforms: fresh numbers in (0, 1), ``[rows, k]``.
    """
    p, q = _of(target[:, :-1], tokens), _of(draft, tokens)  # [rows, k]
    k = tokens.shape[1]
    scale = [torch.ones_like(p[:, 0])]  # a_0 = 1, a_i = min(a_{i-1} p_i / q_i, 1)
    for i in range(k):
        scale.append((scale[-1] * p[:, i] / q[:, i]).clamp_max(1))
    a = torch.stack(scale, dim=1)  # [rows, k + 1]
    residual = (a[..., None] * target - _with_bonus(draft)).clamp_min(0)  # [rows, k + 1, vocab]
    mass = residual[:, 1:-1].sum(-1)  # Z_1 .. Z_{k-1}
    whole = mass + 1 - a[:, 1:-1]
    h = torch.where(whole > 0, mass / whole.clamp_min(torch.finfo(mass.dtype).tiny), 1.0)
    h = torch.cat([h, a[:, -1:]], dim=1)  # [rows, k], the chance that the prefix of each length is kept
    length = torch.arange(1, k + 1, device=h.device)
    accepted = torch.where(uniforms < h, length, 0).amax(-1)
    return Kept(accepted, _weights_at(accepted, residual, target))


def _of(distributions: Tensor, tokens: Tensor) -> Tensor:
    """The probability of each token, ``[rows, k]``."""
    return distributions.gather(-1, tokens[..., None])[..., 0]


def _with_bonus(draft: Tensor) -> Tensor:
    """The draft's distributions and an empty one after the last, where the bonus token comes from the target alone."""
    return torch.cat([draft, torch.zeros_like(draft[:, :1])], dim=1)


def _weights_at(accepted: Tensor, residual: Tensor, target: Tensor) -> Tensor:
    """The residual after the accepted tokens, ``[rows, vocab]``.

    Rounding can leave a residual empty although a coin refused a token (p = q); the target's distribution is then the
    right one.
    """
    at = accepted[:, None, None].expand(-1, 1, target.shape[-1])
    left = residual.gather(1, at)[:, 0]
    return torch.where(left.sum(-1, keepdim=True) > 0, left, target.gather(1, at)[:, 0])


# The rules that compare probabilities. ``match`` decides under ``coupled`` and for proposals without probabilities.
RULES: dict[str, Rule] = {"token": token_rule, "block": block_rule}
