"""What is known of a model without its weights: its config, and what its files' headers say."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specgen.errors import ModelError
from specgen.memory.errors import CannotTell

if TYPE_CHECKING:
    from specgen.profile import ModelSpec


@dataclass(frozen=True, slots=True)
class Stored:
    """The tensors in a model's files.

    Attributes:
        by_dtype: bytes by the name of the data type.
        numbers: how many numbers they hold.
        tensors: shape of each, by name; empty where the source does not say.
        source: ``safetensors header``, ``GGUF tensor table``.
    """

    by_dtype: Mapping[str, int]
    numbers: int
    tensors: Mapping[str, tuple[int, ...]]
    source: str

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return sum(self.by_dtype.values())


@dataclass(frozen=True, slots=True)
class Known:
    """A model as the planner sees it.

    Attributes:
        name: the last part of its id or path.
        numbers: of its ``config.json``.
        stored: what its files hold; None when only the config is known.
        origin: ``folder``, ``hub``, ``mirror``, ``gguf``, ``config`` or ``profile``.
    """

    name: str
    numbers: Mapping[str, Any]
    stored: Stored | None
    origin: str
    path: str | None = field(default=None)


def find(spec: ModelSpec, *, offline: bool) -> Known:
    """Find a model's config and headers: on this machine, in the profile, then on the hub.

    Args:
        spec: the model.
        offline: never use the network.

    Raises:
        CannotTell: they are nowhere, or damaged.
    """
    name = spec.model.rstrip("/").rpartition("/")[2] or spec.model
    try:
        here = _here(spec, name)
    except ModelError as error:
        raise CannotTell(f"cannot plan {name}: {error.message}", error.hint) from error
    if here is not None:
        return here
    if spec.config:
        return Known(name, spec.config, None, "profile")
    if offline:
        raise CannotTell(
            f"cannot plan {name}: neither its config nor its headers are on this machine",
            "without --offline they are read from the hub; or name a folder with its config.json",
        )
    return _hub(spec, name)


def _here(spec: ModelSpec, name: str) -> Known | None:
    from specgen.models.sources import cached

    path = Path(spec.model).expanduser()
    if path.suffix == ".json" and path.is_file():
        return Known(path.parent.name, _numbers(path), None, "config", str(path.parent))
    if path.suffix == ".safetensors" and path.is_file() and (path.parent / "config.json").is_file():
        return Known(path.parent.name, _numbers(path.parent / "config.json"), _safetensors([path]), "folder")
    if (path / "config.json").is_file() and not any(path.glob("*.safetensors*")) and not any(path.glob("*.gguf")):
        return Known(name, _numbers(path / "config.json"), None, "config", str(path))
    place = cached(spec)
    if place is None:
        return None
    folder = Path(place.path)
    if place.gguf_file:
        return Known(name, _gguf_numbers(place.path, place.gguf_file), _gguf(folder / place.gguf_file), "gguf")
    index = folder / "model.safetensors.index.json"
    files = [folder / "model.safetensors"]
    if not files[0].is_file():
        files = [folder / shard for shard in sorted(set(json.loads(index.read_bytes())["weight_map"].values()))]
    return Known(name, _numbers(folder / "config.json"), _safetensors(files), place.origin, place.path)


def _numbers(path: Path) -> dict[str, Any]:
    try:
        numbers = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CannotTell(f"cannot read {path}: it is not JSON", "copy it again from where the model is from") from error
    if not isinstance(numbers, dict):
        raise CannotTell(f"{path} is not a JSON object", "copy it again from where the model is from")
    return numbers


def _safetensors(files: list[Path]) -> Stored:
    from specgen.models.headers import check_safetensors

    tensors: dict[str, Mapping[str, Any]] = {}
    for file in files:
        check_safetensors(file, f"copy {file.name} again from where the model is from")
        with file.open("rb") as stream:
            tensors |= json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    tensors.pop("__metadata__", None)
    return stored({name: (t["dtype"], tuple(t["shape"]), t["data_offsets"]) for name, t in tensors.items()})


def stored(tensors: Mapping[str, tuple[str, tuple[int, ...], Any]]) -> Stored:
    """Add up a safetensors header: data type, shape and the two offsets of each tensor."""
    by_dtype: dict[str, int] = {}
    for dtype, _, (start, stop) in tensors.values():
        by_dtype[dtype] = by_dtype.get(dtype, 0) + stop - start
    shapes = {name: shape for name, (_, shape, _) in tensors.items()}
    return Stored(by_dtype, sum(math.prod(shape) for shape in shapes.values()), shapes, "safetensors header")


def _gguf(path: Path) -> Stored:
    from gguf import GGUFReader

    by_dtype: dict[str, int] = {}
    numbers = 0
    for tensor in GGUFReader(path).tensors:
        kind = tensor.tensor_type.name
        by_dtype[kind] = by_dtype.get(kind, 0) + int(tensor.n_bytes)
        numbers += int(tensor.n_elements)
    return Stored(by_dtype, numbers, {}, "GGUF tensor table")


def _gguf_numbers(folder: str, file: str) -> dict[str, Any]:
    from transformers import AutoConfig

    try:
        numbers: dict[str, Any] = AutoConfig.from_pretrained(folder, gguf_file=file, local_files_only=True).to_dict()
    except (ValueError, KeyError, OSError, ImportError) as error:
        raise CannotTell(
            f"cannot plan {file}: transformers does not know its architecture", str(error)[:200]
        ) from error
    return numbers


def _hub(spec: ModelSpec, name: str) -> Known:
    """Read the config and the headers over the network: a few kilobytes of each file, by HTTP range."""
    from specgen.models.hub_errors import explain

    try:
        from huggingface_hub import get_safetensors_metadata, hf_hub_download

        # In this order: a download that reaches nobody is tried again and again, for 23 seconds.
        found = get_safetensors_metadata(spec.model, revision=spec.revision)
        config = hf_hub_download(spec.model, "config.json", revision=spec.revision)
    except Exception as error:  # the client's errors come from three libraries and have no common class
        reason = explain(error, spec, 10.0)
        raise CannotTell(
            f"cannot plan {name}: {reason.message}", reason.hint or "name a folder with its config.json"
        ) from error
    tensors = {
        key: (tensor.dtype, tuple(tensor.shape), tensor.data_offsets)
        for file in found.files_metadata.values()
        for key, tensor in file.tensors.items()
    }
    return Known(name, _numbers(Path(config)), stored(tensors), "hub")
