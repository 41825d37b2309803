"""A pair of tiny models as files, with a profile."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.words import letters


def tiny_profile(folder: Path) -> Path:
    """Write a target, a draft and a profile, and return the profile's path."""
    tokenizer = letters()
    for name, seed in (("target", 0), ("draft", 1)):
        tokenizer.save_pretrained(folder / name)
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=256,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
        torch.manual_seed(seed)
        LlamaForCausalLM(config).save_pretrained(folder / name)
    path = folder / "tiny.yaml"
    path.write_text(
        "target: {model: ./target, dtype: float32, device: cpu}\n"
        "draft: {model: ./draft, dtype: float32, device: cpu}\n"
        "lookahead: 3\n"
    )
    return path
