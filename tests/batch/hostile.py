"""Lines that ask for nothing that can be done, among JSON objects."""

from __future__ import annotations

import json


def _objects():
    good = {"role": "user", "content": "x"}
    for value in [True, 0, 1.5, [], ["a"], {}, {"a": 1}, [["a"]], -3, 1e300]:
        yield {"prompt": value}
    for value in [True, 0, "x", {}, [], [1], ["x"], [[]], [None], [{}], [{"role": "user"}], [{"content": "x"}]]:
        yield {"messages": value}
    for message in [
        {"role": 1, "content": "x"},
        {"role": "", "content": "x"},
        {"role": None, "content": "x"},
        {"role": "user", "content": 1},
        {"role": "user", "content": None},
        {"role": "user", "content": {"text": "x"}},
        {"role": "user", "content": [{"type": "image_url", "image_url": "x"}]},
        {"role": "user", "content": [{"type": "text", "text": 1}]},
        {"role": "user", "content": ["x"]},
    ]:
        yield {"messages": [good, message]}
    yield {"messages": [good], "prompt": "x"}
    yield {"messages": [{"role": "system", "content": "y"}, good], "system": "z"}
    yield {}
    yield {"id": 1}
    yield {"Prompt": "x"}
    yield {"prompt": None, "messages": None}
    for value in [True, 1.5, [], {}, ["a"], [1], {"a": 1}]:
        yield {"prompt": "x", "id": value}
        yield {"prompt": "x", "custom_id": value}


def _settings():
    wrong = [True, False, 0, -1, 1.5, "", "x", [], [1], {}, {"a": 1}, 1e400, -1e400]
    accepted = {
        "max_tokens": [],
        "temperature": [0, 1.5],
        "top_k": [0],
        "top_p": [],
        "min_p": [0],
        "repetition_penalty": [1.5],
        "seed": [0],
        "stop": ["x", []],
        "system": ["", "x"],
    }
    for key, fine in accepted.items():
        for value in wrong:
            if not any(type(value) is type(good) and value == good for good in fine):
                yield {"prompt": "x", key: value}


def _bounds():
    for value in [2**63, 2**64, -5, 10**400]:
        yield {"prompt": "x", "seed": value}
    for value in [2**31, 10**30]:
        yield {"prompt": "x", "max_tokens": value}
        yield {"prompt": "x", "top_k": value}
    for value in [1.0001, 2, 10**400]:
        yield {"prompt": "x", "top_p": value}
        yield {"prompt": "x", "min_p": value}
    for value in [["x", ""], ["x", 1], [None], 3]:
        yield {"prompt": "x", "stop": value}
    for key in ["temperature", "repetition_penalty", "top_p"]:
        yield {"prompt": "x", key: float("nan")}


_TEXTS = [
    b"{",
    b"}",
    b"{]",
    b'{"prompt"',
    b'{"prompt":',
    b'{"prompt": "x"',
    b'{"prompt": "x"}}',
    b'{"prompt": "x"} {"prompt": "y"}',
    b'{"prompt": "x",}',
    b"{'prompt': 'x'}",
    b"{prompt: 1}",
    b'{"prompt": "\x01"}',
    b'{"prompt": "\\x"}',
    b'{"prompt": "\\u12"}',
    b'{"prompt": "\xff"}',
    b'{"prompt": "\xed\xa0\x80"}',
    b'{"prompt": "\xc3"}',
    b"\x00",
    b"\x00\x01\x02",
    b"\xff\xfe{\x00}\x00",
    b"\xfe\xff",
    b"null",
    b"true",
    b"1",
    b"1e999",
    b"NaN",
    b"Infinity",
    b'"prompt"',
    b"[]",
    b'[{"prompt": "x"}]',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 5000 + b"]" * 5000,
    b"1" * 5000,
    b'{"prompt": ' + b"1" * 5000 + b"}",
    b"a prompt without quotes",
    b"<html>404</html>",
    b"# a comment",
    b"// a comment",
    b"---",
    b'prompt: "x"',
    b'"id","prompt"',
    b"id\tprompt",
    b"undefined",
    b'{"prompt": "x", "more": NaN}',
    b'{"prompt": "x", "more": [-Infinity]}',
    b'{"prompt": "x", "more": {"a": 1e999}}',
    b'{"prompt": "x", "more": ' + b"[" * 80 + b"]" * 80 + b"}",
    b'{"prompt": "x", "more": ' + b'{"a":' * 400 + b"1" + b"}" * 401,
    b"\xef\xbb\xbf{}",
    b"\xc2\xa0{}",
]

HOSTILE = list(
    dict.fromkeys([*_TEXTS, *(json.dumps(found).encode() for found in (*_objects(), *_settings(), *_bounds()))])
)
