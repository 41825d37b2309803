"""Whether a folder holds a model that can be loaded: its config, and every shard of its weights, whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specgen.errors import MissingWeights, ModelError
from specgen.models.headers import check_safetensors

CONFIG = "config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
# One of these is in every folder that AutoTokenizer can read.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")

Mend = Callable[[str], str]


def check_folder(folder: Path, mend: Mend) -> None:
    """Raise when a folder's config or safetensors weights are missing (``MissingWeights``) or damaged.

    Args:
        folder: a folder as ``save_pretrained`` and the hub lay it out.
        mend: gives the hint for one file: how to get a good copy of it.
    """
    if not (folder / CONFIG).is_file():
        raise MissingWeights(f"{folder} holds no {CONFIG}", _other_weights(folder) or mend(CONFIG))
    _json(folder / CONFIG, mend)
    for name in _weights(folder, mend):
        if not (folder / name).is_file():
            raise MissingWeights(f"{folder} lacks {name}, a shard that its index names", mend(name))
        check_safetensors(folder / name, mend(name))


def has_tokenizer(folder: Path) -> bool:
    """Whether there is something to read text with."""
    return any((folder / name).is_file() for name in TOKENIZERS)


def _weights(folder: Path, mend: Mend) -> list[str]:
    """Name the weight files in the order transformers looks for them: the single file wins over the index."""
    if (folder / SINGLE).is_file():
        return [SINGLE]
    if (folder / INDEX).is_file():
        shards = _json(folder / INDEX, mend).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise ModelError(f"{folder / INDEX} names no shards", mend(INDEX))
        return sorted({str(name) for name in shards.values()})
    raise MissingWeights(f"{folder} holds neither {SINGLE} nor {INDEX}", _other_weights(folder) or mend(SINGLE))


def _other_weights(folder: Path) -> str | None:
    """Say what to do with weights of a kind that is not loaded."""
    if found := sorted(folder.glob("*.gguf")):
        return f"name the file: {found[0]}"
    if any(next(folder.glob(pattern), None) for pattern in PICKLED):
        return "pickled weights are not loaded, they can run code: save the model again with save_pretrained()"
    return None


def _json(path: Path, mend: Mend) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON", mend(path.name)) from error
    if not isinstance(data, dict):
        raise ModelError(f"{path} is not a JSON object", mend(path.name))
    return data
