"""The whole loop, with every random decision enumerated: its joint law is the target's, in float64."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from specgen.decoding import acceptance, sampler
from specgen.decoding.acceptance import RULES, Kept
from specgen.decoding.events import Round
from specgen.decoding.lookahead import Evidence, FixedLookahead
from specgen.decoding.proposers import DraftModel
from specgen.decoding.rounds import Task, rounds
from specgen.decoding.rows import Rows
from specgen.decoding.sampling import Warper
from specgen.profile import Sampling
from specgen.verify.distribution import thresholds
from tests.toys import TableModel

VOCAB, LENGTH = 3, 3


class Tree:
    """Walks every path through a program's random decisions, depth first; the product of chances is a path's weight."""

    def __init__(self) -> None:
        self._path: list[tuple[int, int]] = []  # the branch taken and how many there are
        self._depth = 0
        self.weight = 1.0
        self.done = False

    def choose(self, chances: Sequence[float]) -> int:
        """Take the next unexplored branch of those with a chance."""
        branches = [i for i, chance in enumerate(chances) if chance > 0]
        if self._depth == len(self._path):
            self._path.append((0, len(branches)))
        branch = branches[self._path[self._depth][0]]
        self._depth += 1
        self.weight *= chances[branch]
        return branch

    def next_path(self) -> None:
        """Go on to the next path, or be done."""
        while self._path and self._path[-1][0] + 1 == self._path[-1][1]:
            self._path.pop()
        if not self._path:
            self.done = True
            return
        branch, count = self._path[-1]
        self._path[-1] = (branch + 1, count)
        self._depth, self.weight = 0, 1.0


@pytest.fixture
def tree(monkeypatch):
    """Replace draws and coins by the branches of a tree; everything between them is the production code."""
    tree = Tree()

    def pick(weights: Tensor, gumbel: Tensor) -> Tensor:
        shares = weights[0] / weights[0].sum()
        return torch.tensor([tree.choose(shares.tolist())])

    def scripted(rule: acceptance.Rule) -> acceptance.Rule:
        known: dict[bytes, list[list[float]]] = {}  # the tree comes back to the same proposals many times

        def edges_of(tokens: Tensor, draft: Tensor, target: Tensor) -> list[list[float]]:
            key = b"".join(part.numpy().tobytes() for part in (tokens, draft, target))
            if key not in known:
                known[key] = [
                    [
                        0.0,
                        *sorted(float(thresholds(rule, tokens, draft, target, coin, o)) for o in (1e-300, 1 - 1e-16)),
                        1.0,
                    ]
                    for coin in range(tokens.shape[1])
                ]
            return known[key]

        def judged(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Tensor) -> Kept:
            for coin, edges in enumerate(edges_of(tokens, draft, target)):
                cell = tree.choose([high - low for low, high in itertools.pairwise(edges)])
                uniforms[0, coin] = (edges[cell] + edges[cell + 1]) / 2
            return rule(tokens, draft, target, uniforms)

        return judged

    def own(self: sampler.Sampler, scores: Tensor, state: Rows, *, offset: int = 0) -> Tensor:
        return torch.stack([pick(scores[:, i].softmax(-1), scores) for i in range(scores.shape[1])], dim=1)

    monkeypatch.setattr(sampler, "pick", pick)
    monkeypatch.setattr(sampler.Sampler, "own", own)
    for name, rule in list(RULES.items()):
        monkeypatch.setitem(RULES, name, scripted(rule))
    return tree


class Alternating(FixedLookahead):
    """Plain rounds and others, their lengths a function of what was accepted and of the draft's confidence so far."""

    def __init__(self, k: int) -> None:
        super().__init__(k, first=0, every=0)
        self._next = k

    def choose(self, rows: int = 1) -> int:
        return self._next

    def go_on(self, drafted: Evidence) -> bool:
        return not drafted[0] or sum(drafted[0]) % 3 != 0

    def observe(self, played: Sequence[Round]) -> None:
        self._next = (played[0].accepted + self._next + 1) % (self.most + 1)


SAMPLINGS = [
    Sampling(temperature=1.0),
    Sampling(temperature=0.7, top_k=2),
    Sampling(temperature=1.5, top_p=0.8, repetition_penalty=1.3),
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["plain", "top-k", "top-p and penalty"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("schedule", [FixedLookahead, Alternating])
def test_the_law_of_the_loop_is_the_targets(tree, rule, sampling, schedule):
    target = TableModel(VOCAB, 1, spread=1.0)
    draft = TableModel(VOCAB, 2, spread=1.0)
    law: dict[tuple[int, ...], float] = defaultdict(float)
    while not tree.done:
        lookahead = Alternating(2) if schedule is Alternating else FixedLookahead(2, first=0, every=0)
        stream = rounds(
            target,
            Task([1], LENGTH, sampling=sampling),
            rule=rule,
            proposer=DraftModel(draft, common=VOCAB),
            lookahead=lookahead,
        )
        text = tuple(token for event in stream if isinstance(event, Round) for token in event.tokens)
        law[text] += tree.weight
        tree.next_path()
    expected = _joint(target, sampling)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert max(abs(law[text] - expected.get(text, 0)) for text in {*law, *expected}) < 1e-12


def _joint(model: TableModel, sampling: Sampling) -> dict[tuple[int, ...], float]:
    """The target's law of a text, from its table and the definition of the warpers."""
    warper = Warper([sampling], torch.device("cpu"))
    law: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(LENGTH):
        longer = {}
        for text, chance in law.items():
            sequence = [1, *text]
            seen = torch.zeros(1, 1, VOCAB, dtype=torch.bool)
            seen[0, 0, sequence] = True
            share = warper(model.row(sequence)[None, None], seen)[0, 0].softmax(-1)
            longer.update({(*text, v): chance * float(share[v]) for v in range(VOCAB) if share[v] > 0})
        law = longer
    assert math.isclose(sum(law.values()), 1)
    return law
