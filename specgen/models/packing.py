"""Weights in the order in which a CPU's matrix kernels read them.

In float32 a pass over a few tokens spends most of its time rearranging weights: the kernel copies every matrix into
its own order before it multiplies, whether for one column or for a hundred. That is the pass that verifies a proposal.
Done once, when a model is loaded, that pass took from a third to two thirds of its time (docs/benchmarks.md).
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import torch
from torch import Tensor, nn

# The number of columns that an order is chosen for: a proposal and its bonus token. Others are right, if not as quick.
_COLUMNS = 5
_GIVE_BACK_EVERY = 128 * 2**20


class PackedLinear(nn.Module):
    """A linear layer whose weight is kept in the kernel's order.

    Args:
        linear: the layer that it stands for; its weight is not referred to any more.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        self._weight: Tensor = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _COLUMNS)

    @property
    def weight(self) -> Tensor:
        """The weight in its plain order, made anew: a model that reads it itself is right, though slow."""
        return self._weight.to_dense()

    @property
    def nbytes(self) -> int:
        """Bytes of the weight in the kernel's order, which is padded to whole blocks; the bias is not among them."""
        return int(torch.ops.mkldnn._nbytes(self._weight))

    def forward(self, hidden: Tensor) -> Tensor:
        """Return ``hidden @ weight.T + bias``, ``[..., out_features]``."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(hidden, self._weight, self.bias, "none", [], "")
        return product


def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether packing is known to pay: float32 on an x86 CPU.

    bfloat16 kernels, where the hardware has them, do not rearrange; elsewhere nothing was measured.
    """
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    here: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return dtype == torch.float32 and device.type == "cpu" and x86 and here


def linears(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """The layers that ``pack`` replaces, each as the module that it belongs to and its name there.

    Only plain ones: a subclass has a forward pass of its own, as quantized layers have. The layers themselves are in no
    list here, or all of their weights would be held until the end.
    """
    for parent in [module for module in model.modules() if type(module) is not nn.Linear]:
        for name in [name for name, child in parent.named_children() if type(child) is nn.Linear]:
            yield parent, name


@torch.inference_mode()
def pack(model: nn.Module) -> None:
    """Replace the model's linear layers by packed ones.

    A head that shares the embedding's weight is packed as a copy.
    """
    exchange(model, PackedLinear)


def exchange(model: nn.Module, layer: Callable[[nn.Linear], nn.Module]) -> None:
    """Replace the model's linear layers, one after the other, so that little is held twice."""
    since = 0
    for parent, name in linears(model):
        linear = getattr(parent, name)
        since += linear.weight.nbytes
        setattr(parent, name, layer(linear))
        del linear
        if since > _GIVE_BACK_EVERY:
            _give_back()
            since = 0
    _give_back()


def _give_back() -> None:
    """Return freed memory to the system: the C library keeps what lies between blocks that are in use."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL("libc.so.6").malloc_trim(0)
