"""The built-in prompts, and those of a file in each of its forms."""

from __future__ import annotations

import json

import pytest

from specgen.bench.prompts import CATEGORIES, Prompt, built_in, few, from_file
from specgen.errors import PromptError, UsageError


def write(tmp_path, *lines, name="prompts.jsonl"):
    file = tmp_path / name
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return str(file)


def test_six_categories_of_five():
    prompts = built_in()
    assert list(dict.fromkeys(prompt.category for prompt in prompts)) == list(CATEGORIES)
    for category in CATEGORIES:
        here = [prompt for prompt in prompts if prompt.category == category]
        assert [prompt.name for prompt in here] == ["1", "2", "3", "4", "5"]
        assert len({prompt.content for prompt in here}) == 5
    assert all(prompt.content == prompt.content.strip() for prompt in prompts)


def test_summaries_have_a_text_and_questions_have_passages():
    for prompt in built_in(["summarise"]):
        text = prompt.content.partition("\n\n")[2]
        assert 200 <= len(text.split()) <= 300
    for prompt in built_in(["retrieval"]):
        assert 3 <= prompt.content.count("\n[") <= 4
        assert prompt.content.count("Question:") == 1


def test_some_categories_in_their_own_order():
    assert [prompt.category for prompt in built_in(["maths", "chat"])] == ["chat"] * 5 + ["maths"] * 5
    with pytest.raises(UsageError, match="no category 'poetry'"):
        built_in(["poetry"])


def test_the_first_few_of_every_category():
    assert [str(prompt) for prompt in few(built_in(["chat", "code"]), 2)] == ["chat 1", "chat 2", "code 1", "code 2"]
    assert few(built_in(), None) == built_in()


def test_a_line_is_a_prompt(tmp_path):
    found = from_file(write(tmp_path, "the quick", "", "{not json} but prose", name="prompts.txt"))
    assert found == (Prompt("prompts", "1", "the quick"), Prompt("prompts", "2", "{not json} but prose"))


def test_windows_line_ends_and_a_mark_at_the_beginning(tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert [prompt.content for prompt in from_file(str(file))] == ["one", "two"]


def test_json_lines(tmp_path):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    found = from_file(
        write(
            tmp_path,
            {"prompt": "one \u2028 line", "category": "own"},
            {"messages": messages, "id": "m"},
            {"prompt": "two", "category": "own"},
        )
    )
    assert found == (
        Prompt("own", "1", "one \u2028 line"),
        Prompt("prompts", "m", tuple(messages)),
        Prompt("own", "2", "two"),
    )


def test_a_json_line_may_hold_a_line_separator_verbatim(tmp_path):
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "one\u2028two"}\n', encoding="utf-8")
    assert [prompt.content for prompt in from_file(str(file))] == ["one\u2028two"]


def test_spec_bench_reads_as_it_is(tmp_path):
    found = from_file(
        write(
            tmp_path,
            {"question_id": 81, "category": "writing", "turns": ["Compose a post.", "Rewrite it."], "reference": []},
            {"question_id": 161, "category": "translation", "turns": ["Translate German to English: Ja."]},
        )
    )
    assert found == (
        Prompt("writing", "81", "Compose a post."),
        Prompt("translation", "161", "Translate German to English: Ja."),
    )


def test_categories_of_a_file(tmp_path):
    path = write(tmp_path, {"prompt": "a", "category": "x"}, {"prompt": "b", "category": "y"})
    assert [prompt.content for prompt in from_file(path, ["y"])] == ["b"]
    with pytest.raises(UsageError, match="no category 'z'") as error:
        from_file(path, ["z"])
    assert error.value.hint == "it has x, y"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"prompt": ', ":2: not JSON"),
        ("[]", ":2: not a JSON object"),
        ({"text": "a"}, ":2: neither prompt, messages nor turns"),
        ({"prompt": "a", "turns": ["b"]}, ":2: both prompt and turns"),
        ({"prompt": 3}, ":2: prompt must hold text"),
        ({"prompt": " "}, ":2: prompt must hold text"),
        ({"turns": []}, ":2: turns must be a list of at least one text"),
        ({"turns": [None]}, ":2: turns must hold text"),
        ({"messages": [{"role": "user"}]}, ":2: a message's content must be text, not null"),
        ({"messages": []}, ":2: messages must be a list of at least one message"),
        ({"prompt": "a", "category": 3}, ":2: category must be text"),
        ('{"prompt": ' + "[" * 100_000, ":2: "),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, reason):
    with pytest.raises(PromptError) as error:
        from_file(write(tmp_path, {"prompt": "fine"}, line))
    assert reason in error.value.message
    assert "\n" not in error.value.message


def test_files_that_are_none(tmp_path):
    with pytest.raises(PromptError, match="cannot read"):
        from_file(str(tmp_path / "none"))
    with pytest.raises(PromptError, match="holds no prompts"):
        from_file(write(tmp_path, ""))
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    with pytest.raises(PromptError, match="is not UTF-8"):
        from_file(str(tmp_path / "latin"))
