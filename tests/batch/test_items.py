"""What lines ask for, and two hundred that ask for nothing."""

from __future__ import annotations

import json

import pytest

from specgen.batch.items import detect, parse
from specgen.batch.lines import Line
from specgen.batch.settings import BadLine
from tests.batch.hostile import HOSTILE


def line(data, number=7):
    return Line(number, data if isinstance(data, bytes) else json.dumps(data).encode())


def test_a_line_is_a_prompt():
    item = parse(line(b"  Why? "), "lines")
    assert (item.id, item.line, item.prompt) == ("7", 7, "  Why? ")


def test_an_object():
    item = parse(
        line({"prompt": "Hi", "id": 3, "max_tokens": 5, "temperature": 1, "stop": "x", "seed": 4, "tag": [1]}), "jsonl"
    )
    assert (item.id, item.prompt) == (3, "Hi")
    assert item.settings == {"max_tokens": 5, "temperature": 1, "stop": "x", "seed": 4}
    assert item.extra == {"tag": [1]}


def test_messages():
    item = parse(
        line({"custom_id": "a", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}), "jsonl"
    )
    assert (item.id, item.prompt) == ("a", ({"role": "user", "content": "Hi"},))


def test_nulls_are_as_if_they_were_not_there():
    item = parse(line({"prompt": "Hi", "id": None, "stop": None, "messages": None}), "jsonl")
    assert (item.id, item.settings) == ("7", {})


def envelope(url="/v1/chat/completions", **body):
    return {"custom_id": "r-1", "method": "POST", "url": url, "body": {"model": "any", **body}}


def test_the_openai_envelope():
    item = parse(line(envelope(messages=[{"role": "user", "content": "Hi"}], max_completion_tokens=9, n=1)), "openai")
    assert (item.id, item.kind, item.raw, item.settings) == ("r-1", "chat.completion", False, {"max_tokens": 9})
    item = parse(line(envelope("/v1/completions", prompt=["Once"], max_tokens=3, temperature=0)), "openai")
    assert (item.prompt, item.kind, item.raw) == ("Once", "text_completion", True)
    assert item.settings == {"max_tokens": 3, "temperature": 0}


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (b"Tell me {about} it", "lines"),
        (b"[1, 2]", "lines"),
        (b'"a string"', "lines"),
        (b"{x: set notation} is mathematics", "lines"),
        (b"\xff\xfe", "lines"),
        (b'  {"prompt": "Hi"}', "jsonl"),
        (b'{"prompt": "Hi', "jsonl"),
        (b'{"messages": []}', "jsonl"),
        (b'{"custom_id": "a", "body": {}}', "openai"),
    ],
)
def test_detection(first, found):
    assert detect(Line(1, first)) == found


def test_there_are_two_hundred_hostile_lines():
    assert len(HOSTILE) >= 200
    assert len(set(HOSTILE)) == len(HOSTILE)
    assert not any(b"\n" in data or not data.strip() for data in HOSTILE)


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_line_is_a_bad_line(data):
    with pytest.raises(BadLine) as caught:
        parse(Line(1, data), "jsonl")
    assert caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"custom_id": "a"}, "body must be an object"),
        (envelope("/v1/embeddings", prompt="x"), "url must be one of"),
        (envelope(prompt="x"), "takes messages, not prompt"),
        (envelope("/v1/completions", messages=[]), "takes prompt, not messages"),
        (envelope("/v1/completions", prompt=["a", "b"]), "prompt must be a string, not a list"),
        (envelope(messages=[{"role": "user", "content": "x"}], n=2), "n is not supported"),
        (envelope(messages=[{"role": "user", "content": "x"}], tools=[{}]), "tools is not supported"),
        ({**envelope(messages=[{"role": "user", "content": "x"}]), "method": "GET"}, "method must be POST"),
    ],
)
def test_an_envelope_that_asks_too_much(found, message):
    with pytest.raises(BadLine, match=message) as caught:
        parse(line(found), "openai")
    assert caught.value.id in (found.get("custom_id"), None)
