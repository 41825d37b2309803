"""A model without memory: the real modules on the meta device, their exact weights, and one layer of every kind."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from specgen.memory.errors import CannotTell
from specgen.memory.packing import eight_bit_bytes, packed_bytes
from specgen.memory.quantized import Scheme, linear_bytes
from specgen.models import cache
from specgen.models.attention import NAME
from specgen.models.devices import EIGHT_BIT
from specgen.models.eight_bit import EightBitLinear
from specgen.models.packing import linears
from specgen.models.rollback import check_rollback


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A model on the meta device, cut down to one decoder layer of every kind.

    Attributes:
        model: what is left of it; its forward pass has the peak of the whole model's.
        layers: for each of the whole model's layers, the place of its like among those that are left.
        weights: bytes of parameters and buffers of the whole model, once each.
        layer_weights: bytes of every layer's.
        by_dtype: the weights' bytes by data type.
        scratch: bytes that a quantized layer needs to unpack its largest matrix.
        dtype: of the activations.
        copied: bytes of packed copies of weights that another module has, too.
        packing: the largest packed matrix that is no such copy, bytes; 0 when nothing is packed.
    """

    model: PreTrainedModel
    layers: tuple[int, ...]
    weights: int
    layer_weights: tuple[int, ...]
    by_dtype: Mapping[str, int]
    scratch: int
    dtype: torch.dtype
    copied: int = 0
    packing: int = 0


def config_from(numbers: Mapping[str, Any], name: str) -> PreTrainedConfig:
    """Make a config from the numbers of a ``config.json``.

    Raises:
        CannotTell: transformers does not know the ``model_type``, or a number makes no sense.
    """
    kind = numbers.get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise CannotTell(
            f"cannot plan {name}: transformers does not know model_type {kind!r}",
            "the memory of an unknown architecture is not guessed; update transformers, or check config.json",
        )
    try:
        # Like from_pretrained: a null is the class's own default where the class has one.
        config: PreTrainedConfig = CONFIG_MAPPING[kind].from_dict(copy.deepcopy(dict(numbers)))
    except Exception as error:  # config classes check their values in ways of their own
        raise CannotTell(f"cannot plan {name}: its config is not valid: {_line(error)}", "check config.json") from error
    return config


def build(
    config: PreTrainedConfig,
    name: str,
    dtype: torch.dtype,
    scheme: Scheme | None = None,
    *,
    packed: bool = False,
    eight_bit: bool = False,
) -> Skeleton:
    """Build a model on the meta device, as ``from_pretrained`` would load it.

    Args:
        config: the model's own; it is not changed.
        name: how to call it in messages.
        dtype: of its weights.
        scheme: how its weights are quantized while they are loaded.
        packed: whether its linear layers are put into the order of the CPU's kernels.
        eight_bit: whether its linear layers are rounded to eight bits.

    Raises:
        CannotTell: the architecture cannot be built.
        ModelError: its state cannot be rolled back.
    """
    cache.register()
    check_rollback(config, name)
    config = copy.deepcopy(config)
    if getattr(config, "quantization_config", None) is not None:
        del config.quantization_config
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, attn_implementation=NAME, dtype=dtype).eval()
    except Exception as error:  # a model's constructor may raise anything
        raise CannotTell(f"cannot plan {name}: it cannot be built: {_line(error)}", "check config.json") from error
    _keep_wide(model, dtype)
    sizes = _sizes(model, scheme)
    size_of = packed_bytes if packed else eight_bit_bytes if eight_bit else None
    copied, packing, replaced = _pack(model, sizes, size_of) if size_of else (0, 0, set())
    stack = _stack(model, config)
    layer_weights = tuple(sum(sizes[k] for k in _storages(layer) if k in sizes) for layer in stack or ())
    by_dtype: dict[str, int] = {}
    for tensor in {t.untyped_storage()._cdata: t for t in _tensors(model)}.values():
        storage = tensor.untyped_storage()._cdata
        key = EIGHT_BIT if eight_bit and storage in replaced else str(tensor.dtype).removeprefix("torch.")
        by_dtype[key] = by_dtype.get(key, 0) + sizes[storage]
    if copied:
        key = EIGHT_BIT if eight_bit else "float32"
        by_dtype[key] = by_dtype.get(key, 0) + copied
    if eight_bit:
        _round(model)
    return Skeleton(
        model=model,
        layers=_reduce(model, config, stack),
        weights=sum(sizes.values()) + copied,
        layer_weights=layer_weights,
        by_dtype=by_dtype if scheme is None else {scheme.method: sum(sizes.values())},
        scratch=_scratch(model, dtype, scheme),
        dtype=dtype,
        copied=copied,
        packing=packing,
    )


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _storages(module: nn.Module) -> set[int]:
    return {tensor.untyped_storage()._cdata for tensor in _tensors(module)}


def _keep_wide(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """Give the weights that ``from_pretrained`` keeps in float32 their width; everything else has its own already."""
    plan = model._get_dtype_plan(dtype)
    if not plan:
        return
    keep = re.compile("|".join(pattern.replace("*", ".*") for pattern in plan))
    for name, module in model.named_modules():
        for table in (module._parameters, module._buffers):
            for key, tensor in table.items():
                full = f"{name}.{key}" if name else key
                if tensor is None or not tensor.is_floating_point() or not keep.search(full):
                    continue
                wide = torch.empty_like(tensor, dtype=torch.float32, device="meta")
                table[key] = nn.Parameter(wide, requires_grad=False) if isinstance(tensor, nn.Parameter) else wide


def _sizes(model: PreTrainedModel, scheme: Scheme | None) -> dict[int, int]:
    """Bytes of every distinct storage, by its identity."""
    sizes = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in _tensors(model)}
    if scheme is not None:
        for _, module in _quantizable(model, scheme):
            weight = module.weight
            sizes[weight.untyped_storage()._cdata] = linear_bytes(scheme, weight.shape[0], weight.shape[1])
    return sizes


def _pack(
    model: PreTrainedModel, sizes: dict[int, int], size_of: Callable[[int, int], int]
) -> tuple[int, int, set[int]]:
    """Give linear weights the size that they have when they are packed.

    Returns:
        ``copied`` and ``packing`` as in ``Skeleton``, and the storages that have another size now.
    """
    others = [module for module in model.modules() if type(module) is not nn.Linear]
    held = {t.untyped_storage()._cdata for m in others for t in (*m.parameters(False), *m.buffers(False))}
    copied = largest = 0
    replaced: set[int] = set()
    for parent, name in linears(model):
        weight = getattr(parent, name).weight
        size, storage = size_of(*weight.shape), weight.untyped_storage()._cdata
        if storage in held:
            copied += size
        else:
            sizes[storage], largest = size, max(size, largest)
            held.add(storage)
            replaced.add(storage)
    return copied, largest, replaced


class _EightBitShape(EightBitLinear):
    """A layer in eight bits without weights: it takes the memory that the real one takes for its product."""

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias

    def product(self, hidden: Tensor) -> Tensor:
        product = hidden.new_empty((*hidden.shape[:-1], self.out_features))
        torch.empty_like(product, dtype=torch.int32)  # the kernel's sums, before they are scaled
        return product


def _round(model: PreTrainedModel) -> None:
    for parent, name in linears(model):
        setattr(parent, name, _EightBitShape(getattr(parent, name)))


def _quantizable(model: PreTrainedModel, scheme: Scheme) -> Iterator[tuple[str, nn.Linear]]:
    """The linear layers that transformers replaces: plain ones only, so never fused experts, and not the head.

    transformers leaves out the output embeddings, whatever is tied, and the modules named in the scheme.
    """
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    head = model.get_output_embeddings()
    for name, module in model.named_modules():
        if type(module) is not nn.Linear or module is head or f"{name}.weight" in tied:
            continue
        if any(name == skip or name.endswith(f".{skip}") or f".{skip}." in f".{name}." for skip in scheme.skip):
            continue
        yield name, module


def _scratch(model: PreTrainedModel, dtype: torch.dtype, scheme: Scheme | None) -> int:
    if scheme is None or not scheme.unpacks:
        return 0
    return max((m.weight.numel() * dtype.itemsize for _, m in _quantizable(model, scheme)), default=0)


def _stack(model: PreTrainedModel, config: PreTrainedConfig) -> nn.ModuleList | None:
    """The decoder's list of layers, if there is exactly one that it can be."""
    count = getattr(config.get_text_config(decoder=True), "num_hidden_layers", None)
    decoder = model.get_decoder()
    found = [m for m in decoder.children() if isinstance(m, nn.ModuleList) and len(m) == count]
    return found[0] if len(found) == 1 else None


def _reduce(model: PreTrainedModel, config: PreTrainedConfig, stack: nn.ModuleList | None) -> tuple[int, ...]:
    """Take out the layers that are like an earlier one; say which of those left stands for each."""
    count = len(stack) if stack is not None else 0
    if stack is None or count < 3:
        return tuple(range(count))
    kinds = list(cache.layer_kinds(config))
    kinds = kinds if len(kinds) == count else [""] * count
    keys = [(kind, _signature(layer)) for kind, layer in zip(kinds, stack, strict=True)]
    # Models look up per-layer settings by position, so only a prefix can stand for the rest. The first layer's input is
    # the embeddings themselves, which later layers hold besides their own input: each kind is kept once after it.
    later = keys[1:]
    prefix = max(later.index(key) for key in set(later)) + 2
    if prefix >= count:
        return tuple(range(count))
    del stack[prefix:]
    # Some forwards loop over the config's number and some over the list.
    for settings in (model.get_decoder().config, model.config.get_text_config(decoder=True)):
        settings.num_hidden_layers = prefix
    return (*range(prefix), *(1 + later.index(key) for key in keys[prefix:]))


def _signature(layer: nn.Module) -> Any:
    """What a layer's memory depends on: classes, shapes and settings, but not its number."""
    parts = []
    for name, module in layer.named_modules():
        settings = tuple(
            sorted(
                (key, value)
                for key, value in vars(module).items()
                if not key.startswith("_") and key != "layer_idx" and isinstance(value, int | float | str | bool)
            )
        )
        tensors = tuple((k, tuple(t.shape), t.dtype) for k, t in module._parameters.items() if t is not None)
        parts.append((name, type(module), settings, tensors))
    return tuple(parts)
