"""Bytes of quantized weights: bitsandbytes counts them from shapes, the other formats state them in their headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# transformers never quantizes the head.
_ALWAYS = ("lm_head",)
_BLOCK = 64
_NESTED_BLOCK = 256
# The table of 16 values that a 4-bit state carries, in float32; double quantization adds one of 256 and an offset.
_CODE = 64
_NESTED_CODE = 1024 + 4


@dataclass(frozen=True, slots=True)
class Scheme:
    """How weights are kept.

    Attributes:
        method: ``int8``, ``nf4`` or ``nf4-double``.
        skip: modules that stay as they are.
    """

    method: str
    skip: tuple[str, ...] = _ALWAYS

    @property
    def unpacks(self) -> bool:
        """Whether a matrix is turned back into numbers before it is multiplied by more than one column."""
        return self.method.startswith("nf4")


SCHEMES = ("int8", "nf4", "nf4-double")


def linear_bytes(scheme: Scheme, rows: int, columns: int) -> int:
    """Bytes of one quantized matrix and its scales, as bitsandbytes 0.50 lays them out.

    Args:
        scheme: one of ``SCHEMES``.
        rows: output features.
        columns: input features.
    """
    count = rows * columns
    if scheme.method == "int8":
        return count + 4 * rows
    packed, blocks = -(-count // 2), -(-count // _BLOCK)
    if scheme.method == "nf4":
        return packed + 4 * blocks + _CODE
    return packed + blocks + 4 * -(-blocks // _NESTED_BLOCK) + _CODE + _NESTED_CODE


@dataclass(frozen=True, slots=True)
class Packed:
    """What a checkpoint says about its own quantization.

    Attributes:
        method: ``gptq``, ``awq``, ``fp8``, ``mxfp4``, ``bitsandbytes``, ``compressed-tensors``, ...
        stays: whether this machine can use the weights as they are stored.
        reason: why not.
    """

    method: str
    stays: bool
    reason: str | None = None


def packed(numbers: Mapping[str, Any], device: str, capability: tuple[int, int] | None = None) -> Packed | None:
    """Read ``quantization_config``; None when there is none.

    Args:
        numbers: the model's config.
        device: ``cpu``, ``cuda``, ...
        capability: of a CUDA device; None is unknown.
    """
    settings = numbers.get("quantization_config")
    if not isinstance(settings, Mapping):
        return None
    method = str(settings.get("quant_method") or _bitsandbytes(settings)).lower()
    reason = None
    if settings.get("dequantize") is True:
        reason = "its config asks for it"
    elif method == "fp8" and (device not in ("cuda", "xpu") or (capability is not None and capability < (8, 9))):
        reason = f"FP8 needs compute capability 8.9, {_found(device, capability)}"
    elif method == "mxfp4":
        reason = _no_mxfp4(device, capability)
    return Packed(method, reason is None, reason)


def _bitsandbytes(settings: Mapping[str, Any]) -> str:
    return "bitsandbytes" if settings.get("load_in_4bit") or settings.get("load_in_8bit") else "unknown"


def _found(device: str, capability: tuple[int, int] | None) -> str:
    return f"this is {device}" if capability is None else f"this has {capability[0]}.{capability[1]}"


def _no_mxfp4(device: str, capability: tuple[int, int] | None) -> str | None:
    from importlib.util import find_spec

    if device not in ("cuda", "xpu") or (capability is not None and capability < (7, 5)):
        return f"MXFP4 needs a CUDA device of capability 7.5, {_found(device, capability)}"
    missing = [name for name in ("triton", "kernels") if find_spec(name) is None]
    return f"MXFP4 needs the packages {' and '.join(missing)}" if missing else None
