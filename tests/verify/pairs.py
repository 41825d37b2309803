"""Pairs of tiny random models, as folders with a profile beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.words import byte_level


def write_model(place: Path, tokenizer: Any, *, rows: int | None = None, seed: int = 0) -> LlamaForCausalLM:
    """Write a random Llama with its tokenizer; ``rows`` pads its vocabulary."""
    config = LlamaConfig(
        vocab_size=rows or len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return model


def write_pair(
    place: Path,
    *,
    dtype: str = "float32",
    target: Any = None,
    draft: Any = None,
    rows: tuple[int | None, int | None] = (None, None),
) -> Path:
    """Write a pair and return its profile; without tokenizers both have the same one."""
    shared = byte_level(300)
    write_model(place / "target", target or shared, rows=rows[0])
    write_model(place / "draft", draft or target or shared, rows=rows[1], seed=1)
    profile = place / "tiny.yaml"
    profile.write_text(
        f"target: {{model: ./target, dtype: {dtype}, device: cpu}}\n"
        f"draft: {{model: ./draft, dtype: {dtype}, device: cpu}}\n"
    )
    return profile
