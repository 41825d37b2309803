"""``specgen generate`` with many prompts, from arguments to records, on a tiny pair."""

from __future__ import annotations

import gzip
import json

import pytest

import specgen.batch.rows
from specgen.cli.main import main
from tests.batch.tiny import tiny_profile
from tests.consoles import console
from tests.pairs import folder
from tests.words import byte_level

LINES = b"One river\n\nTwo rivers\r\nThree rivers"


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return str(tiny_profile(tmp_path_factory.mktemp("tiny")))


def run(profile, *arguments, code=0, stdin=b"", prepare=None, **settings):
    terminal = console(stdin, **settings)
    if prepare:
        prepare(terminal)
    given = ["generate", "-p", profile, "-n", "8", *arguments]
    assert main(given, terminal) == code, terminal.err
    return terminal


def records(text):
    return [json.loads(line) for line in text.splitlines()]


def by_id(text):
    found = records(text)
    assert len({one["id"] for one in found}) == len(found)
    return {one["id"]: one for one in found}


def single(profile, prompt, *arguments):
    return json.loads(run(profile, "--json", *arguments, prompt).out)


def test_every_line_is_a_prompt(profile):
    terminal = run(profile, stdin=LINES)
    found = by_id(terminal.out)
    assert set(found) == {"1", "3", "4"}
    for id_, prompt in (("1", "One river"), ("3", "Two rivers"), ("4", "Three rivers")):
        alone = single(profile, prompt)
        assert {key: found[id_][key] for key in ("text", "tokens", "prompt_tokens", "finish_reason", "error")} == {
            key: alone[key] for key in ("text", "tokens", "prompt_tokens", "finish_reason", "error")
        }
        assert set(alone) - {"id"} <= set(found[id_])
    assert terminal.err.startswith("3 items in ")
    assert terminal.err.endswith(" · seed 7\n")
    assert terminal.err.count("\n") == 1


def test_one_line_is_a_batch_of_one(profile):
    assert records(run(profile, stdin=b"Hi").out)[0]["text"] == single(profile, "Hi")["text"]


def test_a_records_seed_gives_its_text_again(profile):
    (found,) = records(run(profile, "-t", "1", "--seed", "5", stdin=b"Hi\n").out)
    assert single(profile, "Hi", "-t", "1", "--seed", str(found["seed"]))["text"] == found["text"]
    (other,) = records(run(profile, "-t", "1", "--seed", "6", stdin=b"Hi\n").out)
    assert other["text"] != found["text"]


def test_a_file(profile, tmp_path):
    path = tmp_path / "prompts.txt.gz"
    path.write_bytes(gzip.compress(LINES))
    expected = {id_: one["text"] for id_, one in by_id(run(profile, stdin=LINES).out).items()}
    for arguments, stdin in ((["-f", str(path)], b"not read"), (["-f", "-"], LINES)):
        found = by_id(run(profile, *arguments, stdin=stdin, terminals="in" if not stdin else "").out)
        assert {id_: one["text"] for id_, one in found.items()} == expected


OBJECTS = b"".join(
    json.dumps(record).encode() + b"\n"
    for record in [
        {"id": "long", "prompt": "x" * 50, "max_tokens": 20, "who": "me"},
        {"id": "short", "prompt": "x", "max_tokens": 2},
        {"id": "talk", "messages": [{"role": "user", "content": "Hi"}], "system": "Be brief"},
        {"id": "odd", "prompt": "x", "max_tokens": 0},
        {"id": "last", "prompt": "y", "max_tokens": 3},
    ]
)


def test_objects(profile):
    terminal = run(profile, stdin=OBJECTS, code=1)
    found = by_id(terminal.out)
    assert found["long"]["extra"] == {"who": "me"}
    assert found["long"]["tokens"] == 20
    assert found["talk"]["text"] == single(profile, "Hi", "-s", "Be brief")["text"]
    assert found["odd"]["error"] == {
        "code": "bad_line",
        "message": "line 4: max_tokens must be a whole number from 1 on",
    }
    assert found["odd"]["text"] is None
    assert "1 failed" in terminal.err


@pytest.mark.parametrize("size", ["1", "2", "auto"])
def test_the_order_of_the_input(profile, size):
    out = run(profile, "--ordered", "--batch-size", size, stdin=OBJECTS, code=1).out
    assert [one["id"] for one in records(out)] == ["long", "short", "talk", "odd", "last"]


def test_plain_text(profile, tmp_path):
    terminal = run(profile, "--output-format", "text", stdin=LINES)
    expected = [single(profile, prompt)["text"] for prompt in ("One river", "Two rivers", "Three rivers")]
    assert terminal.out == "".join(text + "\n" for text in expected)
    run(profile, "--output-format", "text", "-o", str(tmp_path / "out"), stdin=LINES)
    assert (tmp_path / "out").read_text() == terminal.out
    terminal = run(profile, "--output-format", "text", stdin=OBJECTS, code=1)
    assert "specgen: line 4: max_tokens must be" in terminal.err


def test_openai_in_and_out(profile):
    lines = [
        {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
         "body": {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}},
        {"custom_id": "b", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Once", "max_tokens": 4}},
        {"custom_id": "c", "method": "POST", "url": "/v1/embeddings", "body": {"input": "x"}},
    ]  # fmt: skip
    stdin = b"\n".join(json.dumps(line).encode() for line in lines)
    found = {
        one["custom_id"]: one for one in records(run(profile, "--output-format", "openai", stdin=stdin, code=1).out)
    }
    chat, text = found["a"]["response"]["body"], found["b"]["response"]["body"]
    assert found["a"]["response"]["status_code"] == 200
    assert chat["object"] == "chat.completion"
    assert chat["choices"][0]["message"] == {"role": "assistant", "content": single(profile, "Hi", "-n", "4")["text"]}
    assert chat["choices"][0]["finish_reason"] == "length"
    assert chat["usage"]["completion_tokens"] == 4
    assert text["choices"][0]["text"] == single(profile, "Once", "-n", "4", "--raw")["text"]
    assert found["c"]["response"] is None
    assert found["c"]["error"]["code"] == "bad_line"


def test_the_first_failure_can_be_the_last(profile, tmp_path):
    output = tmp_path / "out"
    terminal = run(profile, "--fail-fast", "-o", str(output), "--batch-size", "1", stdin=OBJECTS, code=1)
    assert [one["id"] for one in records(output.read_text())] == ["odd"]
    assert "stopped at the first failure" in terminal.err
    assert "--resume" in terminal.err


def test_resume_runs_what_failed_or_is_missing(profile, tmp_path):
    output = tmp_path / "out"
    command = ["-o", str(output), "-t", "1", "--ordered", "--no-item-stats"]
    terminal = run(profile, *command, "--max-items", "4", "--seed", "9", stdin=OBJECTS, code=1)
    assert terminal.out == ""
    first = by_id(output.read_text())
    assert set(first) == {"long", "short", "talk", "odd"}
    # The seed comes from the manifest: a new one would run everything again.
    terminal = run(profile, *command, "--resume", stdin=OBJECTS.replace(b'"max_tokens": 0', b'"max_tokens": 1'))
    assert "3 done before" in terminal.err
    second = records(output.read_text())
    assert [one["id"] for one in second] == ["long", "short", "talk", "odd", "last"]
    assert second[:3] == [first[id_] for id_ in ("long", "short", "talk")]
    manifest = json.loads((tmp_path / "out.manifest.json").read_text())
    assert (manifest["seed"], manifest["finished"]) == (9, True)
    assert manifest["items"] == {"done": 2, "failed": 0, "done_before": 3}
    assert manifest["profile"]["lookahead"] == 3
    before = output.read_bytes()
    assert "5 done before" in run(profile, *command, "--resume", stdin=OBJECTS.replace(b": 0}", b": 1}")).err
    assert output.read_bytes() == before


def test_other_settings_are_other_texts(profile, tmp_path):
    output = tmp_path / "out"
    run(profile, "-o", str(output), stdin=LINES)
    run(profile, "-o", str(output), "--resume", "-k", "2", "--batch-size", "1", stdin=LINES, code=0)
    old = output.read_text()
    terminal = run(profile, "-o", str(output), "--resume", "-n", "4", stdin=LINES)
    assert "done before" not in terminal.err
    found = by_id(output.read_text())
    assert {one["tokens"] for one in found.values()} == {4}
    assert len(found) == 3
    assert old != output.read_text()


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        ([], b"", "the prompt is empty: standard input holds no text"),
        (["-f", "no-such-file"], b"", "cannot read no-such-file: No such file or directory"),
        (["--resume"], b"Hi", "--resume needs the file to go on with"),
        (["-f", "x", "Hi"], b"", "-f is for a batch, and a PROMPT is one text"),
        (["-o", "x", "Hi"], b"", "-o is for a batch, and a PROMPT is one text"),
        (["--trace", "x"], b"Hi", "--trace follows one prompt"),
        (["--output-format", "text", "-o", "x", "--resume"], b"Hi", "plain text says not which prompts are done"),
        (["--batch-size", "0"], b"Hi", "invalid value for '--batch-size': 0 is not in the range 1<=x<=1024"),
        (["--batch-size", "many"], b"Hi", "invalid value for '--batch-size': 'many' is not a valid whole number"),
        (["-o", "/"], b"Hi", "cannot write /: Is a directory"),
        ([], b"\x1f\x8bnothing", "cannot read standard input: damaged gzip data: "),
    ],
)
def test_what_does_not_go_together(profile, arguments, stdin, message):
    terminal = run(profile, *arguments, stdin=stdin, code=2)
    assert terminal.err.splitlines()[0].startswith(f"specgen: {message}")
    assert terminal.err.splitlines()[1].startswith("  hint: ")
    assert terminal.out == ""


def test_lines_on_the_way_where_nobody_watches(profile):
    def prepare(terminal):
        now = [0.0]

        def clock():
            now[0] += 1.0
            return now[0]

        terminal.clock = clock

    terminal = run(profile, stdin=b"Hi\n" * 12, prepare=prepare)
    lines = terminal.err.splitlines()[:-1]
    assert len(lines) > 1
    assert " of 12 items · " in lines[0]
    assert all("tok/s" in line for line in lines)


def test_a_bar_that_leaves_nothing_behind(profile):
    err = run(profile, stdin=LINES, terminals="err").err
    assert err.count("\x1b[?25l") == err.count("\x1b[?25h") >= 1
    assert "tok/s" in err
    quiet = run(profile, "-q", stdin=LINES, terminals="err")
    assert quiet.err == ""
    assert len(records(quiet.out)) == 3


def test_records_on_a_terminal_are_safe(profile):
    terminal = run(profile, stdin=b'{"prompt": "x", "\x1b[2J": 1}\n'.replace(b"\x1b", b"\\u001b"), terminals="out err")
    assert "\x1b" not in terminal.out


def test_many_lines_of_prose_get_a_hint(profile):
    terminal = run(profile, "-n", "1", stdin=b"a line\n" * 220)
    assert terminal.err.count("every line of standard input is a prompt; - takes all of it as one prompt") == 1


def test_the_plan_decides_how_many_rows(profile, monkeypatch):
    asked = []
    monkeypatch.setattr(specgen.batch.rows, "rows_that_fit", lambda *_, **options: asked.append(options) or 2)
    assert "up to 2 rows side by side" in run(profile, "-v", stdin=LINES).err
    assert asked == [{"max_tokens": 8, "lookahead": 3, "columns": None}]
    assert "up to 5 rows side by side" in run(profile, "-v", "--batch-size", "5", stdin=LINES).err


def test_what_a_user_should_know_is_said_once_for_all_items(tmp_path, monkeypatch):
    monkeypatch.setattr("specgen.models.strict.is_row_invariant", lambda _: False)
    target = folder(tmp_path / "target", chat=False)
    draft = folder(tmp_path / "draft", tokenizer=byte_level(290, special=("</s>", "<s>")))
    odd = tmp_path / "odd.yaml"
    odd.write_text(f"target: {{model: {target}, dtype: float32}}\ndraft: {{model: {draft}, dtype: float32}}\n")
    said = run(str(odd), "-k", "2", "--strict", stdin=LINES).err
    assert said.count("draft and target do not share a vocabulary (token 0 is '<s>' to the target") == 1
    assert said.count("this machine's kernels do not treat all rows alike") == 1
