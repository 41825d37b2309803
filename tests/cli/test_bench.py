"""``specgen bench`` from its arguments to its report, on a pair of tiny models."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec

import pytest

from specgen.bench import arms as bench_arms
from specgen.cli.main import main
from tests.bench.pairs import write_pair
from tests.consoles import console
from tests.display.terminals import Terminal

QUICK = ("-n", "6", "--categories", "chat,maths", "--per-category", "1", "--repeat", "2", "-k", "2")
ARMS = ["target alone", "k 2", "adaptive", "lookup", "combined"]


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"))


def call(profile, *arguments, code=0, **settings):
    terminal = console(**settings)
    assert main(["bench", "-p", profile, *arguments], terminal) == code, terminal.out + terminal.err
    return terminal


def test_the_report(profile):
    terminal = call(profile, *QUICK)
    lines = terminal.out.splitlines()
    assert lines[0].startswith("tiny: target (float32, cpu) with draft (float32, cpu); 2 prompts (built-in) x 6")
    assert "greedy: speedup over the target alone, the prompt's time left out" in lines
    (head,) = [line for line in lines if line.startswith("arm") and "chat" in line]
    assert head.split() == ["arm", "chat", "maths", "all", "tok/s"]
    start = lines.index(head) + 2
    assert [line[:12].strip() for line in lines[start : start + 5]] == ARMS
    assert lines[start].split()[2:5] == ["1.00x", "1.00x", "1.00x"]
    assert any(line.startswith("combined over k 2, the best fixed lookahead: ") for line in lines)
    assert any(line.startswith("combined over the target alone at worst, in ") for line in lines)
    assert terminal.out.isascii()
    assert max(map(len, lines)) <= 80
    assert "specgen: 1 of 20, repeat 1: chat 1, temperature 0\n" in terminal.err


def test_every_text_is_the_targets_own(profile):
    found = json.loads(call(profile, *QUICK, "-t", "0", "-t", "0.8", "--json", "-q").out)
    assert [result["temperature"] for result in found["results"]] == [0.0, 0.8]
    for result in found["results"]:
        assert [arm["name"] for arm in result["arms"]] == ARMS
        for arm in result["arms"]:
            assert arm["same_text"] == {"equal": 4, "compared": 4}, arm["name"]


def test_the_json_object_holds_everything(profile):
    terminal = call(profile, *QUICK, "--json", "-q", "--seed", "5")
    assert terminal.err == ""
    found = json.loads(terminal.out)
    assert (found["interrupted"], found["default"], found["dropped"]) == (False, "combined", [])
    where = found["provenance"]
    assert (where["profile"], where["dtype"], where["seed"], where["repeats"]) == ("tiny", "float32", 5, 2)
    assert all(where[key] for key in ("torch", "transformers", "specgen", "python", "cpu", "threads", "device"))
    assert len(found["runs"]) == 2 * 2 * 5
    for run in found["runs"]:
        assert sum(played[0] for played in run["rounds"]) == run["tokens"]
        assert sum(played[1] for played in run["rounds"]) == run["proposed"]
        assert sum(played[4] for played in run["rounds"]) == pytest.approx(run["decode_seconds"], abs=1e-4)
        assert run["decode_seconds"] < run["seconds"]
    (result,) = found["results"]
    assert (result["prompts"], result["repeats"], result["categories"]) == (2, 2, ["chat", "maths"])
    arms = {arm["name"]: arm for arm in result["arms"]}
    assert arms["target alone"]["decode"]["speedup"]["value"] == 1
    assert arms["target alone"]["proposed"] == 0
    fixed = arms["k 2"]
    assert fixed["proposed"] > 0
    assert fixed["accepted"] <= fixed["proposed"]
    assert len(fixed["positions"]) <= 2
    speedup = fixed["decode"]["speedup"]
    assert 0 < speedup["low"] <= speedup["high"]
    rate = arms["target alone"]["decode"]["tokens_per_second"]
    assert speedup["value"] == pytest.approx(fixed["decode"]["tokens_per_second"] / rate, rel=1e-3)
    assert 0 < fixed["inter_token_latency"]["median"] <= fixed["inter_token_latency"]["p95"]
    assert {finding["kind"] for finding in result["findings"]} == {"best_fixed", "worst_fixed", "worst_plain"}


def test_a_pair_without_a_draft_looks_tokens_up(tmp_path):
    alone = write_pair(tmp_path, drafted=False)
    found = json.loads(call(alone, *QUICK, "--json", "-q").out)
    assert [arm["name"] for arm in found["results"][0]["arms"]] == ["target alone", "k 2", "adaptive"]
    assert found["default"] == "adaptive"
    sources = found["results"][0]["arms"][1]["rounds_by_source"]
    assert set(sources) <= {"lookup", "plain"}


def test_against_transformers(profile):
    others = ["hf plain", "hf default", "hf 2", "hf 3"]
    arguments = ("--against", "transformers", "--assistant-tokens", "2", "--assistant-tokens", "3")
    terminal = call(profile, *QUICK, *arguments)
    lines = terminal.out.splitlines()
    assert "greedy: speedup over the target alone, from the prompt's text to the last token" in lines
    for other in ("hf plain", "hf default"):
        assert any(line.startswith(f"combined over {other}, the prompt included: ") for line in lines)
    assert sum("the best of its kind, the prompt included: " in line for line in lines) == 1
    assert max(map(len, lines)) <= 80

    (result,) = json.loads(call(profile, *QUICK, *arguments, "--json").out)["results"]
    arms = {arm["name"]: arm for arm in result["arms"]}
    assert list(arms) == ARMS + others
    for other in others:
        assert arms[other]["decode"] is None
        assert arms[other]["ttft"] is None
        assert arms[other]["same_text"] == {"equal": 4, "compared": 4}
        assert arms[other]["prompt_included"]["tokens_per_second"] > 0
    kinds = {finding["over"]: finding for finding in result["findings"] if finding["prompt_included"]}
    assert set(kinds) - {"hf 2", "hf 3"} == {"hf plain", "hf default"}


def test_spec_bench_reads_as_it_is(profile, tmp_path):
    file = tmp_path / "question.jsonl"
    lines = [
        {"question_id": 81, "category": "writing", "turns": ["Write a post.", "Again."], "reference": []},
        {"question_id": 90, "category": "roleplay", "turns": ["You are a tree."]},
        {"question_id": 91, "category": "roleplay", "turns": ["You are a stone."]},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = json.loads(call(profile, "-n", "4", "--repeat", "1", "-k", "2", "--json", "--prompts", str(file)).out)
    assert found["provenance"]["source"] == str(file)
    assert found["prompts"] == [
        {"category": "writing", "name": "81"},
        {"category": "roleplay", "name": "90"},
        {"category": "roleplay", "name": "91"},
    ]
    assert found["results"][0]["categories"] == ["writing", "roleplay"]


def test_what_was_learned_is_kept_from_prompt_to_prompt(profile, monkeypatch):
    made = []

    class Watched(bench_arms.Session):
        def __init__(self, pair):
            made.append(self)
            super().__init__(pair)

    monkeypatch.setattr(bench_arms, "Session", Watched)
    call(profile, *QUICK, "-t", "0", "-t", "0.8")
    assert len(made) == 2 * len(ARMS)  # one for each arm and temperature


@pytest.mark.parametrize("after", [9, 12])
def test_ctrl_c_leaves_a_report_of_what_every_arm_has_done(profile, monkeypatch, after):
    run, count = bench_arms.SpecgenArm.run, iter(range(1000))

    def interrupted(arm, job):
        if next(count) == len(ARMS) + after:  # after the warm-up
            raise KeyboardInterrupt
        return run(arm, job)

    monkeypatch.setattr(bench_arms.SpecgenArm, "run", interrupted)
    terminal = call(profile, *QUICK, code=130)
    assert "specgen: interrupted; this is what every arm has done" in terminal.err
    assert terminal.out.splitlines()[-1] == "interrupted: only what every arm had done is shown"
    (head,) = [
        line for line in terminal.out.splitlines() if line.startswith("arm") and "tok/s" in line and "all" in line
    ]
    assert head.split() == ["arm", "chat", *(["maths"] if after == 12 else []), "all", "tok/s"]


def test_ctrl_c_before_anything_is_complete(profile, monkeypatch):
    def interrupted(arm, job):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_arms.SpecgenArm, "run", interrupted)
    terminal = call(profile, *QUICK, code=130)
    assert "no prompt was measured by every arm" in terminal.out


@pytest.mark.parametrize("columns", [50, 80])
def test_terminals_of_every_width(profile, columns):
    terminal = Terminal(columns)
    assert main(["bench", "-p", profile, "-n", "3", "--per-category", "1", "--repeat", "1", "-k", "9"], terminal) == 0
    heads = [row for row in terminal.rows if row.startswith("arm")]
    shown = {word for head in heads for word in head.split()}
    assert {"chat", "code", "summari.", "transla.", "maths", "retriev.", "all", "tok/s"} <= shown
    assert sum("chat" in head or "all" in head.split() for head in heads) == (1 if columns == 80 else 2)
    # No row was broken by the terminal: every arm's row begins a line.
    assert all(len(row) <= columns for row in terminal.rows)
    assert not any(line.startswith(("1.00x", "0.")) for line in terminal.rows)
    assert "of 30" not in terminal.text  # the progress line has gone


def test_a_plot(profile, tmp_path):
    pytest.importorskip("matplotlib")
    file = tmp_path / "out.svg"
    terminal = call(profile, *QUICK, "-t", "0", "-t", "0.8", "--plot", str(file))
    assert f"specgen: drawn: {file}" in terminal.err
    picture = file.read_text()
    assert picture.lstrip().startswith("<?xml")
    for text in (
        "chat",
        "maths",
        "greedy, the prompt left out",
        "temperature 0.8",
        "combined",
        "times the target alone",
    ):
        assert text in picture


def test_a_plot_without_matplotlib_is_refused_before_anything_is_measured(profile, monkeypatch):
    from specgen.display import bench_plot

    monkeypatch.setattr(bench_plot, "find_spec", lambda name: None)
    terminal = call(profile, *QUICK, "--plot", "out.svg", code=2)
    assert terminal.err == (
        'specgen: --plot needs matplotlib, which is not installed\n  hint: python -m pip install "specgen[plot]"\n'
    )


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("--categories", "poetry"), "there is no category 'poetry'", "the built-in ones are chat, code"),
        (("--prompts", "/no/such"), "cannot read /no/such", "give a file with one prompt a line"),
        (("--against", "llama.cpp"), "--against llama.cpp needs its server", "--llama-server PATH names"),
        (
            ("--against", "llama.cpp", "--llama-server", "/no/such"),
            "there is no program /no/such",
            "--llama-server PATH names",
        ),
        (
            ("--against", "llama.cpp", "--llama-server", sys.executable),
            "llama.cpp reads .gguf files, and",
            "--llama-model FILE names one",
        ),
        (("-k", "0"), "0 is not in the range x>=1", "specgen bench --help"),
    ],
)
def test_errors(profile, arguments, message, hint):
    terminal = call(profile, *QUICK, *arguments, code=2)
    first, second, *_ = terminal.err.splitlines()
    assert message in first
    assert hint in second
    assert terminal.out == ""


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
@pytest.mark.parametrize(
    ("file", "message"), [("out.txt", "cannot tell in which format out.txt"), ("no/such/out.svg", "there is no folder")]
)
def test_a_plot_that_cannot_be_is_refused_first(profile, file, message):
    assert message in call(profile, *QUICK, "--plot", file, code=2).err
