"""Linear weights in the order of a CPU's kernels, as they are loaded: where, and how many bytes.

``models/packing.py`` arranges float32, ``models/eight_bit.py`` rounds a draft's to eight bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from specgen.memory.free import Memory

# Blocks of outputs and inputs that a matrix is padded to, measured with AVX2. Real models' sizes are whole blocks, but
# for some vocabularies.
_OUTPUTS, _INPUTS = 64, 16
_EIGHT_BIT_INPUTS = 512
# Beside each output's weights: its scale, its zero point, the sum of its weights, and the scale once more in float64.
_BESIDE = 4 + 4 + 4 + 8


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


def eight_bits(wanted: str, dtype: str, devices: Sequence[Memory]) -> bool:
    """Whether a draft of this arithmetic has its weights in eight bits where it runs."""
    if wanted not in ("auto", "int8") or dtype != "float32" or len(devices) != 1 or devices[0].kind != "cpu":
        return False
    import torch

    from specgen.models.eight_bit import can_quantize

    return can_quantize(torch.float32, torch.device("cpu"))


def eight_bit_bytes(outputs: int, inputs: int) -> int:
    """Bytes of one matrix in eight bits, measured with AVX2: its inputs are padded to whole blocks."""
    return outputs * (-(-inputs // _EIGHT_BIT_INPUTS) * _EIGHT_BIT_INPUTS + _BESIDE)
