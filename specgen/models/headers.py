"""What weight files say about themselves: safetensors and GGUF headers, read without loading a weight."""

from __future__ import annotations

import json
import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from specgen.errors import ModelError

# safetensors itself refuses longer headers.
LONGEST_HEADER = 100_000_000
LFS_POINTER = b"version https://git-lfs"


def check_safetensors(path: Path, hint: str) -> None:
    """Refuse a file that is cut short or is no safetensors file, from its header and its size alone.

    Args:
        path: the file.
        hint: how to get a good copy.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            start = file.read(8)
            if start + file.read(len(LFS_POINTER) - 8) == LFS_POINTER:
                raise ModelError(f"{path} is a git-lfs pointer, not the weights", "git lfs pull, in that folder")
            length = int.from_bytes(start, "little")
            if len(start) < 8 or not 2 <= length <= LONGEST_HEADER:
                raise ModelError(f"{path} is not a safetensors file", hint)
            if length > size - 8:
                raise ModelError(f"{path} is cut short inside its header ({size:,} bytes)", hint)
            file.seek(8)
            expected = 8 + length + _data_bytes(file.read(length))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelError(f"{path} has a damaged safetensors header", hint) from error
    if expected != size:
        fault = "is cut short" if size < expected else "has bytes after its end"
        raise ModelError(f"{path} {fault}: {size:,} bytes, its header says {expected:,}", hint)


def _data_bytes(header: bytes) -> int:
    entries: dict[str, Any] = json.loads(header)
    return max((int(entry["data_offsets"][1]) for name, entry in entries.items() if name != "__metadata__"), default=0)


Scalar = int | float | bool | str


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file holds.

    Attributes:
        metadata: the scalars and strings of its key-value part; arrays are left out.
        weights: how many numbers its tensors hold.
        size: the bytes that the file must have to hold the start of its last tensor.
    """

    metadata: Mapping[str, Scalar]
    weights: int
    size: int

    def token(self, name: str) -> int | None:
        """Return the id of one of the tokenizer's special tokens, such as ``eos``, where the file gives it."""
        value = self.metadata.get(f"tokenizer.ggml.{name}_token_id")
        return None if value is None else int(value)


# GGUF value types by number; 8 is a string and 9 an array.
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


class _Cursor:
    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def scalar(self, form: str) -> int | float | bool:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return cast("int | float | bool", value)

    def number(self, form: str) -> int:
        return int(self.scalar(form))

    def skip(self, count: int) -> None:
        if count > len(self.data) - self.at:
            raise ValueError(count)
        self.at += count

    def string(self) -> str:
        length = self.number("<Q")
        start = self.at
        self.skip(length)
        return self.data[start : self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Scalar | None:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            self.skip_array(self.number("<I"), self.number("<Q"))
            return None
        return self.scalar(_SCALARS[kind])

    def skip_array(self, kind: int, count: int) -> None:
        if kind in _SCALARS:
            self.skip(count * struct.calcsize(_SCALARS[kind]))
            return
        for _ in range(count):
            if kind == _STRING:
                self.skip(self.number("<Q"))
            else:
                self.value(kind)


def read_gguf(path: Path, hint: str) -> GgufHeader:
    """Read a GGUF header; a file that is none, or is cut short, is refused.

    Args:
        path: the file.
        hint: how to get a good copy.
    """
    try:
        with path.open("rb") as file:
            if (start := file.read(8))[:4] != b"GGUF":
                raise ModelError(f"{path} is not a GGUF file: it starts with {start[:4]!r}", hint)
            # Version 1 counted in 32 bits and is long gone; a big-endian file shows a huge number here.
            if (version := int.from_bytes(start[4:], "little")) not in (2, 3):
                raise ModelError(f"{path} is GGUF version {version}; 2 and 3 can be read", hint)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                header = _parse(_Cursor(data))
                size = len(data)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    except (struct.error, KeyError, ValueError, OverflowError, RecursionError) as error:
        raise ModelError(f"{path} is cut short or damaged: its GGUF header cannot be read", hint) from error
    if size < header.size:
        raise ModelError(f"{path} is cut short: {size:,} bytes, its tensors need more than {header.size:,}", hint)
    return header


def _parse(cursor: _Cursor) -> GgufHeader:
    cursor.skip(8)
    tensors, pairs = cursor.number("<Q"), cursor.number("<Q")
    metadata: dict[str, Scalar] = {}
    for _ in range(pairs):
        key = cursor.string()
        value = cursor.value(cursor.number("<I"))
        if value is not None:
            metadata[key] = value
    weights = last = 0
    for _ in range(tensors):
        cursor.string()
        weights += math.prod(cursor.number("<Q") for _ in range(cursor.number("<I")))
        cursor.skip(4)
        last = max(last, cursor.number("<Q"))
    alignment = int(metadata.get("general.alignment", 32))
    start = -(-cursor.at // alignment) * alignment
    return GgufHeader(metadata, weights, start + last + (1 if tensors else 0))
