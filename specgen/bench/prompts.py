"""Prompts to measure with: six built-in categories, or a file of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specgen.batch.items import read_messages
from specgen.batch.settings import BadLine
from specgen.errors import PromptError, UsageError
from specgen.files import read_text
from specgen.prompt import Message

CATEGORIES: Final = ("chat", "code", "summarise", "translate", "maths", "retrieval")
_TEXTS = Path(__file__).with_name("texts")
_UNNAMED = "prompts"  # the category of a prompt that names none
_FORMATS = 'a line is a prompt, or {"prompt": "..."}, {"messages": [...]} or {"category": "...", "turns": ["..."]}'


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt.

    Attributes:
        category: what it stands for.
        name: its own, or its number in the category.
        content: a text, or chat messages.
    """

    category: str
    name: str
    content: str | tuple[Message, ...]

    def __str__(self) -> str:
        """Say which one it is."""
        return f"{self.category} {self.name}"


def built_in(categories: Sequence[str] = CATEGORIES) -> tuple[Prompt, ...]:
    """The prompts that come with specgen, five a category.

    Raises:
        UsageError: there is no such category.
    """
    from specgen.profile.files import parse_yaml

    for name in categories:
        if name not in CATEGORIES:
            raise UsageError(f"there is no category {name!r}", f"the built-in ones are {', '.join(CATEGORIES)}")
    found = []
    for name in CATEGORIES:
        if name in categories:
            file = _TEXTS / f"{name}.yaml"
            texts: Any = parse_yaml(file.read_text(encoding="utf-8"), str(file))
            found += [Prompt(name, str(number), text.strip()) for number, text in enumerate(texts, 1)]
    return tuple(found)


def from_file(path: str, categories: Sequence[str] = ()) -> tuple[Prompt, ...]:
    """Read prompts from a file: one a line, JSON lines, or Spec-Bench's ``question.jsonl``, of which the first turns.

    Args:
        path: the file.
        categories: take these only; none are all of them.

    Raises:
        PromptError: the file cannot be read, or a line of it.
        UsageError: a category is not in it.
    """
    prompts = tuple(_numbered(_lines(path)))
    if not prompts:
        raise PromptError(f"{path} holds no prompts", _FORMATS)
    there = dict.fromkeys(prompt.category for prompt in prompts)
    for name in categories:
        if name not in there:
            raise UsageError(f"there is no category {name!r} in {path}", f"it has {', '.join(there)}")
    return tuple(prompt for prompt in prompts if not categories or prompt.category in categories)


def few(prompts: Sequence[Prompt], each: int | None) -> tuple[Prompt, ...]:
    """The first prompts of every category; None is all of them."""
    seen: dict[str, int] = {}
    kept = []
    for prompt in prompts:
        seen[prompt.category] = seen.get(prompt.category, 0) + 1
        if each is None or seen[prompt.category] <= each:
            kept.append(prompt)
    return tuple(kept)


def _lines(path: str) -> Iterator[tuple[str, str | None, str | tuple[Message, ...]]]:
    """Category, name and content of every line that is not blank."""
    text = read_text(path, "give a file with one prompt a line")
    # Not splitlines: a prompt in JSON may hold U+2028, which ends no line here.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    objects = next((line for line in lines if line.strip()), "").lstrip().startswith('{"')
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if not objects:
            yield _UNNAMED, None, line
            continue
        try:
            yield _read(json.loads(line))
        except (ValueError, RecursionError) as error:
            reason = f"not JSON: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise PromptError(f"{path}:{number}: {reason}", _FORMATS) from None


def _read(found: object) -> tuple[str, str | None, str | tuple[Message, ...]]:
    """A JSON line.

    Raises:
        ValueError: saying what is wrong with it.
    """
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    category = found.get("category", _UNNAMED)
    if not isinstance(category, str) or not category.strip():
        raise ValueError("category must be text")
    name = found.get("question_id", found.get("id"))
    return category.strip(), None if name is None else str(name), _content(found)


def _content(found: Mapping[str, Any]) -> str | tuple[Message, ...]:
    given = [key for key in ("prompt", "messages", "turns") if found.get(key) is not None]
    if len(given) != 1:
        raise ValueError(f"both {given[0]} and {given[1]}" if given else "neither prompt, messages nor turns")
    value = found[given[0]]
    if given[0] == "messages":
        try:
            return read_messages(value)
        except BadLine as error:
            raise ValueError(error.message) from None
    if given[0] == "turns":
        if not isinstance(value, list) or not value:
            raise ValueError("turns must be a list of at least one text")
        value = value[0]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{given[0]} must hold text")
    return value


def _numbered(lines: Iterator[tuple[str, str | None, str | tuple[Message, ...]]]) -> Iterator[Prompt]:
    """Name the prompts that have no name by their number in the category."""
    count: dict[str, int] = {}
    for category, name, content in lines:
        count[category] = count.get(category, 0) + 1
        yield Prompt(category, name or str(count[category]), content)
