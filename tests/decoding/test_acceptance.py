"""Every acceptance rule's output law, enumerated: all draft tokens, all outcomes of all coins, in float64."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from specgen.decoding.acceptance import RULES, Kept, block_rule, match, token_rule
from specgen.decoding.sampling import pick
from specgen.verify.distribution import (
    EXACT,
    PAIRINGS,
    Conditional,
    Law,
    distance,
    fixed_row,
    joint,
    match_law,
    output_law,
    spread,
    table,
    thresholds,
)

RANDOM = [
    pytest.param(3, k, seed, zeros, id=f"k{k}-seed{seed}{'-zeros' * zeros}")
    for k in (1, 2, 3)
    for seed in range(4)
    for zeros in (False, True)
] + [pytest.param(3, 4, 0, False, id="k4"), pytest.param(4, 2, 1, True, id="vocab4-zeros")]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("vocab", "k", "seed", "zeros"), RANDOM)
def test_the_output_law_is_the_targets(name, vocab, k, seed, zeros):
    p, q = table(vocab, seed, zeros=zeros), table(vocab, seed + 100, zeros=zeros)
    law, _ = output_law(RULES[name], p, q, k)
    assert distance(law, joint(p, k + 1)) < EXACT


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize(("vocab", "k", "seed", "zeros"), [case for case in RANDOM if case.values[1] < 4])
def test_the_law_of_an_exact_match_is_the_targets_however_the_draft_is_drawn(pairing, vocab, k, seed, zeros):
    p, q = table(vocab, seed, zeros=zeros), table(vocab, seed + 100, zeros=zeros)
    law, _ = match_law(p, q, k, PAIRINGS[pairing])
    assert distance(law, joint(p, k + 1)) < EXACT


def test_drawing_together_is_accepted_as_often_as_two_distributions_overlap():
    p, q = fixed_row([0.2, 0.3, 0.5]), fixed_row([0.4, 0.4, 0.2])
    assert match_law(p, q, 1, PAIRINGS["maximal"])[1] == pytest.approx(0.7, abs=EXACT)
    assert match_law(p, q, 1, PAIRINGS["independent"])[1] == pytest.approx(0.3, abs=EXACT)
    assert match_law(p, q, 1, PAIRINGS["certain"])[1] == pytest.approx(0.2, abs=EXACT)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.5, 0.5, 0.0], [0.0, 0.0, 1.0]),  # disjoint supports
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),  # p = q
        ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]),  # both certain, and of different opinion
        ([0.1, 0.9, 0.0], [0.0, 1.0, 0.0]),  # a draft that is certain
        ([0.0, 1.0, 0.0], [0.4, 0.2, 0.4]),  # a target that is certain
    ],
)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_extreme_distributions(name, p, q, k):
    law, expected = output_law(RULES[name], fixed_row(p), fixed_row(q), k)
    assert distance(law, joint(fixed_row(p), k + 1)) < EXACT
    if p == q:
        assert expected == pytest.approx(k, abs=EXACT)


def test_the_published_example_of_block_verification():
    """Sun et al. 2024, section 3: p = (1/3, 2/3), q = (2/3, 1/3), two tokens: 10/9 accepted against 11/9."""
    p, q = fixed_row([1 / 3, 2 / 3]), fixed_row([2 / 3, 1 / 3])
    assert output_law(token_rule, p, q, 2)[1] == pytest.approx(10 / 9, abs=EXACT)
    assert output_law(block_rule, p, q, 2)[1] == pytest.approx(11 / 9, abs=EXACT)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_block_accepts_at_least_as_much_as_token(seed, k):
    p, q = table(3, seed), table(3, seed + 100)
    block, token = output_law(block_rule, p, q, k)[1], output_law(token_rule, p, q, k)[1]
    assert block >= token - EXACT
    if k == 1:
        assert block == pytest.approx(token, abs=EXACT)


def test_a_token_without_mass_is_never_accepted_even_by_the_smallest_coin():
    tokens = torch.tensor([[1]])
    draft, target = torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    for uniform in (0.0, 5e-324):
        uniforms = torch.tensor([[uniform]], dtype=torch.float64)
        for rule in RULES.values():
            assert int(rule(tokens, draft.double(), target.double(), uniforms).accepted) == 0


# Mistakes that have been made, each of which must show.


def _no_residual(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Tensor) -> Kept:
    kept = token_rule(tokens, draft, target, uniforms)
    at = kept.accepted[:, None, None].expand(-1, 1, target.shape[-1])
    return Kept(kept.accepted, target.gather(1, at)[:, 0])


def _residual_of_the_wrong_row(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Tensor) -> Kept:
    kept = token_rule(tokens, draft, target, uniforms)
    first = (target[:, 0] - draft[:, 0]).clamp_min(0)
    return Kept(kept.accepted, torch.where((kept.accepted < tokens.shape[1])[:, None], first, kept.weights))


def _first_failure(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Tensor) -> Kept:
    """The block rule's coins, but stopping at the first that fails."""
    certain = 1e-300
    last = block_rule(tokens, draft, target, uniforms)
    accepted = torch.zeros_like(last.accepted)
    alive = torch.ones_like(accepted, dtype=torch.bool)
    for coin in range(tokens.shape[1]):
        alone = torch.full_like(uniforms, 1 - 1e-16)
        alone[:, coin] = uniforms[:, coin]
        alive &= block_rule(tokens, draft, target, alone).accepted == coin + 1
        accepted += alive
    forced = torch.full_like(uniforms, 1 - 1e-16)
    for row, length in enumerate(accepted.tolist()):
        if length:
            forced[row, length - 1] = certain
    return Kept(accepted, block_rule(tokens, draft, target, forced).weights)


def _token_residual_in_block(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Tensor) -> Kept:
    kept = block_rule(tokens, draft, target, uniforms)
    plain = (target[:, :-1] - draft).clamp_min(0)
    at = kept.accepted.clamp_max(tokens.shape[1] - 1)[:, None, None].expand(-1, 1, target.shape[-1])
    left = plain.gather(1, at)[:, 0]
    return Kept(kept.accepted, torch.where((kept.accepted < tokens.shape[1])[:, None], left, kept.weights))


def _bonus_off_by_one(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Tensor) -> Kept:
    kept = token_rule(tokens, draft, target, uniforms)
    return Kept(kept.accepted, torch.where((kept.accepted == tokens.shape[1])[:, None], target[:, -2], kept.weights))


def _not_strict(tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Tensor) -> Kept:
    """Accepts everything the draft is sure of (typical acceptance): no residual is right for it."""
    sure = draft.gather(-1, tokens[..., None])[..., 0] > 0.3
    return token_rule(tokens, draft, target, torch.where(sure, torch.zeros_like(uniforms), uniforms))


@pytest.mark.parametrize(
    "mutant",
    [
        _no_residual,
        _residual_of_the_wrong_row,
        _first_failure,
        _token_residual_in_block,
        _bonus_off_by_one,
        _not_strict,
    ],
)
def test_a_wrong_rule_is_caught(mutant):
    worst = 0.0
    for seed in range(4):
        p, q = table(3, seed), table(3, seed + 100)
        law, _ = output_law(mutant, p, q, 3)
        assert sum(law.values()) == pytest.approx(1, abs=1e-9)
        worst = max(worst, distance(law, joint(p, 4)))
    assert worst > 0.003


def _sharpened(q: Conditional) -> Conditional:
    return lambda prefix: (row := q(prefix) ** 3) / row.sum()


def _argmax(q: Conditional) -> Conditional:
    return lambda prefix: torch.eye(len(q(prefix)), dtype=torch.float64)[int(q(prefix).argmax())]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("drawn", [_sharpened, _argmax], ids=["raw q for a warped draw", "soft q for a greedy draw"])
def test_telling_a_rule_another_q_than_was_drawn_from_is_caught(name, drawn):
    p, q = table(3, 5), table(3, 105)
    law, _ = output_law(RULES[name], p, q, 2, drawn=drawn(q))
    assert distance(law, joint(p, 3)) > 0.01


@pytest.mark.parametrize("name", RULES)
def test_dropping_a_drawn_token_after_looking_at_it_is_caught(name):
    """A sampled draft token that is drawn and then withdrawn because of what it is biases the text."""
    p, q = table(3, 5), table(3, 105)
    law: Law = defaultdict(float)
    for second in range(3):
        # Keep the second token only if it is 0, else verify the first one alone.
        k = 2 if second == 0 else 1
        for first in range(3):
            tokens = torch.tensor([[first, second][:k]])
            draft = torch.stack([q(()), q((first,))])[None, :k]
            target = torch.stack([p(()), p((first,)), p((first, second))])[None, : k + 1]
            chance = float(q(())[first] * q((first,))[second])
            edges = [
                sorted(
                    {
                        0.0,
                        1.0,
                        *(float(thresholds(RULES[name], tokens, draft, target, c, o)) for o in (1e-300, 1 - 1e-16)),
                    }
                )
                for c in range(k)
            ]
            for cells in itertools.product(*(range(len(e) - 1) for e in edges)):
                ends = [(edges[c][i], edges[c][i + 1]) for c, i in enumerate(cells)]
                uniforms = torch.tensor([[(low + high) / 2 for low, high in ends]], dtype=torch.float64)
                kept = RULES[name](tokens, draft, target, uniforms)
                weight = chance
                for low, high in ends:
                    weight *= high - low
                spread(law, p, (first, second)[: int(kept.accepted)], kept.weights[0], weight, 3)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    assert distance(law, joint(p, 3)) > 0.01


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.data())
def test_match_keeps_the_common_prefix_and_adds_the_targets_token(proposed, data):
    own = data.draw(st.lists(st.integers(0, 3), min_size=len(proposed) + 1, max_size=len(proposed) + 1))
    accepted, token = match(torch.tensor([proposed]), torch.tensor([own]))
    same = list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(proposed, own, strict=False)))
    assert int(accepted) == len(same)
    assert [*proposed[: len(same)], int(token)] == own[: len(same) + 1]


def test_rules_treat_rows_one_by_one():
    torch.manual_seed(0)
    tokens = torch.randint(5, (6, 3))
    draft = torch.rand(6, 3, 5, dtype=torch.float64).softmax(-1)
    target = torch.rand(6, 4, 5, dtype=torch.float64).softmax(-1)
    uniforms = torch.rand(6, 3, dtype=torch.float64)
    for rule in RULES.values():
        whole = rule(tokens, draft, target, uniforms)
        for row in range(6):
            part = slice(row, row + 1)
            alone = rule(tokens[part], draft[part], target[part], uniforms[part])
            assert torch.equal(alone.accepted, whole.accepted[part])
            assert torch.equal(alone.weights, whole.weights[part])


def test_pick_draws_in_proportion():
    generator = torch.Generator().manual_seed(0)
    uniform = torch.rand(200_000, 3, generator=generator, dtype=torch.float64)
    weights = torch.tensor([[0.0, 3.0, 1.0]], dtype=torch.float64)
    counts = pick(weights, -(-uniform.log()).log()).bincount(minlength=3) / len(uniform)
    assert counts[0] == 0
    assert counts[1].item() == pytest.approx(0.75, abs=0.005)
