"""A draft's weights in eight bits, on a CPU.

A draft step reads all of the draft's weights for one token, so its time goes with their bytes. Whatever rounding does
to a draft, the text stays the target's: at worst fewer of its tokens are accepted (docs/benchmarks.md has how many).
The target is never rounded.

Weights have one scale for each output, as in LLM.int8 (Dettmers et al. 2022, arXiv 2208.07339). Activations are scaled
to the range of their own token before the kernel rounds them: some tokens, the first above all, are a thousand times as
large as the others, and with one scale for all of them a draft that was right in 85 % of places was right in 14 %.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from specgen.errors import UsageError
from specgen.models.devices import EIGHT_BIT
from specgen.models.packing import can_pack, exchange

_LEAST = 1e-20
_AT_ONCE = 2**22  # numbers


def can_quantize(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether eight bits are known to pay for a draft that would compute in ``dtype``: float32 on an x86 CPU."""
    return can_pack(dtype, device) and bool({"fbgemm", "x86"} & set(torch.backends.quantized.supported_engines))


def in_eight_bits(wanted: str, dtype: torch.dtype, devices: Sequence[torch.device]) -> bool:
    """Whether a draft's weights are in eight bits.

    Args:
        wanted: the profile's ``dtype``.
        dtype: what it came to.
        devices: where the draft is.

    Raises:
        UsageError: it is asked for, and there are no kernels for it.
    """
    possible = len(devices) == 1 and can_quantize(dtype, devices[0])
    if wanted == EIGHT_BIT and not possible:
        raise UsageError(
            f"a draft in {EIGHT_BIT} needs an x86 CPU to run on", "draft.dtype: auto, or draft.device: cpu"
        )
    return possible and wanted in ("auto", EIGHT_BIT)


class EightBitLinear(nn.Module):
    """A linear layer with its weight in eight bits.

    Args:
        linear: the layer that it stands for; its weight is not referred to any more.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        rounded, scales = _rounded(linear.weight.detach())
        zeros = torch.zeros(self.out_features, dtype=torch.long)
        with warnings.catch_warnings():
            # torch means to replace its quantized tensors; the range of its pinned versions has them.
            warnings.filterwarnings("ignore", message=".*quantize.*deprecated", category=UserWarning)
            weight = torch._make_per_channel_quantized_tensor(rounded, scales, zeros, 0)
            del rounded
            self._weight = torch.ops.quantized.linear_prepack(weight, None)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return about ``hidden @ weight.T + bias``, ``[..., out_features]``."""
        most = hidden.abs().amax(-1, keepdim=True).clamp_min_(_LEAST)  # [..., 1]
        product = self.product(hidden / most)
        product *= most
        return product if self.bias is None else product + self.bias

    def product(self, hidden: Tensor) -> Tensor:
        """Return ``hidden @ weight.T`` for numbers up to one."""
        # Seven bits of the activations: without VNNI, kernels add pairs of products in 16 bits, which eight overflow.
        product: Tensor = torch.ops.quantized.linear_dynamic(hidden, self._weight, True)
        return product


def _rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix in eight bits and the scale of each of its rows; a few rows at a time, to take little memory."""
    rounded = torch.empty(weight.shape, dtype=torch.int8)
    scales = torch.empty(len(weight), dtype=torch.float64)
    few = max(1, _AT_ONCE // weight.shape[1])
    for start in range(0, len(weight), few):
        part = weight[start : start + few].float()
        scale = part.abs().amax(1).clamp_min_(_LEAST) / 127
        rounded[start : start + few] = (part / scale[:, None]).round_()
        scales[start : start + few] = scale
    return rounded, scales


@torch.inference_mode()
def quantize(model: nn.Module) -> None:
    """Replace the model's linear layers by ones in eight bits; what is left computes in float32.

    A head that shares the embedding's weight becomes a copy.
    """
    exchange(model, EightBitLinear)
    model.float()
