"""Specgen's cache of converted models: in place whole or not at all, checked by a manifest, safe for two at once."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from specgen.errors import ModelError
from specgen.models.progress import Progress

MANIFEST = "specgen.json"
# Raised when a folder that an older specgen converted should be converted again.
FORMAT = 1
STALE_SECONDS = 24 * 3600
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def cache_folder(env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Return specgen's cache: ``$SPECGEN_CACHE``, else where the platform keeps caches."""
    if own := env.get("SPECGEN_CACHE"):
        return Path(own).expanduser().absolute()
    if base := env.get("XDG_CACHE_HOME"):
        return Path(base).expanduser().absolute() / "specgen"
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    if platform == "darwin":
        return home / "Library" / "Caches" / "specgen"
    if platform == "win32":
        return Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local") / "specgen"
    return home / ".cache" / "specgen"


def models_folder() -> Path:
    """Return the folder that holds one folder for every converted model."""
    return cache_folder() / "models"


def intact(folder: Path) -> bool:
    """Whether a folder was finished by this format of specgen and every file still has its size."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        files: dict[str, int] = manifest["files"]
        return manifest["format"] == FORMAT and all((folder / n).stat().st_size == s for n, s in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


@contextmanager
def locked(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold a model's folder for oneself; whoever comes second waits, then finds it finished.

    Where the system or the file system has no locks nothing is held; ``settle`` is still safe then.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(f".{folder.name}.lock")
    with lock.open("a") as file:
        held = _lock(file.fileno(), folder, progress)
        _clean(folder, everything=held)
        yield


def _lock(descriptor: int, folder: Path, progress: Progress) -> bool:
    try:
        import fcntl
    except ImportError:
        return False
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.stage(f"waiting for another specgen that prepares {folder.name}"):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def _clean(folder: Path, *, everything: bool) -> None:
    """Remove what killed runs left: everybody's after a day, this model's at once when the lock is held."""
    for left in folder.parent.glob(".*.tmp-*"):
        with suppress(OSError):
            own = everything and left.name.startswith(f".{folder.name}.tmp-")
            if own or time.time() - left.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``folder``, on the same file system, and remove it whatever happens."""
    # Not tempfile.mkdtemp: that makes it private, and a shared cache is to be shared.
    place = _beside(folder)
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def settle(made: Path, folder: Path, source: Mapping[str, Any]) -> None:
    """Write the manifest, make everything durable and move a finished folder into place in one step.

    Args:
        made: the finished folder, in the scratch folder of ``folder``.
        folder: where it belongs. An intact one that somebody else put there meanwhile is kept.
        source: what the manifest says about where the model came from.
    """
    paths = sorted(path for path in made.rglob("*") if path.is_file())
    files = {path.relative_to(made).as_posix(): path.stat().st_size for path in paths}
    manifest = made / MANIFEST
    manifest.write_text(json.dumps({"format": FORMAT, **source, "files": files}, indent=2) + "\n", encoding="utf-8")
    mode = manifest.stat().st_mode & 0o777
    for path in [*paths, manifest]:
        path.chmod(mode)  # safetensors makes its files private, whatever the umask says
        _sync(path)
    _sync(made)
    if folder.exists() and not intact(folder):
        folder.rename(made.parent / "damaged")
    try:
        made.rename(folder)
    except OSError:
        if not intact(folder):
            raise
    _sync(folder.parent)


def is_disk_full(error: BaseException) -> bool:
    """Whether an error, or one that it came from, is the disk's: full, over quota or a file too large."""
    seen: BaseException | None = error
    while seen is not None:
        # Rust's libraries say it in words only.
        words = any(f"(os error {number})" in str(seen) for number in _FULL) or "No space left on device" in str(seen)
        if words or (isinstance(seen, OSError) and seen.errno in _FULL):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def free_bytes(folder: Path) -> int:
    """Return what is free on the disk that a folder, perhaps one that is not there yet, lies on."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def require_space(folder: Path, needed: int, setting: str) -> None:
    """Refuse to start what the disk cannot hold.

    Args:
        folder: where the files will be.
        needed: bytes.
        setting: the environment variable that moves the folder elsewhere.
    """
    if (free := free_bytes(folder)) < needed:
        raise no_space(folder, needed, setting, free)


def no_space(folder: Path, needed: int | None, setting: str, free: int | None = None) -> ModelError:
    """Return the error for a full disk."""
    about = f", about {size(needed)} needed" if needed else ""
    left = f", {size(free)} free" if free is not None else ""
    return ModelError(f"no space left in {folder}{about}{left}", f"free some space, or set {setting} to another disk")


def size(count: int) -> str:
    """Write a number of bytes the way disks are sold: ``269 MB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def _beside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.tmp-{uuid.uuid4().hex[:12]}")


def _sync(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # Windows syncs no file opened for reading and opens no folder, and some network file systems sync no folder.
        # A disk that turns out to be full only now is another matter.
        if error.errno not in (errno.EBADF, errno.EINVAL, errno.EACCES, errno.ENOTSUP):
            raise
