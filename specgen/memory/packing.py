"""Linear weights in the order of a CPU's kernels, as ``models/packing.py`` makes them: where, and how many bytes."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.memory.free import Memory

# Blocks of outputs and inputs that a matrix is padded to, measured with AVX2. Real models' sizes are whole blocks, but
# for some vocabularies.
_OUTPUTS, _INPUTS = 64, 16


def packs(dtype: str, devices: Sequence[Memory]) -> bool:
    """Whether a model of this arithmetic is packed where it runs."""
    if dtype != "float32" or len(devices) != 1 or devices[0].kind != "cpu":
        return False
    import torch

    from specgen.models.packing import can_pack

    return can_pack(torch.float32, torch.device("cpu"))


def packed_bytes(outputs: int, inputs: int) -> int:
    """Bytes of one packed float32 matrix; a single row of numbers has no other order."""
    if outputs == 1:
        return 4 * inputs
    return 4 * (-(-outputs // _OUTPUTS) * _OUTPUTS) * (-(-inputs // _INPUTS) * _INPUTS)
