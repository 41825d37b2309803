"""Profiles: YAML files that name a target, its draft, and how to run them.

A profile holds plain values only; nothing in it is executed or taken from the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from specgen.profile.files import parse_yaml, read_text, to_yaml
from specgen.profile.lookup import Found, config_folder, find, listing
from specgen.profile.overrides import override
from specgen.profile.parsing import as_data, parse
from specgen.profile.schema import (
    ACCEPTANCE_RULES,
    AUTO,
    AUTO_MOST,
    DRAFT_DTYPES,
    DTYPES,
    Mirror,
    ModelSpec,
    Profile,
    Sampling,
    most_proposed,
)

__all__ = [
    "ACCEPTANCE_RULES",
    "AUTO",
    "AUTO_MOST",
    "DRAFT_DTYPES",
    "DTYPES",
    "Found",
    "Mirror",
    "ModelSpec",
    "Profile",
    "Sampling",
    "as_data",
    "config_folder",
    "find",
    "listing",
    "load_profile",
    "most_proposed",
    "override",
    "parse",
    "read_profile",
    "to_yaml",
]


def load_profile(
    name_or_path: str,
    overrides: Sequence[str] = (),
    *,
    env: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
) -> Profile:
    """Find a profile, read it and change some of its keys.

    Args:
        name_or_path: a path when it has a separator or ends in ``.yaml`` or ``.yml``, else a name to look up.
        overrides: ``KEY=VALUE`` settings, the values parsed as YAML.
        env: the environment, for ``SPECGEN_PROFILES`` and the user's configuration folder.
        cwd: what relative paths are relative to; None is the current folder.

    Raises:
        ProfileError: when there is no such profile or something in it is wrong.
    """
    return override(read_profile(find(name_or_path, env=env, cwd=cwd)), overrides)


def read_profile(path: Path) -> Profile:
    """Read one file; model paths in it that start with ``./`` or ``../`` are taken from its folder.

    Raises:
        ProfileError: when it cannot be read or something in it is wrong.
    """
    profile = parse(parse_yaml(read_text(path), str(path)), name=path.stem, source=str(path))
    return replace(
        profile,
        target=_anchored(profile.target, path.parent),
        draft=profile.draft and _anchored(profile.draft, path.parent),
    )


def _anchored(spec: ModelSpec, folder: Path) -> ModelSpec:
    if not spec.model.startswith(("./", "../")):
        return spec
    return replace(spec, model=os.path.normpath(folder.absolute() / spec.model))
