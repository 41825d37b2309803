"""The acceptance rules: pure functions from a proposal and the target's scores to a verdict.

All of them are lossless. ``coupled`` also fixes the text: with one seed it emits what the target alone would have sampled,
whatever was proposed. ``block`` and ``token`` accept more when draft and target sample, and promise the distribution only.
Adding a rule is one function and one line in ``RULES``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Proposal:
    """Draft tokens, and what they were drawn from.

    Attributes:
        tokens: ids ``[rows, k]``.
        probs: the draft's warped distributions ``[rows, k, vocab]``, or None when the tokens follow from the text before them
            (lookup) or from noise shared with the target (coupled).
    """

    tokens: Tensor
    probs: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the target makes of a proposal.

    Attributes:
        accepted: length of the kept prefix, ``[rows]``.
        token: the target's own token after it, ``[rows]``: the replacement of the rejected one, or the bonus token.
    """

    accepted: Tensor
    token: Tensor


@dataclass(frozen=True, slots=True)
class Coins:
    """The random numbers of one round, independent of those that drew the proposal.

    Attributes:
        uniforms: in (0, 1), ``[rows, k]``, one a drafted token.
        gumbel: Gumbel noise ``[rows, vocab]`` for the target's own token.
    """

    uniforms: Tensor
    gumbel: Tensor


Rule = Callable[[Proposal, Tensor, Coins], Verdict]


def match(proposed: Tensor, own: Tensor) -> Verdict:
    """Keep drafts while they equal the target's own tokens; emit the target's at the first difference.

    This is greedy verification when ``own`` is an argmax, *coupled* verification when draft and target add the same Gumbel
    noise to their log-probabilities (Daliri, Musco and Suresh 2024, arXiv 2408.07978), and the exact rule for a
    deterministic proposal when ``own`` is sampled.

    Args:
        proposed: ids ``[rows, k]``.
        own: the target's token at each of the ``k + 1`` positions, ``[rows, k + 1]``.
    """
    agreed = (proposed == own[:, :-1]).long().cumprod(-1)  # [rows, k]
    accepted = agreed.sum(-1)
    return Verdict(accepted, own.gather(1, accepted[:, None])[:, 0])


def token_rule(proposal: Proposal, target: Tensor, coins: Coins) -> Verdict:
    """Accept each draft token with probability ``min(1, p / q)``; replace the first refused one from the residual.

    Leviathan, Kalman and Matias 2023 (arXiv 2211.17192); Chen et al. 2023 (arXiv 2302.01318). The comparison is the strict
    ``u q < p``, so a token that the target gives no mass is never accepted and nothing is divided.

    Args:
        proposal: tokens with the distributions they were drawn from.
        target: the target's warped distributions ``[rows, k + 1, vocab]``.
        coins: fresh randomness.
    """
    assert proposal.probs is not None
    draft, index = proposal.probs, proposal.tokens[..., None]
    p = target[:, :-1].gather(-1, index)[..., 0]  # [rows, k]
    q = draft.gather(-1, index)[..., 0]
    accepted = (coins.uniforms * q < p).long().cumprod(-1).sum(-1)
    residual = (target - _beyond(draft)).clamp_min(0)
    return Verdict(accepted, _draw_after(accepted, residual, target, coins.gumbel))


def block_rule(proposal: Proposal, target: Tensor, coins: Coins) -> Verdict:
    """Verify the block as a whole: keep the longest prefix whose coin succeeds, not the one before the first failure.

    Sun et al. 2024 (ICLR 2025, arXiv 2403.10444). Never accepts fewer tokens in expectation than ``token_rule``.

    Args:
        proposal: tokens with the distributions they were drawn from.
        target: the target's warped distributions ``[rows, k + 1, vocab]``.
        coins: fresh randomness.
    """
    assert proposal.probs is not None
    draft, index = proposal.probs, proposal.tokens[..., None]
    rows, k = proposal.tokens.shape
    p = target[:, :-1].gather(-1, index)[..., 0]  # [rows, k]
    q = draft.gather(-1, index)[..., 0]
    weight = [p.new_ones(rows)]  # a_0 = 1, a_i = min(a_{i-1} p_i / q_i, 1)
    for i in range(k):
        weight.append((weight[-1] * p[:, i] / q[:, i]).clamp_max(1))
    a = torch.stack(weight, dim=1)  # [rows, k + 1]
    residual = (a[..., None] * target - _beyond(draft)).clamp_min(0)  # [rows, k + 1, vocab]
    mass = residual[:, 1:-1].sum(-1)  # Z_1 .. Z_{k-1}
    spare = 1 - a[:, 1:-1]
    h = torch.where(mass + spare > 0, mass / (mass + spare).clamp_min(torch.finfo(mass.dtype).tiny), 1.0)
    h = torch.cat([h, a[:, -1:]], dim=1)  # [rows, k]
    place = torch.arange(1, k + 1, device=h.device)
    accepted = torch.where(coins.uniforms < h, place, 0).amax(-1)
    return Verdict(accepted, _draw_after(accepted, residual, target, coins.gumbel))


def _beyond(draft: Tensor) -> Tensor:
    """The draft's distributions with an empty one after the last, where the bonus token comes from the target alone."""
    return torch.cat([draft, torch.zeros_like(draft[:, :1])], dim=1)


def _draw_after(accepted: Tensor, residual: Tensor, target: Tensor, gumbel: Tensor) -> Tensor:
    """Draw the target's own token from the residual at ``accepted``, ``[rows]``.

    Rounding can leave a residual empty although a coin refused a token (p = q); the target's distribution is then the right
    one.
    """
    at = accepted[:, None, None].expand(-1, 1, target.shape[-1])
    left = residual.gather(1, at)[:, 0]
    left = torch.where(left.sum(-1, keepdim=True) > 0, left, target.gather(1, at)[:, 0])
    return (left.log() + gumbel).argmax(-1)


# Rules that compare probabilities. Under any other name, and for proposals without probabilities, ``match`` decides.
RULES: dict[str, Rule] = {"token": token_rule, "block": block_rule}
