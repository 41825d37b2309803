"""One object, valid whatever the text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from specgen import __version__
from specgen.decoding.events import Notice
from specgen.display.escape import printable
from specgen.display.json_lines import JsonRenderer, dump
from specgen.display.renderer import Run
from tests.consoles import console
from tests.display.events import show, story


def rendered(*parts, reason="stop"):
    terminal = console(terminals="out err")
    show(JsonRenderer(terminal, Run("toy", 7, "f00d")), story(*parts, reason=reason))
    return terminal


def test_the_record():
    terminal = rendered(("a",), ("b", "c", "d"))
    assert terminal.out.count("\n") == 1
    assert json.loads(terminal.out) == {
        "id": None,
        "text": "abcd",
        "finish_reason": "stop",
        "error": None,
        "prompt_tokens": 5,
        "tokens": 4,
        "rounds": 2,
        "proposed": 2,
        "accepted": 2,
        "acceptance_rate": 1.0,
        "alpha": 1.0,
        "mean_accepted_length": 3.0,
        "seconds": {"prefill": 0.25, "decode": 0.08},
        "tokens_per_second": 50.0,
        "speedup": 2.0,
        "baseline_tokens_per_second": 25.0,
        "acceptance": None,
        "strict": False,
        "profile": "toy",
        "seed": 7,
        "fingerprint": "f00d",
        "specgen": __version__,
    }
    assert terminal.err == ""


def test_what_was_not_measured_is_null():
    record = json.loads(rendered(("a",)).out)
    assert record["speedup"] is None
    assert record["alpha"] is None
    assert record["mean_accepted_length"] is None


def test_notices_go_to_standard_error():
    assert rendered(("a",), Notice("the draft's context is full")).err == "specgen: the draft's context is full\n"


def test_the_text_stays_readable():
    assert '"text": "日本 é"' in rendered(("日本 é",)).out


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_comes_back(text):
    line = dump({"text": text})
    assert json.loads(line) == {"text": text}
    assert len(line.splitlines()) == 1
    line.encode()
    assert printable(line) == line  # a terminal only prints it


def test_a_run_that_fails_leaves_no_object():
    terminal = console()
    events = list(story(("a",)))[:-1]
    show(JsonRenderer(terminal, Run("toy", 7, "f00d")), events)
    assert terminal.out == ""
