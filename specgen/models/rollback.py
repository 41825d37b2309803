"""Can this model forget? Speculation needs a state that can be rolled back; it is decided from the config alone."""

from __future__ import annotations

from transformers import AutoModelForCausalLM, PreTrainedConfig

from specgen.errors import ModelError
from specgen.models.cache import ROLLS_BACK, layer_kinds

_HINT = "choose an attention-only model; recurrent and linear-attention states cannot step back over rejected tokens"


def check_rollback(config: PreTrainedConfig, name: str) -> None:
    """Refuse a model whose state cannot step back over rejected tokens, before its weights are read.

    Args:
        config: the model's own.
        name: how to call it in the message.

    Raises:
        ModelError: naming the kind of layer that stands in the way.
    """
    text = config.get_text_config(decoder=True)
    if text.is_encoder_decoder:
        raise ModelError(f"{name} is an encoder-decoder model ({config.model_type})", "choose a decoder-only model")
    if not getattr(text, "is_causal", True):
        raise ModelError(f"{name} attends in both directions ({config.model_type})", "choose a causal model")
    kinds = sorted(set(layer_kinds(config)) - ROLLS_BACK)
    if kinds:
        raise ModelError(f"{name} has {kinds[0]} layers ({config.model_type}), which cannot be rolled back", _HINT)
    model_class = _class_of(config)
    if model_class is None:
        if getattr(config, "auto_map", None):
            return
        raise ModelError(
            f"{name} is of a kind ({config.model_type}) that does not generate text", "choose a causal language model"
        )
    if getattr(model_class, "_is_stateful", False):
        raise ModelError(f"{name} keeps a recurrent state ({config.model_type}), which cannot be rolled back", _HINT)
    if not getattr(model_class, "_supports_attention_backend", False):
        raise ModelError(
            f"{name} ({config.model_type}) has an attention of its own that cannot read a slot cache",
            "choose a model of another family; docs/models.md lists those that are tested",
        )


def _class_of(config: PreTrainedConfig) -> type | None:
    try:
        found: type = AutoModelForCausalLM._model_mapping[type(config)]
    except KeyError:
        return None
    return found
