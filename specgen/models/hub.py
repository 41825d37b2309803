"""The Hugging Face hub: its cache on this machine, and downloads that leave pickled weights alone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from specgen.errors import MissingWeights
from specgen.models import hub_worker, store
from specgen.models.folder import CONFIG, INDEX, SINGLE, check_folder, has_tokenizer
from specgen.models.hub_errors import explain
from specgen.models.progress import Progress, growing

if TYPE_CHECKING:
    from specgen.profile import ModelSpec

SETTING = "HF_HUB_CACHE"
TEXT_SUFFIXES = (".json", ".model", ".txt", ".jinja")
TEMPLATES = "additional_chat_templates/"
# With a mirror to turn to, a hub that is this late counts as absent.
SHORT_PATIENCE = 5.0

Answer = TypeVar("Answer")


def cache() -> Path:
    """Return the hub's cache on this machine."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def cached(spec: ModelSpec) -> Path | None:
    """Return a complete snapshot on this machine, ``None`` when there is none; a damaged one raises."""
    snapshot = _snapshot(spec)
    return snapshot if snapshot and _gap(snapshot, spec) is None else None


def gap(spec: ModelSpec) -> str | None:
    """Say what a snapshot on this machine lacks; ``None`` when there is none, or nothing is missing."""
    snapshot = _snapshot(spec)
    return _gap(snapshot, spec) if snapshot else None


def _snapshot(spec: ModelSpec) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(spec.model, CONFIG, revision=spec.revision)
    except HFValidationError:
        return None
    return Path(config).parent if isinstance(config, str) else None


def _gap(snapshot: Path, spec: ModelSpec) -> str | None:
    try:
        check_folder(snapshot, _mend(spec))
    except MissingWeights as error:
        return error.message
    return None if has_tokenizer(snapshot) else f"{snapshot} holds no tokenizer"


def _mend(spec: ModelSpec) -> Callable[[str], str]:
    revision = f" --revision {spec.revision}" if spec.revision else ""
    return lambda name: f"hf download {spec.model} {name}{revision} --force-download"


def download(spec: ModelSpec, progress: Progress) -> Path:
    """Download a snapshot: config, tokenizer and safetensors weights, nothing else.

    Args:
        spec: the model; with a mirror, a slow hub is given up sooner.
        progress: told about the stages.

    Raises:
        MissingWeights: saying in one line why the hub could not give it.
    """
    patience = _patience(spec)
    with progress.stage(f"asking the hub for {spec.model}"):
        files = _wanted(spec, _ask(spec, patience))
    missing = _not_cached(spec, files)
    store.require_space(cache(), missing, SETTING)
    with progress.stage(f"downloading {spec.model}", missing) as advance, growing(_blobs(spec), advance, missing):
        answer = hub_worker.fetch(spec, sorted(files), patience, _settings())
    if "folder" not in answer:
        logging.getLogger(__name__).debug("the download of %s failed: %s", spec.model, answer.get("detail"))
        if answer.get("full"):
            raise store.no_space(cache(), None, SETTING, store.free_bytes(cache()))
        raise MissingWeights(answer["message"], answer["hint"])
    folder = Path(answer["folder"])
    check_folder(folder, _mend(spec))
    return folder


def _settings() -> dict[str, str]:
    from huggingface_hub import constants

    return {"HF_ENDPOINT": str(constants.ENDPOINT), SETTING: str(cache())}


def _ask(spec: ModelSpec, patience: float) -> dict[str, int]:
    try:
        return _bounded(lambda: _listing(spec, patience), patience * (1 if spec.mirror else 3))
    except Exception as error:  # the client's errors come from three libraries and have no common class
        raise explain(error, spec, patience) from error


def _listing(spec: ModelSpec, patience: float) -> dict[str, int]:
    """Ask for the names and sizes of a repository's files, without the retries that a download has."""
    from huggingface_hub import HfApi

    info = HfApi().model_info(spec.model, revision=spec.revision, files_metadata=True, timeout=patience)
    return {file.rfilename: file.size or 0 for file in info.siblings or ()}


def _patience(spec: ModelSpec) -> float:
    from huggingface_hub import constants

    usual = float(constants.HF_HUB_ETAG_TIMEOUT)
    return min(SHORT_PATIENCE, usual) if spec.mirror else usual


def _bounded(ask: Callable[[], Answer], seconds: float) -> Answer:
    """Run a request with a limit on the whole of it: no setting limits how long looking a name up may take."""
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(ask())
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
            errors.append(error)

    # A daemon, so that a name service that hangs does not hold up the end of the program.
    thread = threading.Thread(target=run, name="specgen-hub", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError
    return answers[0]


def _wanted(spec: ModelSpec, listing: dict[str, int]) -> dict[str, int]:
    """Choose what transformers reads: text files, and either the single weight file or the shards of an index."""
    if CONFIG not in listing:
        gguf = next((name for name in sorted(listing) if name.endswith(".gguf")), None)
        hint = f"hf download {spec.model} {gguf}, then name that file" if gguf else None
        raise MissingWeights(f"{spec.model} on the hub holds no {CONFIG}: it is not a transformers model", hint)
    top = [name for name in listing if "/" not in name or name.startswith(TEMPLATES)]
    texts = [name for name in top if name.endswith(TEXT_SUFFIXES)]
    if SINGLE in listing:
        weights = [SINGLE]
    else:
        # Some repositories hold their weights a second time in the maker's own format.
        weights = [n for n in top if n.endswith(".safetensors") and not n.startswith(("consolidated", "adapter"))]
    if not weights or (SINGLE not in listing and INDEX not in listing):
        raise MissingWeights(
            f"{spec.model} on the hub holds no safetensors weights",
            "pickled weights are not loaded, they can run code: choose a repository with safetensors or GGUF",
        )
    return {name: listing[name] for name in [*texts, *weights]}


def _not_cached(spec: ModelSpec, files: dict[str, int]) -> int:
    from huggingface_hub import try_to_load_from_cache

    here = {n for n in files if isinstance(try_to_load_from_cache(spec.model, n, revision=spec.revision), str)}
    return sum(size for name, size in files.items() if name not in here)


def _blobs(spec: ModelSpec) -> Path:
    return cache() / f"models--{spec.model.replace('/', '--')}" / "blobs"
