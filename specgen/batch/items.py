"""What a line asks for: a prompt of its own, a JSON object, or a request in OpenAI's batch format."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from specgen.batch.lines import Line
from specgen.batch.settings import CHECKS, BadLine, read_settings

InputFormat = Literal["lines", "jsonl", "openai"]
FORMATS: Final[tuple[InputFormat, ...]] = ("lines", "jsonl", "openai")

_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt and what it asks for; None where the run decides.

    Attributes:
        line: its number in the input.
        id: its own, or the line's number.
        prompt: a text, or chat messages.
        settings: ``max_tokens``, ``seed``, ``system``, ``stop`` and the names of ``Sampling``, where given.
        extra: other keys of its object, which go into its record.
        kind: the format it came in; OpenAI's has two.
        raw: whether the prompt is given to the model as it is.
    """

    line: int
    id: str | int
    prompt: str | tuple[Mapping[str, str], ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["line", "object", "chat.completion", "text_completion"] = "line"
    raw: bool = False


def detect(first: Line) -> InputFormat:
    """Tell the format from the first line that is not blank."""
    text = (first.data or b"").lstrip()
    if not text.startswith(b"{"):
        return "lines"
    try:
        found = _load(text)
    except BadLine:
        # A damaged object is a bad line among others, prose that begins like an object is very rare.
        return "jsonl" if text[1:].lstrip().startswith(b'"') else "lines"
    return "openai" if isinstance(found.get("body"), dict) else "jsonl"


def parse(line: Line, format_: InputFormat) -> Item:
    """Read a line.

    Raises:
        BadLine: it cannot be read, or asks for what is not possible.
    """
    if line.data is None:
        raise BadLine("the line is longer than 64 MiB")
    if format_ == "lines":
        return Item(line.number, str(line.number), _decode(line.data))
    found = _load(line.data)
    if format_ == "openai":
        return _envelope(line, found)
    id_ = _id(found, line)
    try:
        return _object(line, found, id_)
    except BadLine as error:
        raise BadLine(error.message, id_) from None


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadLine(f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}") from None


def _load(data: bytes) -> dict[str, Any]:
    text = _decode(data)
    try:
        found = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        raise BadLine(f"not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; brackets in thousands of brackets
        raise BadLine(f"not JSON that can be read: {type(error).__name__}") from None
    if not _is_shallow(found):
        raise BadLine(f"nested more than {_DEEPEST} deep")
    if not isinstance(found, dict):
        raise BadLine(f"not a JSON object but {_kind(found)}")
    return found


def _finite(digits: str) -> float:
    """A number that can be written again: Python reads NaN and infinities, which are not JSON."""
    value = float(digits)
    if not math.isfinite(value):
        raise BadLine(f"not JSON that can be read: {digits[:20]}")
    return value


def _is_shallow(value: object) -> bool:
    """Whether lists and objects are within few others; more of them may be read, but not written."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return not level


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")


def _id(found: dict[str, Any], line: Line) -> str | int:
    given = [found[name] for name in ("id", "custom_id") if found.get(name) is not None]
    if not given:
        return str(line.number)
    id_ = given[0]
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise BadLine(f"id must be a string or a whole number, not {_kind(id_)}")
    return id_


def _object(line: Line, found: dict[str, Any], id_: str | int) -> Item:
    prompt = _prompt(found)
    settings = read_settings(found)
    if "system" in settings and not isinstance(prompt, str) and any(m["role"] == "system" for m in prompt):
        raise BadLine("both system and a system message", id_)
    known = {"id", "custom_id", "prompt", "messages", *CHECKS}
    return Item(
        line.number,
        id_,
        prompt,
        settings,
        {key: value for key, value in found.items() if key not in known},
        "object",
    )


_ENDPOINTS: Final[dict[str, Literal["chat.completion", "text_completion"]]] = {
    "/v1/chat/completions": "chat.completion",
    "/v1/completions": "text_completion",
}
# What would change the answer if it were ignored, and the values that ask for nothing.
_UNSUPPORTED: Final[dict[str, tuple[object, ...]]] = {
    "n": (1,),
    "best_of": (1,),
    "stream": (False,),
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "tools": ([],),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "logit_bias": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "echo": (False,),
    "suffix": ("",),
}


def _envelope(line: Line, found: dict[str, Any]) -> Item:
    id_ = _id(found, line)
    body, url = found.get("body"), found.get("url", "/v1/chat/completions")
    if not isinstance(body, dict):
        raise BadLine("body must be an object", id_)
    if not isinstance(url, str) or url not in _ENDPOINTS:
        raise BadLine(f"url must be one of {', '.join(_ENDPOINTS)}", id_)
    if found.get("method", "POST") != "POST":
        raise BadLine("method must be POST", id_)
    for key, harmless in _UNSUPPORTED.items():
        if body.get(key) is not None and body[key] not in harmless:
            raise BadLine(f"{key} is not supported", id_)
    kind = _ENDPOINTS[url]
    body = dict(body)
    if "max_completion_tokens" in body:
        body["max_tokens"] = body["max_completion_tokens"]
    body.pop("system", None)
    wanted, other = ("messages", "prompt") if kind == "chat.completion" else ("prompt", "messages")
    if other in body:
        raise BadLine(f"{url} takes {wanted}, not {other}", id_)
    if isinstance(body.get("prompt"), list) and len(body["prompt"]) == 1:
        body["prompt"] = body["prompt"][0]
    try:
        prompt, settings = _prompt(body), read_settings(body)
    except BadLine as error:
        raise BadLine(error.message, id_) from None
    return Item(line.number, id_, prompt, settings, {}, kind, raw=kind == "text_completion")


def _prompt(found: dict[str, Any]) -> str | tuple[Mapping[str, str], ...]:
    prompt, messages = found.get("prompt"), found.get("messages")
    if (prompt is None) == (messages is None):
        raise BadLine("neither prompt nor messages" if prompt is None else "both prompt and messages")
    if prompt is not None:
        if not isinstance(prompt, str):
            raise BadLine(f"prompt must be a string, not {_kind(prompt)}")
        return prompt
    return read_messages(messages)


def read_messages(found: object) -> tuple[Mapping[str, str], ...]:
    """Return chat messages, each with a role and a text.

    Raises:
        BadLine: they are not what they must be.
    """
    if not isinstance(found, list) or not found:
        raise BadLine("messages must be a list of at least one message")
    return tuple(_message(message) for message in found)


def _message(message: object) -> Mapping[str, str]:
    if not isinstance(message, dict):
        raise BadLine(f"a message must be an object, not {_kind(message)}")
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not role:
        raise BadLine("a message needs a role")
    if isinstance(content, list):
        parts = [
            part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content
        ]
        if not all(isinstance(part, str) for part in parts):
            raise BadLine("a message's content can be text only")
        content = "".join(str(part) for part in parts)
    if not isinstance(content, str):
        raise BadLine(f"a message's content must be text, not {_kind(content)}")
    return {"role": role, "content": content}
