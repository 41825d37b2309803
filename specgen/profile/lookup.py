"""Where profiles are: a path, the user's folders, and the profiles that are shipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from specgen.errors import ProfileError
from specgen.profile.checks import described, did_you_mean, nearest

_SUFFIXES = (".yaml", ".yml")
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Found:
    """A profile's file.

    Attributes:
        name: its stem.
        path: the file.
        shadowed: whether a file of the same name comes earlier in the lookup order.
        place: the folder in words: ``shipped``, ``./profiles``, or its path.
    """

    name: str
    path: Path
    shadowed: bool
    place: str


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path
    place: str


def config_folder(env: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The user's configuration folder: what ``click.get_app_dir("specgen")`` gives, without click."""
    home = Path(env.get("USERPROFILE" if platform == "win32" else "HOME") or Path.home())
    if platform == "win32":
        return Path(env.get("APPDATA") or home) / "specgen"
    if platform == "darwin":
        return home / "Library" / "Application Support" / "specgen"
    return Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "specgen"


def shipped_folder() -> Path:
    """The profiles of the wheel, or of the checkout that this module runs from."""
    packaged = _PACKAGE / "_profiles"
    checkout = _PACKAGE.parent
    return checkout / "profiles" if not packaged.is_dir() and (checkout / "pyproject.toml").is_file() else packaged


def _folders(env: Mapping[str, str], cwd: Path) -> Iterator[_Folder]:
    named = [part for part in env.get("SPECGEN_PROFILES", "").split(os.pathsep) if part]
    user = config_folder(env) / "profiles"
    candidates = [
        *(_Folder(cwd / part, part) for part in named),
        _Folder(cwd / "profiles", "./profiles"),
        _Folder(user, str(user)),
        _Folder(shipped_folder(), "shipped"),
    ]
    seen = set()
    for folder in candidates:
        real = folder.path.resolve()
        if real not in seen:
            seen.add(real)
            yield folder


def listing(*, env: Mapping[str, str] = os.environ, cwd: Path | None = None) -> list[Found]:
    """Every profile that a name can mean, in lookup order; the first of a name wins."""
    found: list[Found] = []
    names: set[str] = set()
    for folder in _folders(env, cwd or Path()):
        for path in _profiles_in(folder.path):
            found.append(Found(path.stem, path, path.stem in names, folder.place))
            names.add(path.stem)
    return found


def _profiles_in(folder: Path) -> list[Path]:
    try:
        files = [path for path in folder.iterdir() if path.suffix in _SUFFIXES and not path.name.startswith(".")]
    except OSError:
        return []
    return sorted((path for path in files if path.is_file()), key=lambda path: (path.stem, path.suffix))


def find(name_or_path: str, *, env: Mapping[str, str] = os.environ, cwd: Path | None = None) -> Path:
    """The file of a profile.

    Args:
        name_or_path: a path when it has a separator or ends in ``.yaml`` or ``.yml``, else a name to look up.
        env: the environment, for ``SPECGEN_PROFILES`` and the user's configuration folder.
        cwd: what relative paths are relative to; None is the current folder.

    Raises:
        ProfileError: when there is none.
    """
    base = cwd or Path()
    if _is_path(name_or_path):
        return _existing(base / name_or_path)
    known = listing(env=env, cwd=cwd)
    for found in known:
        if found.name == name_or_path:
            return found.path
    looked = ", ".join(folder.place for folder in _folders(env, base)).replace("shipped", "the shipped ones")
    names = [found.name for found in known]
    hint = did_you_mean(name_or_path, names) or "`specgen profiles list` shows the profiles there are"
    raise ProfileError(f"no profile named {described(name_or_path)} (looked in {looked})", hint)


def _is_path(name: str) -> bool:
    separators = {"/", os.sep, os.altsep or os.sep}
    return name.endswith(_SUFFIXES) or any(separator in name for separator in separators)


def _existing(path: Path) -> Path:
    if path.exists():
        return path
    near = nearest(path.name, [neighbour.name for neighbour in _profiles_in(path.parent)])
    hint = f"did you mean {path.parent / near}?" if near else "a name without a folder or .yaml is looked up instead"
    raise ProfileError(f"no profile at {path}", hint)
