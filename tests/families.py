"""Tiny random models of the families that specgen is tested with, as transformers builds them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

VOCAB = 61
_BASE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _base(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**_BASE, **changes}.items() if value is not None}


_GPT2 = {
    "vocab_size": VOCAB,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}

# Windows are shorter than the texts in the tests, so that a mask without them would show.
ROLL_BACK: dict[str, Callable[[], hf.PreTrainedConfig]] = {
    "llama": lambda: hf.LlamaConfig(**_base()),
    "llama-mha": lambda: hf.LlamaConfig(**_base(num_key_value_heads=4)),
    "llama-mqa": lambda: hf.LlamaConfig(**_base(num_key_value_heads=1)),
    "llama4-chunked": lambda: hf.Llama4TextConfig(
        **_base(head_dim=8, attention_chunk_size=8, num_local_experts=2, intermediate_size_mlp=48)
    ),
    "qwen2": lambda: hf.Qwen2Config(**_base()),
    "qwen3": lambda: hf.Qwen3Config(**_base(head_dim=8)),
    "qwen3-moe": lambda: hf.Qwen3MoeConfig(**_base(head_dim=8, **_EXPERTS)),
    "mistral": lambda: hf.MistralConfig(**_base(sliding_window=7)),
    "ministral": lambda: hf.MinistralConfig(**_base(head_dim=8, sliding_window=6)),
    "mixtral": lambda: hf.MixtralConfig(**_base(num_local_experts=4)),
    "phi3": lambda: hf.Phi3Config(**_base(sliding_window=9)),
    "phi": lambda: hf.PhiConfig(**_base()),
    "gemma2": lambda: hf.Gemma2Config(
        **_base(head_dim=8, sliding_window=6, query_pre_attn_scalar=8, tie_word_embeddings=False)
    ),
    "gemma3": lambda: hf.Gemma3TextConfig(
        **_base(head_dim=8, sliding_window=6, query_pre_attn_scalar=8, num_hidden_layers=3, tie_word_embeddings=False),
        sliding_window_pattern=3,
    ),
    "gpt2": lambda: hf.GPT2Config(**_GPT2),
    "gpt-j": lambda: hf.GPTJConfig(**_GPT2, rotary_dim=4),
    "gpt-neox": lambda: hf.GPTNeoXConfig(**_base(num_key_value_heads=None)),
    "gpt-oss": lambda: hf.GptOssConfig(
        **_base(head_dim=8, num_local_experts=4, sliding_window=6), rope_parameters=None
    ),
    "olmo2": lambda: hf.Olmo2Config(**_base()),
    "olmo3": lambda: hf.Olmo3Config(**_base(sliding_window=6)),
    "granite": lambda: hf.GraniteConfig(**_base()),
    "smollm3": lambda: hf.SmolLM3Config(**_base()),
    "starcoder2": lambda: hf.Starcoder2Config(**_base()),
    "glm4": lambda: hf.Glm4Config(**_base(head_dim=8)),
    "deepseek-v3": lambda: hf.DeepseekV3Config(
        **_base(
            num_key_value_heads=4,
            kv_lora_rank=8,
            q_lora_rank=16,
            qk_rope_head_dim=4,
            qk_nope_head_dim=8,
            v_head_dim=8,
            n_routed_experts=4,
            n_group=1,
            topk_group=1,
            num_experts_per_tok=2,
            moe_intermediate_size=24,
            first_k_dense_replace=1,
        )
    ),
}

# What stands in the way, as the refusal names it.
REFUSED: dict[str, tuple[Callable[[], hf.PreTrainedConfig], str]] = {
    "qwen3-next": (lambda: hf.Qwen3NextConfig(**_base(num_hidden_layers=4)), "linear_attention"),
    "qwen3.5": (lambda: hf.Qwen3_5TextConfig(**_base(num_hidden_layers=4)), "linear_attention"),
    "mamba": (lambda: hf.MambaConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2), "mamba"),
    "lfm2": (lambda: hf.Lfm2Config(**_base(layer_types=["conv", "full_attention"])), "conv"),
    "recurrent-gemma": (lambda: hf.RecurrentGemmaConfig(**_base(num_hidden_layers=3)), "recurrent"),
    "falcon": (
        lambda: hf.FalconConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
        "falcon",
    ),
    "bloom": (lambda: hf.BloomConfig(vocab_size=VOCAB, hidden_size=32, n_layer=2, n_head=4), "bloom"),
    "mpt": (lambda: hf.MptConfig(vocab_size=VOCAB, d_model=32, n_heads=4, n_layers=2), "mpt"),
    "t5": (lambda: hf.T5Config(vocab_size=VOCAB, d_model=32, num_layers=2, num_heads=4, d_ff=48), "encoder-decoder"),
}


def build(config: hf.PreTrainedConfig, attention: str, *, seed: int = 0) -> Any:
    """A random model whose logits are spread enough for greedy text to vary."""
    torch.manual_seed(seed)
    # The config is copied: transformers writes the attention's name into it, and a shared one would change both models.
    model = hf.AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=attention).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(
                torch.randn_like(parameter) * (0.5 if parameter.dim() > 1 else 0.3) + (parameter.dim() == 1) * 0.7
            )
    return model.requires_grad_(False)
