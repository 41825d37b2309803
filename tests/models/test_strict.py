"""Strict mode: passes of one shape, whose bits do not depend on where in a pass a token stands."""

from __future__ import annotations

import pytest
import torch

from specgen.decoding.events import Round
from specgen.decoding.lookahead import fixed
from specgen.decoding.proposers import DraftModel
from specgen.decoding.rounds import Task, rounds
from specgen.models import cache
from specgen.models.attention import NAME
from specgen.models.cached import CachedModel
from specgen.models.strict import COLUMNS, is_row_invariant
from specgen.profile import Sampling
from tests.families import ROLL_BACK, VOCAB, build

cache.register()


def cached(family: str, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> CachedModel:
    return CachedModel(build(ROLL_BACK[family](), NAME, seed=seed).to(dtype), family, context=256)


def shapes_seen(model: CachedModel, monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, ...]]:
    seen: set[tuple[int, ...]] = set()
    forward = model.model.forward

    def watched(**kwargs):
        seen.add((*kwargs["input_ids"].shape, model._cache.get_mask_sizes(1, 0)[0], kwargs["logits_to_keep"]))
        return forward(**kwargs)

    monkeypatch.setattr(model.model, "forward", watched)
    return seen


@pytest.mark.parametrize("k", [0, 1, 4, 8])
def test_every_pass_of_a_strict_run_has_one_shape(monkeypatch, k):
    target, draft = cached("qwen2"), cached("qwen2", seed=3)
    task = Task([5, 9, 14] * 6, 40)
    target.open(1, 18 + 40 + COLUMNS, columns=COLUMNS)
    seen = shapes_seen(target, monkeypatch)
    list(rounds(target, task, proposer=DraftModel(draft, common=VOCAB), lookahead=fixed(k), columns=COLUMNS))
    decoding = {shape for shape in seen if shape[1] == COLUMNS}
    assert decoding == {(1, COLUMNS, 18 + 40 + COLUMNS, 0)}
    assert len(seen - decoding) == 1  # the prefill


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3", "gpt2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_strict_text_is_the_same_for_every_lookahead_where_kernels_are_row_invariant(family, dtype):
    target, draft = cached(family, dtype=dtype), cached(family, seed=5, dtype=dtype)
    if not is_row_invariant(target):
        pytest.skip("this machine's kernels are not row-invariant for this model")
    for sampling in (Sampling(), Sampling(temperature=0.8)):
        task = Task([5, 9, 14], 60, sampling=sampling, seed=2)
        texts = set()
        for k in (0, 2, 4, 8):
            events = rounds(
                target,
                task,
                proposer=DraftModel(draft, common=VOCAB),
                lookahead=fixed(k, baseline=False),
                columns=COLUMNS,
            )
            texts.add(tuple(token for event in events if isinstance(event, Round) for token in event.tokens))
        assert len(texts) == 1


def test_the_self_test_sees_a_kernel_that_rounds_by_column(monkeypatch):
    model = cached("llama", dtype=torch.bfloat16)
    forward = model.model.forward

    def skewed(**kwargs):
        out = forward(**kwargs)
        out.logits[:, 1:] += out.logits[:, 1:] * 2**-7  # one bit of bfloat16, in every column but the first
        return out

    monkeypatch.setattr(model.model, "forward", skewed)
    assert not is_row_invariant(model)
