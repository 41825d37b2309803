"""Choosing a device and an arithmetic for a model."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

from specgen.errors import UsageError

EIGHT_BIT = "int8"
"""A draft's weights in eight bits; the rest of it computes in float32."""
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def pick_devices(wanted: str) -> tuple[torch.device, ...]:
    """Turn ``auto``, one device or a comma-separated list of them into devices; ``auto`` prefers an accelerator.

    Raises:
        UsageError: a device is unknown or not present.
    """
    if wanted == "auto":
        return (_best_device(),)
    return tuple(_present(name.strip()) for name in wanted.split(","))


def _best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda:0")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    if torch.xpu.is_available():
        return torch.device("xpu:0")
    return torch.device("cpu")


def _present(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(
            f"there is no kind of device called {name!r}", "use auto, cpu, cuda, cuda:1, mps or xpu"
        ) from None
    counts = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
        "xpu": torch.xpu.device_count() if torch.xpu.is_available() else 0,
    }
    if (device.index or 0) >= counts.get(device.type, 0):
        here = ", ".join(kind for kind, count in counts.items() if count)
        raise UsageError(f"device {name!r} is not on this machine", f"this machine has: {here}")
    if device.type in ("cuda", "xpu") and device.index is None:
        return torch.device(device.type, 0)
    return device


def pick_dtype(wanted: str, device: torch.device, *, parameters: int | None = None) -> torch.dtype:
    """Turn ``auto`` into the arithmetic that suits the device; other names are taken as they are.

    ``auto`` is bfloat16 where the hardware computes it natively. Elsewhere an accelerator gets float16, and a CPU
    float32, or bfloat16 when float32 would not leave half of the free memory.

    Args:
        wanted: ``auto``, ``EIGHT_BIT`` or a key of ``DTYPES``.
        device: where the model will be.
        parameters: their number, where known.
    """
    if wanted == EIGHT_BIT:
        return torch.float32
    if wanted != "auto":
        return DTYPES[wanted]
    if native_bfloat16(device):
        return torch.bfloat16
    if device.type != "cpu":
        return torch.float16
    free = _free_memory()
    return torch.bfloat16 if parameters and free and 4 * parameters > free / 2 else torch.float32


def native_bfloat16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16 itself (CUDA 8.0, XPU, CPUs with AVX512-BF16, AMX or Arm's BF16)."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "xpu":
        return True
    if device.type != "cpu":
        return False
    if platform.machine().lower() in ("x86_64", "amd64"):
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    features = Path("/proc/cpuinfo")
    return features.exists() and " bf16" in features.read_text(errors="replace")


def _free_memory() -> int | None:
    import psutil

    return int(psutil.virtual_memory().available)
