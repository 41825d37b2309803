"""The laws that ``specgen verify`` enumerates, and the mistakes it must name."""

from __future__ import annotations

import pytest
import torch

from specgen.decoding import acceptance
from specgen.decoding.acceptance import Kept
from specgen.verify.distribution import EXACT, check_laws


def test_every_rule_is_enumerated_and_exact():
    checks = list(check_laws())
    assert {check.rule for check in checks} == {"token", "block", "match (coupled, greedy, lookup)"}
    assert all(check.ok and check.laws >= 11 for check in checks)
    assert all(check.worst <= EXACT for check in checks)


@pytest.mark.parametrize("name", ["token", "block"])
def test_a_rule_without_its_residual_is_named(monkeypatch, name):
    right = acceptance.RULES[name]

    def wrong(tokens, draft, target, uniforms):
        kept = right(tokens, draft, target, uniforms)
        at = kept.accepted[:, None, None].expand(-1, 1, target.shape[-1])
        return Kept(kept.accepted, target.gather(1, at)[:, 0])

    monkeypatch.setitem(acceptance.RULES, name, wrong)
    assert [check.rule for check in check_laws() if not check.ok] == [name]


def test_a_match_that_emits_an_unverified_draft_is_named(monkeypatch):
    def wrong(proposed, own):
        accepted = (proposed == own[:, :-1]).long().cumprod(-1).sum(-1)
        more = (accepted + 1).clamp_max(proposed.shape[1])
        return more, own.gather(1, more[:, None])[:, 0]

    monkeypatch.setattr(acceptance, "match", wrong)
    (check,) = [check for check in check_laws() if not check.ok]
    assert check.rule.startswith("match")
    assert check.worst > 0.01


def test_a_match_that_takes_the_bonus_from_the_wrong_place_is_named(monkeypatch):
    def wrong(proposed, own):
        accepted, token = (proposed == own[:, :-1]).long().cumprod(-1).sum(-1), own[:, -1]
        return accepted, torch.where(accepted < proposed.shape[1], token, own[:, 0])

    monkeypatch.setattr(acceptance, "match", wrong)
    assert not all(check.ok for check in check_laws())
