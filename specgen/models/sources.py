"""Where a model's files are: a folder, the hub's cache, specgen's cache, the hub, or a mirror, in this order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specgen.errors import MissingWeights, ModelError
from specgen.models import hub, mirror
from specgen.models.convert import require_gguf
from specgen.models.folder import CONFIG, check_folder
from specgen.models.headers import read_gguf
from specgen.models.progress import Progress, silent
from specgen.models.store import models_folder

if TYPE_CHECKING:
    from specgen.profile import Mirror, ModelSpec

__all__ = ["Located", "Progress", "cached", "locate", "silent"]


@dataclass(frozen=True, slots=True)
class Located:
    """Where a model's files are, ready for ``from_pretrained``.

    Attributes:
        path: a local folder: the model's own, a snapshot, a converted one, or the one that holds a GGUF file.
        gguf_file: the name of the weights in that folder when they are a GGUF file.
        revision: the commit, where known.
        origin: ``folder``, ``hub``, ``mirror`` or ``gguf``.
    """

    path: str
    gguf_file: str | None = None
    revision: str | None = None
    origin: str = "folder"

    @property
    def file(self) -> str:
        """The folder, or the GGUF file in it: what a user would name to get the same weights."""
        return str(Path(self.path) / self.gguf_file) if self.gguf_file else self.path


def cached(spec: ModelSpec) -> Located | None:
    """Return what is on this machine, without the network; ``None`` when it is not.

    Raises:
        MissingWeights: the spec names a local folder or file that is not there or not complete.
        ModelError: something is there and damaged.
    """
    if local := _local(spec):
        return local
    if snapshot := hub.cached(spec):
        return Located(str(snapshot), revision=snapshot.name, origin="hub")
    if spec.mirror and (folder := mirror.converted(spec.mirror)):
        return Located(str(folder), origin="mirror")
    return None


def locate(
    spec: ModelSpec, *, offline: bool = False, progress: Progress = silent, profile: str | None = None
) -> Located:
    """Return where a model's files are, after downloading them if need be.

    Args:
        spec: the model.
        offline: use what is on this machine only.
        progress: told about downloads and conversions.
        profile: the profile that the spec is from, for the hints.

    Raises:
        MissingWeights: naming what is missing, where it was looked for, and the command that would get it.
    """
    if found := cached(spec):
        return found
    if offline:
        raise _absent(spec, profile)
    try:
        snapshot = hub.download(spec, progress)
    except ModelError as refusal:
        if spec.mirror is None:
            raise
        return _mirrored(spec, spec.mirror, refusal, progress)
    return Located(str(snapshot), revision=snapshot.name, origin="hub")


def _mirrored(spec: ModelSpec, source: Mirror, refusal: ModelError, progress: Progress) -> Located:
    lead = f"cannot get {spec.model}: "
    try:
        return Located(str(mirror.fetch(spec, source, progress)), origin="mirror")
    except ModelError as error:
        raise MissingWeights(
            f"{lead}{refusal.message.removeprefix(lead)}; its mirror: {error.message}", error.hint or refusal.hint
        ) from error


def _absent(spec: ModelSpec, profile: str | None) -> MissingWeights:
    found = f", where {gap}" if (gap := hub.gap(spec)) else ""
    places = f"the hub's cache {hub.cache()}{found}"
    if spec.mirror:
        places += f" and specgen's cache {models_folder()}"
    pull = f"specgen pull {profile or 'PROFILE'}"
    return MissingWeights(
        f"{spec.model} is not on this machine: looked in {places}",
        f"with a network: {pull}, or: hf download {spec.model}",
    )


def _local(spec: ModelSpec) -> Located | None:
    path = Path(spec.model).expanduser()
    if path.suffix.lower() == ".gguf":
        return _gguf(path, spec.model)
    if path.is_dir() and (_is_path(spec.model) or (path / CONFIG).is_file()):
        check_folder(path, lambda name: f"copy {name} there again from where the model came from")
        return Located(str(path.absolute()))
    if path.is_file():
        raise MissingWeights(f"{path} is a file; a model is its folder, or a .gguf file", f"name {path.parent}")
    if _is_path(spec.model):
        raise MissingWeights(f"there is no folder {path}", "check `model` in the profile")
    return None


def _is_path(model: str) -> bool:
    """Whether a name can only be a path: hub ids have one slash at most and start with a letter or a digit."""
    return model.startswith((".", "~")) or "\\" in model or model.count("/") > 1 or Path(model).is_absolute()


def _gguf(path: Path, model: str) -> Located:
    if not path.is_file():
        parts = model.split("/")
        on_hub = len(parts) == 3 and not _starts_like_path(model)
        hint = f"hf download {parts[0]}/{parts[1]} {parts[2]}, then name the file that it prints" if on_hub else None
        raise MissingWeights(f"there is no file {path}", hint or "check `model` in the profile")
    read_gguf(path, "download or copy the file again")
    require_gguf()
    path = path.absolute()
    return Located(str(path.parent), gguf_file=path.name, origin="gguf")


def _starts_like_path(model: str) -> bool:
    return model.startswith((".", "~", "/"))
