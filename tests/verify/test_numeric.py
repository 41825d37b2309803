"""What counts as a tie, and that a text is judged by what the target alone would say."""

from __future__ import annotations

import math

import pytest
import torch

from specgen.decoding.engine import Task
from specgen.decoding.events import Round
from specgen.decoding.lookahead import fixed
from specgen.decoding.rounds import rounds
from specgen.profile import Sampling
from specgen.verify.numeric import explain, margin, opinions
from tests.toys import TableModel

VOCAB = 7


def test_the_margin_follows_the_arithmetic_and_the_size_of_the_logits():
    unit = {8: 2**-4, 16: 2**-3, 31.9: 2**-3, 32: 2**-2, -40: 2**-2}  # of bfloat16
    for size, ulp in unit.items():
        assert margin(torch.bfloat16, abs(size)) == 4 * ulp
        assert margin(torch.float16, abs(size)) == 4 * ulp / 8
    assert margin(torch.float32, 30.0) == margin(torch.float64, 1e6) == 1e-3
    assert "0.5 for logits from 16 to 32" in explain(torch.bfloat16)


def alone(target: TableModel, task: Task) -> list[int]:
    return [
        token
        for e in rounds(target, task, proposer=None, lookahead=fixed(0))
        if isinstance(e, Round)
        for token in e.tokens
    ]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_targets_own_text_has_no_divergence(temperature):
    target = TableModel(VOCAB, 3)
    task = Task([1, 2, 3], 30, sampling=Sampling(temperature=temperature), seed=5)
    text = alone(target, task)
    assert list(opinions(target, task, text, refused={}, slots=60, columns=None)) == []


def test_every_foreign_token_is_found_with_its_gap():
    target, task = TableModel(VOCAB, 3), Task([1, 2, 3], 12)
    text = alone(target, task)
    forced = list(text)
    for position in (2, 7):
        forced[position] = (forced[position] + 1) % VOCAB
    found = {one.position: one for one in opinions(target, task, forced, refused={}, slots=60, columns=None)}
    for position, token in enumerate(forced):
        row = target.row([1, 2, 3, *forced[:position]])
        if int(row.argmax()) == token:
            assert position not in found
            continue
        one = found[position]
        best = row.topk(2).values
        assert (one.token, one.choice) == (token, int(row.argmax()))
        assert one.gap == pytest.approx(float(best[0] - row[token]), abs=1e-12)
        assert one.top_two == pytest.approx(float(best[0] - best[1]), abs=1e-12)
    assert {2, 7} <= set(found)


def test_the_gap_of_a_sampled_token_is_in_logits_with_its_noise():
    target, task = TableModel(VOCAB, 3), Task([1, 2, 3], 1, sampling=Sampling(temperature=0.5), seed=9)
    (chosen,) = alone(target, task)
    other = (chosen + 1) % VOCAB
    (one,) = opinions(target, task, [other], refused={}, slots=60, columns=None)
    from specgen.decoding.noise import Noise

    noise = Noise(VOCAB, torch.device("cpu")).gumbel(9, "token", 3, dtype=torch.float64)
    scores = target.row([1, 2, 3]) + 0.5 * noise
    assert one.choice == chosen
    assert one.gap == pytest.approx(float(scores[chosen] - scores[other]), abs=1e-9)
    assert math.isfinite(one.margin)


def test_a_refused_draft_token_is_asked_about_too():
    target, task = TableModel(VOCAB, 3), Task([1, 2, 3], 10)
    text = alone(target, task)
    (one,) = opinions(target, task, text, refused={4: (text[4] + 2) % VOCAB, 11: 0}, slots=60, columns=None)
    assert (one.position, one.token, one.choice) == (4, (text[4] + 2) % VOCAB, text[4])
