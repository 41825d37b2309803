"""What an item may set for itself, and what each of it must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final


class BadLine(Exception):
    """A line that asks for nothing that can be done.

    Args:
        message: what is wrong with it.
        id_: the id that it gave, if that much could be read.
    """

    def __init__(self, message: str, id_: str | int | None = None) -> None:
        super().__init__(message)
        self.message, self.id = message, id_


_SEEDS: Final = 2**63


def _whole(least: int, below: int = 2**31) -> Callable[[object], bool]:
    return lambda value: type(value) is int and least <= value < below


def _number(test: Callable[[float], bool]) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e9:
            return False
        return math.isfinite(value) and test(value)

    return check


def _is_stop(value: object) -> bool:
    stops = [value] if isinstance(value, str) else value
    return isinstance(stops, list) and all(isinstance(stop, str) and stop for stop in stops)


CHECKS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "system": (lambda value: isinstance(value, str), "a string"),
    "max_tokens": (_whole(1), "a whole number from 1 on"),
    "temperature": (_number(lambda x: x >= 0), "a number from 0 on"),
    "top_k": (_whole(0), "a whole number from 0 on"),
    "top_p": (_number(lambda x: 0 < x <= 1), "above 0 and at most 1"),
    "min_p": (_number(lambda x: 0 <= x <= 1), "between 0 and 1"),
    "repetition_penalty": (_number(lambda x: x > 0), "a number above 0"),
    "seed": (_whole(0, _SEEDS), "a whole number from 0 to 2^63 - 1"),
    "stop": (_is_stop, "a string or a list of strings, none of them empty"),
}


def read_settings(found: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that an object has; null is as if it were not there.

    Raises:
        BadLine: one of them is not what it must be.
    """
    settings = {}
    for key, (check, wanted) in CHECKS.items():
        value = found.get(key)
        if value is None:
            continue
        if not check(value):
            raise BadLine(f"{key} must be {wanted}")
        settings[key] = value
    return settings
