"""The one line that a run leaves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from specgen.display.summary import summary

MEASURED = {
    "tokens": 119,
    "seconds": 2.86,
    "tokens_per_second": 41.6,
    "speedup": 1.9,
    "accepted": 86,
    "proposed": 165,
    "mean_accepted_length": 3.61,
    "drafting_off": "",
}


def line(*, reason="stop", encoding="utf-8", **changed):
    return summary(SimpleNamespace(**{**MEASURED, **changed}), seed=1234, reason=reason, encoding=encoding)


def test_everything_measured():
    assert line() == (
        "119 tokens in 2.9 s · 41.6 tok/s · 1.9x target alone · "
        "accepted 86 of 165 drafts · 3.6 tokens/round · seed 1234"
    )


def test_what_was_not_measured():
    assert "41.6 tok/s · speedup not measured · accepted" in line(speedup=None)
    assert line(tokens_per_second=None).startswith("119 tokens in 2.9 s · – tok/s · ")  # noqa: RUF001


def test_without_a_draft():
    assert line(proposed=0, accepted=0, speedup=None, mean_accepted_length=None) == (
        "119 tokens in 2.9 s · 41.6 tok/s · target alone · seed 1234"
    )


def test_one_token():
    assert line(tokens=1).startswith("1 token in ")


def test_why_it_ended_where_that_matters():
    assert line(reason="interrupted").startswith("interrupted · 119 tokens")
    assert line(reason="context").startswith("context full · 119 tokens")
    assert line(reason="length") == line(reason="stop")


@pytest.mark.parametrize("encoding", ["ascii", "cp437", "euc_jp"])
def test_plain_signs_where_the_others_cannot_be_shown(encoding):
    shown = line(tokens_per_second=None, encoding=encoding)
    assert shown.isascii()
    assert "2.9 s | - tok/s | 1.9x target alone | accepted" in shown


def test_a_stream_without_an_encoding():
    assert "·" in line(encoding=None)
