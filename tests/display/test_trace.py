"""A trace holds the run: played back, it says and shows the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specgen.cli.main import main
from specgen.decoding.events import Finished, Notice, Round
from specgen.display.renderer import Run
from specgen.display.trace import TraceError, open_trace, read_trace, recorded
from specgen.errors import UsageError
from tests.consoles import console
from tests.display.terminals import MIXED, Terminal, wrapped
from tests.display.test_panel import rounds

RUN = Run("toy", 7, "f00d", max_tokens=90, decoding="greedy", models="a with b", drafts=True)
NASTY = "\x1b]0;t\x07 \u202e \ud83d \u2028 [bold]"


def record(path, events, step=0.1):
    """Write a trace; every event takes a while."""
    times = iter(step * tick for tick in range(10_000))
    with open_trace(str(path)) as file:
        return list(recorded(events, file, RUN, lambda: next(times)))


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "run.jsonl"
    events = [
        *rounds(NASTY + " one two three four"),
    ]
    events.insert(2, Notice(NASTY))
    events[-1] = Finished("interrupted", {"target": 3})
    assert record(path, events) == events
    with path.open(encoding="utf-8") as file:
        run, played = read_trace("run.jsonl", file)
        assert run == replace(RUN, highlight=False)
        timed = list(played)
    assert [event for _, event in timed] == events
    assert [at for at, _ in timed] == pytest.approx([0.1 * (place + 1) for place in range(len(events))])


def test_one_line_a_round_and_nothing_that_acts(tmp_path):
    path = tmp_path / "run.jsonl"
    record(path, rounds(NASTY * 3))
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")[:-1]
    kinds = [json.loads(line).get("event", "header") for line in lines]
    assert kinds == ["header", "prompted", *["round"] * (len(kinds) - 3), "finished"]
    assert not any(control in text for control in "\x1b\x07\u202e\u2028")
    header = json.loads(lines[0])
    assert set(header["versions"]) == {"specgen", "python", "torch", "transformers"}
    assert (header["trace"], header["profile"], header["seed"]) == (1, "toy", 7)


def test_a_line_is_there_before_the_round_is_shown(tmp_path):
    path = tmp_path / "run.jsonl"
    with open_trace(str(path)) as file:
        events = recorded(rounds("one two"), file, RUN, lambda: 0.0)
        next(events)
        next(events)
        assert len(path.read_text(encoding="utf-8").splitlines()) == 3


def cut(path, tmp_path, lines, torn=""):
    short = tmp_path / "short.jsonl"
    short.write_text(
        "".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:lines]) + torn, encoding="utf-8"
    )
    return short


@pytest.mark.parametrize("torn", ["", '{"at": 0.3, "event": "rou'])
def test_a_trace_that_was_cut_off(tmp_path, torn):
    path = tmp_path / "run.jsonl"
    record(path, rounds(MIXED))
    with cut(path, tmp_path, 5, torn).open(encoding="utf-8") as file:
        events = [event for _, event in read_trace("short", file)[1]]
    assert len(events) == 5
    assert events[-1] == Finished("interrupted", {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 is not JSON"),
        ("hello\n", "line 1 is not JSON"),
        ("[1]\n", "line 1 is not an object"),
        ('{"a": 1}\n', "is not a trace"),
        ('{"trace": 99}\n', "has format 99"),
        ('{"trace": 1}\n{"event": "round"}\n', "line 2 is not a line of a trace"),
        ('{"trace": 1}\n{"at": 1, "event": "dance"}\n', "line 2 is not a line of a trace"),
        ('{"trace": 1}\nnope\n', "line 2 is not JSON"),
    ],
)
def test_no_trace(text, message):
    with pytest.raises(TraceError, match=message):
        list(read_trace("file", iter(text.splitlines(keepends=True)))[1])


def test_a_path_that_cannot_be(tmp_path):
    with pytest.raises(UsageError, match="cannot write the trace"), open_trace(str(tmp_path / "no" / "run.jsonl")):
        pass
    terminal = console()
    assert main(["replay", str(tmp_path / "none")], terminal) == 2
    assert "cannot read" in terminal.err


# specgen replay


def replay(terminal, path, *options):
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        terminal.now += seconds

    terminal.sleep = sleep
    terminal.clock = lambda: terminal.now
    assert main(["replay", *options, str(path)], terminal) == 0
    return sum(waited)


def test_replay_in_the_panel_takes_the_time_it_took(tmp_path):
    path = tmp_path / "run.jsonl"
    events = record(path, rounds(MIXED))
    terminal = Terminal()
    assert replay(terminal, path) == pytest.approx(0.1 * len(events))
    rows = wrapped(MIXED, 80)
    assert terminal.rows[: len(rows)] == rows
    assert "✗" in terminal.written
    assert replay(Terminal(), path, "--speed", "4") == pytest.approx(0.1 * len(events) / 4)


def test_replay_into_a_pipe(tmp_path):
    path = tmp_path / "run.jsonl"
    events = record(path, rounds(NASTY.replace("\ud83d", "")))
    terminal = console()
    terminal.now = 0.0
    replay(terminal, path)
    assert terminal.out == NASTY.replace("\ud83d", "") + "\n"
    assert terminal.err.endswith("seed 7\n")
    terminal = console()
    terminal.now = 0.0
    assert replay(terminal, path, "--json") == 0
    tokens = sum(len(event.round.tokens) for event in events if hasattr(event, "round"))
    assert json.loads(terminal.out)["tokens"] == tokens


def test_the_report(tmp_path):
    path = tmp_path / "run.jsonl"
    drafts = (10, 11, 12)

    def one(index, proposed, accepted, draft, verify, seconds):
        return Round(index, proposed, accepted, tuple(range(accepted + 1)), draft, verify, seconds)

    from specgen.decoding.events import Prompted
    from specgen.text import Piece, Spoken

    played = [
        one(0, (), 0, 0.0, 0.1, 0.1),
        one(1, drafts, 3, 0.05, 0.1, 0.16),
        one(2, drafts, 1, 0.05, 0.1, 0.16),
        one(3, drafts, 0, 0.05, 0.1, 0.16),
    ]
    story = [
        Prompted(5, 2, 0.5),
        *(
            Spoken(r, tuple(Piece("x", t, t < r.accepted) for t in r.tokens), ("y",) * (len(r.proposed) - r.accepted))
            for r in played
        ),
        Finished("stop", {"target": 20, "draft": 15}),
    ]
    record(path, story)
    terminal = console()
    terminal.now = 0.0
    replay(terminal, path, "--stats")
    lines = [" ".join(line.replace("█", "").split()) for line in terminal.err.splitlines()]
    for expected in (
        "this run 13.8 tok/s, after the prompt",
        "target alone 10.0 tok/s, median in this run",
        "speedup 1.38 x",
        "1 ▋ 67% of 3",
        "2 50% of 2",
        "3 100% of 1",
        "alpha 0.67 (accepted / tested), break-even 0.39",
        "acceptance rate 44% (accepted / proposed), break-even 20%",
        "0 1",
        "1 1",
        "2 0",
        "3 1",
        "2.33 tokens a round, the target's own included",
        "time: 1.08 s",
        "draft ▉ 14% 0.15 s",
        "target 20 2.50 a token of text",
        "draft 15 1.88 a token of text",
        "the prompt has 5 tokens, 2 from the cache, the text 8",
    ):
        assert expected in lines, (expected, lines)
    ascii_only = console(encoding="ascii")
    ascii_only.now = 0.0
    replay(ascii_only, path, "--stats")
    assert ascii_only.err.isascii()
    assert "###" in ascii_only.err
