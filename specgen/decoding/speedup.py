"""What speculation pays: the cost model, as pure functions of measured costs.

All costs are in units of a plain step of the target. A round proposes ``k`` tokens at ``draft_cost`` each, verifies
them in one pass at ``verify_cost``, and takes ``overhead`` besides. With ``alpha_j`` the probability that the j-th
proposed token is accepted when all before it were, a round yields

    E_k = 1 + sum over i <= k of (alpha_1 * ... * alpha_i)        tokens, the target's own included,
    S(k) = E_k / (k * draft_cost + verify_cost + overhead)        times the speed of the target alone.

Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2023), give the case ``verify_cost = 1``
and no overhead. Acceptance goes by three names that are easily confused: *alpha* (accepted of those tested), the
*acceptance rate* (accepted of those proposed, smaller because what follows a rejection is never tested), and the *mean
accepted length* ``E_k``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_STEPS = 60


def expected_tokens(alpha: float | Sequence[float], k: int) -> float:
    """Return ``E_k``, the mean number of tokens a round.

    Args:
        alpha: one for all positions, or one for each of them.
        k: tokens proposed a round.
    """
    alphas = [alpha] * k if isinstance(alpha, (int, float)) else list(alpha)[:k]
    total = reached = 1.0
    for one in alphas:
        reached *= one
        total += reached
    return total


def round_cost(k: int, draft_cost: float, verify_cost: float, overhead: float = 0.0) -> float:
    """Return what a round costs, in plain steps."""
    return k * draft_cost + verify_cost + overhead


def speedup(
    alpha: float | Sequence[float], k: int, draft_cost: float, verify_cost: float = 1.0, overhead: float = 0.0
) -> float:
    """Return ``S(k)``, the speed over that of the target alone."""
    return expected_tokens(alpha, k) / round_cost(k, draft_cost, verify_cost, overhead)


def break_even_drafts(k: int, draft_cost: float, verify_cost: float = 1.0, overhead: float = 0.0) -> float:
    """Return how many drafts a round must have accepted on average to cost nothing; over ``k``, the acceptance rate."""
    return round_cost(k, draft_cost, verify_cost, overhead) - 1


def break_even(k: int, draft_cost: float, verify_cost: float = 1.0, overhead: float = 0.0) -> float | None:
    """Return the alpha below which speculation loses, or None where even full acceptance would not pay.

    Args:
        k: tokens proposed a round.
        draft_cost: of one proposed token.
        verify_cost: of the target's pass over the proposal.
        overhead: of a round besides.
    """
    wanted = break_even_drafts(k, draft_cost, verify_cost, overhead)
    if wanted <= 0:
        return 0.0
    return alpha_for(wanted, k)


def alpha_for(accepted: float, k: int) -> float | None:
    """Return the alpha, the same at every position, that has so many drafts accepted a round; None if none has."""
    if accepted > k:
        return None
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if expected_tokens(middle, k) - 1 < accepted:
            low = middle
        else:
            high = middle
    return high


def best_k(
    alpha: float | Sequence[float],
    draft_cost: float,
    verify_cost: Callable[[int], float] = lambda _k: 1.0,
    overhead: float = 0.0,
    *,
    most: int = 64,
) -> tuple[int, float]:
    """Return the lookahead that is fastest, and its speedup; 0 and 1.0 where speculation does not pay.

    Args:
        alpha: one for all positions, or one for each of them.
        draft_cost: of one proposed token.
        verify_cost: of the target's pass over ``k`` proposed tokens.
        overhead: of a round besides.
        most: the longest lookahead to consider.
    """
    most = most if isinstance(alpha, (int, float)) else min(most, len(alpha))
    best = (0, 1.0)
    for k in range(1, most + 1):
        gain = speedup(alpha, k, draft_cost, verify_cost(k), overhead)
        if gain > best[1]:
            best = (k, gain)
    return best
