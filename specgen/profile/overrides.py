"""``--set KEY=VALUE``: any key of a profile, changed for one run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specgen.errors import ProfileError
from specgen.profile.checks import described
from specgen.profile.files import parse_yaml
from specgen.profile.parsing import as_data, parse
from specgen.profile.schema import Profile

_SOURCE = "--set"
_KEY = re.compile(r"\w[\w-]*(\.\w[\w-]*)*")
# They describe the model that a profile names, so they go with it.
_OF_THE_MODEL = ("revision", "mirror", "config", "licence", "gated")


def override(profile: Profile, settings: Sequence[str]) -> Profile:
    """A profile with some of its keys changed.

    Args:
        profile: the profile to start from.
        settings: ``KEY=VALUE`` with a dotted key and a YAML value, such as ``target.dtype=float16``. The last one of
            a key wins. Another ``target.model`` takes along what the profile says of the model it replaces.

    Raises:
        ProfileError: for a setting that is not one, and for what the checks of a profile refuse.
    """
    if not settings:
        return profile
    data = as_data(profile)
    chosen: set[str] = set()
    for setting in settings:
        key, value = _split(setting)
        if key in ("target.model", "draft.model"):
            _forget(data, key.partition(".")[0], value, chosen)
        _put(data, key, value)
        chosen.add(key)
    return replace(parse(data, name=profile.name, source=_SOURCE), source=profile.source)


def _split(setting: str) -> tuple[str, object]:
    key, equals, text = setting.partition("=")
    if not equals or not _KEY.fullmatch(key):
        raise ProfileError(f"{_SOURCE}: found {described(setting)}, expected KEY=VALUE", "such as target.dtype=float16")
    return key, parse_yaml(text, f"{_SOURCE}: {key}", inline=True)


def _forget(data: dict[str, Any], side: str, model: object, chosen: set[str]) -> None:
    """Drop what describes the replaced model, but not what another setting chose."""
    spec = data.get(side)
    if isinstance(spec, dict) and spec.get("model") != model:
        for key in _OF_THE_MODEL:
            if not any(other == f"{side}.{key}" or other.startswith(f"{side}.{key}.") for other in chosen):
                spec.pop(key, None)


def _put(data: dict[str, Any], key: str, value: object) -> None:
    *parents, last = key.split(".")
    section = data
    for depth, name in enumerate(parents, 1):
        if section.get(name) is None:
            section[name] = {}
        elif isinstance(section[name], str) and parents[:depth] in (["target"], ["draft"]):
            section[name] = {"model": section[name]}
        if not isinstance(section[name], dict):
            here = ".".join(parents[:depth])
            raise ProfileError(f"{_SOURCE}: {key}: {here} is {described(section[name])}, which has no keys")
        section = section[name]
    section[last] = value
