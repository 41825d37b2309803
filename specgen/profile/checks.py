"""Checks of single values: each names the file, the key, what was found and what is allowed."""

from __future__ import annotations

import datetime
import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from specgen.errors import ProfileError

T = TypeVar("T")
MOST_VALUES = 10_000  # what a config may hold: aliases can make a small file describe an endless value
_DEEPEST = 20
_TOO_LARGE = 1 << 63
_KEY = re.compile(r"[\w-]{1,60}")
# Control characters, bidirectional overrides and lone surrogates: they break terminals, files or both.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: its file (or ``--set``) and its dotted key."""

    source: str
    key: str = ""

    def under(self, key: str) -> Place:
        """The place of a key in the mapping that stands here; a strange key is quoted, so that it stays on its line."""
        key = key if _KEY.fullmatch(key) else described(key)
        return Place(self.source, f"{self.key}.{key}" if self.key else key)

    def error(self, problem: str, hint: str | None = None) -> ProfileError:
        """The error to raise for a problem here."""
        return ProfileError(": ".join(part for part in (self.source, self.key, problem) if part), hint)

    def wrong(self, found: object, expected: str, hint: str | None = None) -> ProfileError:
        """The error for a value that is not what is allowed."""
        return self.error(f"found {described(found)}, expected {expected}", hint)


Check = Callable[[object, Place], T]  # returns the value as the profile keeps it, or raises


def described(value: object) -> str:
    """A value as the user wrote it, short enough for a line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        case int() | float():
            text = str(value) if not isinstance(value, int) or value.bit_length() < 200 else "a very large number"
            return text if len(text) <= 60 else "a very large number"
        case str():
            return repr(value if len(value) <= 60 else value[:57] + "...")
        case Mapping():
            return "a mapping"
        case list() | tuple() | set():
            return "a list"
        case datetime.date():
            return "a date"
        case _:
            return f"a value of type {type(value).__name__}"


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The spelling that was probably meant, if any is near."""
    folded = {candidate.lower(): candidate for candidate in words}
    matches = difflib.get_close_matches(word.lower(), folded, n=1)
    return folded[matches[0]] if matches else None


def did_you_mean(word: str, words: Iterable[str]) -> str | None:
    """The hint for a misspelt word, or None when nothing is near."""
    match = nearest(word, words)
    return f"did you mean {match}?" if match else None


def text(value: object, place: Place) -> str:
    """Any text without control characters."""
    if not isinstance(value, str):
        numeric = isinstance(value, (int, float, datetime.date))
        raise place.wrong(value, "text", "put it in quotes" if numeric else None)
    if UNPRINTABLE.search(value):
        raise place.wrong(value, "text without control characters")
    return value


def word(value: object, place: Place) -> str:
    """Text that is not empty, on one line, without space around it."""
    found = text(value, place)
    if not found.strip() or found != found.strip() or "\n" in found:
        raise place.wrong(value, "one line of text that is not empty, without space around it")
    return found


def pattern(regex: str, expected: str) -> Check[str]:
    """Text of a form."""
    compiled = re.compile(regex)

    def check(value: object, place: Place) -> str:
        found = text(value, place)
        if not compiled.fullmatch(found):
            raise place.wrong(value, expected)
        return found

    return check


def choice(*allowed: str) -> Check[str]:
    """One word of a few."""

    def check(value: object, place: Place) -> str:
        if value in allowed:
            return str(value)
        hint = did_you_mean(value, allowed) if isinstance(value, str) else None
        raise place.wrong(value, f"one of {', '.join(allowed)}", hint)

    return check


def flag(value: object, place: Place) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise place.wrong(value, "true or false")
    return value


def whole(least: int) -> Check[int]:
    """A whole number."""

    def check(value: object, place: Place) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _TOO_LARGE:
            raise place.wrong(value, f"a whole number, {least} or more", _unquoted(value))
        return value

    return check


def number(allows: Callable[[float], bool], allowed: str) -> Check[float]:
    """A finite number in a range, which ``allowed`` puts into words."""

    def check(value: object, place: Place) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise place.wrong(value, f"a number {allowed}", _unquoted(value))
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if not math.isfinite(found) or not allows(found):
            raise place.wrong(value, f"a number {allowed}")
        return found

    return check


def _unquoted(value: object) -> str | None:
    try:
        float(value) if isinstance(value, str) else float("x")
    except ValueError:
        return None
    return "write it without quotes"


def optional(check: Check[T]) -> Check[T | None]:
    """A value or null."""
    return lambda value, place: None if value is None else check(value, place)


def section(checks: Mapping[str, Check[object]], required: Iterable[str], build: Callable[..., T]) -> Check[T]:
    """A mapping with known keys, made into what ``build`` returns."""

    def check(value: object, place: Place) -> T:
        found: dict[str, object] = {}
        for key, item in mapping(value, place).items():
            if key not in checks:
                hint = did_you_mean(key, checks) or f"the keys here are {', '.join(checks)}"
                raise place.under(key).error("unknown key", hint)
            found[key] = checks[key](item, place.under(key))
        for key in required:
            if key not in found:
                raise place.under(key).error("missing", f"add the key {key}")
        return build(**found)

    return check


def mapping(value: object, place: Place) -> Mapping[str, object]:
    """A mapping whose keys are text."""
    if not isinstance(value, Mapping):
        raise place.wrong(value, "a mapping of keys to values")
    for key in value:
        if not isinstance(key, str):
            raise place.error(f"found the key {described(key)}, expected text as a key", "put it in quotes")
    return value


def plain(value: object, place: Place) -> dict[str, Any]:
    """A mapping of plain values, copied: text, numbers, true, false, null, lists and mappings of them."""
    budget = iter(range(MOST_VALUES))

    def copied(item: object, here: Place, depth: int) -> object:
        if next(budget, None) is None or depth > _DEEPEST:
            raise place.error(f"too large: at most {MOST_VALUES} values, {_DEEPEST} deep")
        match item:
            case Mapping():
                return {key: copied(entry, here.under(key), depth + 1) for key, entry in mapping(item, here).items()}
            case list():
                return [copied(entry, here, depth + 1) for entry in item]
            case str():
                return text(item, here)
            case None | bool():
                return item
            case int() if abs(item) < _TOO_LARGE:
                return item
            case float() if math.isfinite(item):
                return item
            case _:
                raise here.wrong(item, "text, a finite number, true, false, null, a list or a mapping")

    return {key: copied(entry, place.under(key), 1) for key, entry in mapping(value, place).items()}
