"""(D) The output law of an acceptance rule, enumerated: every draft, every outcome of every coin, in float64.

Nothing is sampled. A rule is asked as a black box where its coins change the outcome, each cell between those places is
weighed, and the law of the first ``k + 1`` tokens is compared with the target's own.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from specgen.decoding import acceptance
from specgen.decoding.acceptance import Rule
from specgen.verify.report import LawCheck

Law = dict[tuple[int, ...], float]
Conditional = Callable[[tuple[int, ...]], Tensor]
Pairing = Callable[[Tensor, Tensor], Tensor]

EXACT = 1e-12
"""Total variation below which two laws are equal: rounding of float64, and nothing else."""


def table(vocab: int, seed: int, *, zeros: bool = False) -> Conditional:
    """A random next-token distribution for every prefix, with some impossible tokens if asked for."""
    rows: dict[tuple[int, ...], Tensor] = {}

    def row(prefix: tuple[int, ...]) -> Tensor:
        if prefix not in rows:
            generator = torch.Generator().manual_seed(hash((seed, prefix)) % 2**63)
            values = torch.rand(vocab, generator=generator, dtype=torch.float64)
            if zeros:
                values[torch.randint(vocab, (1,), generator=generator)] = 0
            rows[prefix] = values / values.sum()
        return rows[prefix]

    return row


def fixed_row(values: Sequence[float]) -> Conditional:
    """The same distribution after every prefix."""
    tensor = torch.tensor(values, dtype=torch.float64)
    return lambda _: tensor


def joint(p: Conditional, length: int) -> Law:
    """The law of the first ``length`` tokens."""
    law: Law = {(): 1.0}
    for _ in range(length):
        law = {
            (*prefix, v): weight * float(p(prefix)[v])
            for prefix, weight in law.items()
            for v in range(len(p(())))
            if p(prefix)[v] > 0
        }
    return law


def distance(a: Law, b: Law) -> float:
    """Total variation."""
    return sum(abs(a.get(key, 0) - b.get(key, 0)) for key in {*a, *b}) / 2


def thresholds(rule: Rule, tokens: Tensor, draft: Tensor, target: Tensor, coin: int, others: float) -> Tensor:
    """Where a coin changes what is accepted, by bisection on the rule as a black box, ``[rows]``.

    Args:
        rule: the rule.
        tokens: ids ``[rows, k]``.
        draft: distributions ``[rows, k, vocab]``.
        target: distributions ``[rows, k + 1, vocab]``.
        coin: which coin moves.
        others: value of all other coins.
    """

    def accepted(value: Tensor) -> Tensor:
        uniforms = torch.full(tokens.shape, others, dtype=torch.float64)
        uniforms[:, coin] = value
        return rule(tokens, draft, target, uniforms).accepted

    low = torch.full((len(tokens),), 0.0, dtype=torch.float64)
    high = torch.ones_like(low)
    failing = accepted(high)
    for _ in range(60):
        middle = (low + high) / 2
        fails = accepted(middle) == failing
        high = torch.where(fails, middle, high)
        low = torch.where(fails, low, middle)
    return high


def output_law(
    rule: Rule, p: Conditional, q: Conditional, k: int, *, drawn: Conditional | None = None
) -> tuple[Law, float]:
    """Law of the first ``k + 1`` tokens after one round, and the expected number of accepted tokens.

    Args:
        rule: compares probabilities.
        p: the target.
        q: the draft, as the rule is told.
        k: tokens proposed.
        drawn: what draft tokens are really drawn from, when that is not what the rule is told.
    """
    chances = joint(drawn or q, k)
    paths = list(chances)
    tokens = torch.tensor(paths)
    draft = torch.stack([torch.stack([q(x[:i]) for i in range(k)]) for x in paths])
    target = torch.stack([torch.stack([p(x[:i]) for i in range(k + 1)]) for x in paths])
    cuts = torch.stack(
        [
            torch.stack([thresholds(rule, tokens, draft, target, coin, others) for others in (1e-300, 1 - 1e-16)], -1)
            for coin in range(k)
        ],
        dim=1,
    )  # [rows, k, 2]
    edges = torch.cat([torch.zeros_like(cuts[..., :1]), cuts.sort(-1).values, torch.ones_like(cuts[..., :1])], -1)
    law: Law = defaultdict(float)
    expected = 0.0
    for cell in itertools.product(range(3), repeat=k):
        index = torch.tensor(cell).expand(len(paths), k)[..., None]
        low, high = edges.gather(-1, index)[..., 0], edges.gather(-1, index + 1)[..., 0]
        chance = (high - low).prod(-1)
        kept = rule(tokens, draft, target, (low + high) / 2)
        for row, x in enumerate(paths):
            weight = float(chance[row]) * chances[x]
            if weight:
                expected += weight * int(kept.accepted[row])
                spread(law, p, x[: int(kept.accepted[row])], kept.weights[row], weight, k + 1)
    return law, expected


def spread(law: Law, p: Conditional, prefix: tuple[int, ...], weights: Tensor, chance: float, length: int) -> None:
    """Add every continuation: the own token from its weights, later tokens from the target."""
    for v, share in enumerate((weights / weights.sum()).tolist()):
        if share:
            _continue(law, p, (*prefix, v), chance * share, length)


def _continue(law: Law, p: Conditional, start: tuple[int, ...], chance: float, length: int) -> None:
    after = {start: chance}
    for _ in range(length - len(start)):
        after = {(*s, w): c * float(p(s)[w]) for s, c in after.items() for w in range(len(p(s)))}
    for sequence, c in after.items():
        law[sequence] += c


def independent(p: Tensor, q: Tensor) -> Tensor:
    """Target and draft draw by themselves: joint chances ``[vocab, vocab]``, the draft's token first."""
    return q[:, None] * p[None, :]


def maximal(p: Tensor, q: Tensor) -> Tensor:
    """Target and draft draw the same token as often as two distributions allow; shared noise comes close to it."""
    same = torch.minimum(p, q)
    left = 1 - same.sum()
    rest = (q - same)[:, None] * (p - same)[None, :]
    return torch.diag(same) + (rest / left if left > 0 else 0 * rest)


def certain(p: Tensor, q: Tensor) -> Tensor:
    """The draft proposes its likeliest token (greedy draft, lookup)."""
    return independent(p, torch.eye(len(q), dtype=q.dtype)[int(q.argmax())])


PAIRINGS: dict[str, Pairing] = {"independent": independent, "maximal": maximal, "certain": certain}


def match_law(p: Conditional, q: Conditional, k: int, pairing: Pairing) -> tuple[Law, float]:
    """The same for ``match``: draft and target draw their tokens position by position, in any joint way.

    After the first difference draft and target see different texts; the target's tokens there follow its distribution
    after the draft's text, and must not matter.
    """
    law: Law = defaultdict(float)
    expected = 0.0
    steps: list[tuple[tuple[int, ...], tuple[int, ...], float]] = [((), (), 1.0)]
    for _ in range(k):
        steps = [
            ((*x, a), (*y, b), weight * chance)
            for x, y, weight in steps
            for a, row in enumerate(pairing(p(x), q(x)).tolist())
            for b, chance in enumerate(row)
            if chance > 0
        ]
    steps = [(x, (*y, b), weight * c) for x, y, weight in steps for b, c in enumerate(p(x).tolist()) if c > 0]
    accepted, tokens = acceptance.match(torch.tensor([s[0] for s in steps]), torch.tensor([s[1] for s in steps]))
    for (x, _, weight), count, token in zip(steps, accepted.tolist(), tokens.tolist(), strict=True):
        expected += weight * count
        _continue(law, p, (*x[:count], token), weight, k + 1)
    return law, expected


# Distributions that have broken implementations: disjoint, equal, certain of different opinion, certain draft, target.
_EXTREMES = (
    ([0.5, 0.5, 0.0], [0.0, 0.0, 1.0]),
    ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
    ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
    ([0.1, 0.9, 0.0], [0.0, 1.0, 0.0]),
    ([0.0, 1.0, 0.0], [0.4, 0.2, 0.4]),
)


def _examples() -> Iterator[tuple[Conditional, Conditional, int]]:
    for k in (1, 2, 3):
        for seed, zeros in ((0, False), (1, True)):
            yield table(3, seed, zeros=zeros), table(3, seed + 100, zeros=zeros), k
    for p, q in _EXTREMES:
        yield fixed_row(p), fixed_row(q), 2


def check_laws() -> Iterator[LawCheck]:
    """Compare the output law of every rule with the target's on eleven pairs of distributions."""
    for name in acceptance.RULES:
        worst, count = 0.0, 0
        for p, q, k in _examples():
            law, _ = output_law(acceptance.RULES[name], p, q, k)
            worst, count = max(worst, distance(law, joint(p, k + 1))), count + 1
        yield LawCheck(rule=name, laws=count, worst=worst, limit=EXACT)
    worst, count = 0.0, 0
    for p, q, k in _examples():
        for pairing in PAIRINGS.values():
            law, _ = match_law(p, q, k, pairing)
            worst, count = max(worst, distance(law, joint(p, k + 1))), count + 1
    yield LawCheck(rule="match (coupled, greedy, lookup)", laws=count, worst=worst, limit=EXACT)
