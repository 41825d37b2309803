"""``verify`` on tiny real models: what it runs, what it finds, and that planted faults do not get past it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specgen.api import load
from specgen.decoding import sampler
from specgen.errors import UsageError
from specgen.models.cache import SlotCache
from specgen.models.cached import CachedModel
from specgen.verify import run
from specgen.verify.report import CaseResult, LawCheck, Report
from specgen.verify.run import Request, Step, cases, verify
from tests.verify.pairs import write_pair

SHORT = Request(prompts=("the quick brown fox", "def add(a, b):", "the cat sat"), max_tokens=12)
STRICT = replace(SHORT, strict=True, rows=(1,), lookaheads=(2, 8))


@pytest.fixture(autouse=True)
def no_laws(monkeypatch):
    """The laws take seconds and have their own tests."""
    monkeypatch.setattr(run, "check_laws", lambda: iter([LawCheck("token", 1, 0.0, 1e-12)]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pair")


@pytest.fixture(scope="module")
def profile(folder):
    return str(write_pair(folder))


@pytest.fixture
def pair(profile):
    return load(profile)


@pytest.fixture
def rounded(profile):
    """The same pair in bfloat16."""
    return load(profile, overrides=["target.dtype=bfloat16", "draft.dtype=bfloat16"])


def report(pair, request=SHORT) -> Report:
    *_, last = verify(pair, request)
    assert isinstance(last, Report)
    return last


def test_the_cases_meet_every_lookahead_every_row_count_and_every_source():
    for drafted in (True, False):
        found = cases(Request(), 0.8, drafted=drafted)
        assert {case.lookahead for case in found} == {0, 1, 2, 4, 8}
        assert {case.rows for case in found} == {1, 2, 4}
        assert {case.source for case in found} == {"self", "random", "none", "draft" if drafted else "lookup"}
    every = cases(Request(thorough=True), 0.0, drafted=True)
    assert len(every) == len(set(every)) == 3 * 4 * 3 + 2
    assert cases(Request(rows=(1,), lookaheads=(3,)), 0.0, drafted=False)[0].source == "lookup"


def test_a_sound_pair_in_float32_is_equal_everywhere(pair):
    found = report(pair)
    assert found.ok
    assert found.ties == 0
    assert all(result.equal == result.texts == 3 for result in found.cases)
    for result in found.cases:
        if result.case.source == "self":
            assert result.accepted == result.tested == result.proposed > 0
        if result.case.source == "random":
            assert result.accepted < result.tested / 10


def test_it_says_what_it_does_before_it_does_it(pair):
    events = list(verify(pair, SHORT))
    steps = [event.message for event in events if isinstance(event, Step)]
    assert len(steps) == 1 + 2 + sum(isinstance(event, CaseResult) for event in events)
    assert "draft, k 8, temperature 0.8, 2 rows" in steps or "draft, k 8, temperature 0.8, 1 row" in steps


def test_without_a_draft_tokens_are_looked_up(profile):
    found = report(load(profile, overrides=["draft=null"]))
    assert found.ok
    assert {result.case.source for result in found.cases} == {"lookup", "self", "random", "none"}


def test_a_second_cache_is_no_second_copy_of_the_weights(pair):
    from specgen.verify.path import Decoder
    from specgen.verify.run import _Comparison

    decoder = _Comparison(pair, SHORT, exact=False)._decoder
    assert isinstance(decoder, Decoder)
    assert decoder._proposers["self"].model.model is pair.target.model


# Planted faults.


def test_a_cache_that_keeps_a_refused_token_is_a_fault(pair, monkeypatch):
    """The slot of a refused draft is not written again when the target's own token comes to stand there."""
    update = SlotCache.update

    def stale(self, keys, values, layer, *args, **kwargs):
        if layer in self._keys and keys.shape[2] > 1:
            row, slot = self._index(keys.device)
            kept = self._keys[layer][row[:, 0], :, slot[:, 0]].clone()
            out = update(self, keys, values, layer, *args, **kwargs)
            self._keys[layer][row[:, 0], :, slot[:, 0]] = kept
            return out
        return update(self, keys, values, layer, *args, **kwargs)

    monkeypatch.setattr(SlotCache, "update", stale)
    found = report(pair)
    assert not found.ok
    assert any(result.faults for result in found.cases if result.case.source == "random")


def test_an_unverified_draft_token_is_a_fault_where_it_stands(pair, monkeypatch):
    def wrong(proposed, own):
        accepted = (proposed == own[:, :-1]).long().cumprod(-1).sum(-1)
        more = (accepted + 1).clamp_max(proposed.shape[1])
        return more, own.gather(1, more[:, None])[:, 0]

    monkeypatch.setattr(sampler, "match", wrong)
    found = report(pair)
    assert not found.ok
    assert all(law.ok for law in found.laws)
    (result,) = (r for r in found.cases if r.case.source == "random" and r.case.temperature == 0)
    first = next(d for d in result.divergences if d.kind == "fault")
    assert (first.prompt, first.position, first.what) == (1, 0, "emitted")
    assert first.gap > first.margin


def nudge(monkeypatch, model: CachedModel, size: float) -> None:
    """Move every logit of a pass of several columns by up to ``size``."""
    forward = model.model.forward

    def nudged(**kwargs):
        out = forward(**kwargs)
        if kwargs["input_ids"].shape[1] > 1:
            generator = torch.Generator().manual_seed(1)
            noise = torch.rand(out.logits.shape, generator=generator, dtype=torch.float32) * 2 - 1
            out.logits = out.logits + (size * noise).to(out.logits.dtype)
        return out

    monkeypatch.setattr(model.model, "forward", nudged)


def test_what_rounding_explains_is_a_tie_and_no_fault(rounded, monkeypatch):
    nudge(monkeypatch, rounded.target, 0.02)  # logits of 2 to 4 have units of 1/64
    found = report(rounded)
    assert found.ok
    assert found.ties > 0
    for result in found.cases:
        assert result.equal == result.texts or any(one.what == "emitted" for one in result.divergences)
        for one in result.divergences:
            assert one.kind == "tie"
            assert 0 <= one.gap <= one.margin < 0.5
            assert one.token != one.reference


def test_what_rounding_does_not_explain_is_a_fault(rounded, monkeypatch):
    nudge(monkeypatch, rounded.target, 2.0)
    assert not report(rounded).ok


def test_in_float32_a_hundredth_is_a_fault(pair, monkeypatch):
    nudge(monkeypatch, pair.target, 0.3)
    found = report(pair)
    assert not found.ok
    assert all(one.margin == 1e-3 for result in found.cases for one in result.divergences)


def test_strict_means_no_divergence_where_kernels_treat_rows_alike(rounded):
    found = report(rounded, STRICT)
    assert found.strict
    if not found.row_invariant:
        pytest.skip("this machine's kernels are not row-invariant for this model")
    assert all(not result.divergences and result.equal == result.texts for result in found.cases)


def test_strict_excuses_nothing_on_kernels_that_passed_the_self_test(rounded, monkeypatch):
    monkeypatch.setattr(run, "is_row_invariant", lambda _: True)
    forward = rounded.target.model.forward

    def skewed(**kwargs):
        out = forward(**kwargs)
        out.logits[:, 1:] += 0.02 * torch.rand(out.logits[:, 1:].shape, generator=torch.Generator().manual_seed(1)).to(
            out.logits
        )
        return out

    monkeypatch.setattr(rounded.target.model, "forward", skewed)
    found = report(rounded, STRICT)
    assert not found.ok


def test_kernels_that_round_by_column_are_reported_in_a_strict_run(rounded, monkeypatch):
    forward = rounded.target.model.forward

    def skewed(**kwargs):
        out = forward(**kwargs)
        out.logits[:, 1:] += out.logits[:, 1:] * 2**-7
        return out

    monkeypatch.setattr(rounded.target.model, "forward", skewed)
    found = report(rounded, STRICT)
    assert found.row_invariant is False


def test_strict_has_room_for_so_many_columns():
    with pytest.raises(UsageError, match="lookahead of 11, not 12"):
        Request(strict=True, lookaheads=(1, 12))


def test_a_lookahead_of_0_is_the_reference_and_no_case():
    assert cases(Request(lookaheads=(0, 2), rows=(1,)), 0.0, drafted=True) == cases(
        Request(lookaheads=(2,), rows=(1,)), 0.0, drafted=True
    )
    assert cases(Request(lookaheads=(0,), rows=(1,)), 0.0, drafted=True) == []
