"""Tiny random models saved as folders, with a real tokenizer: what `specgen` loads in the tests."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from tests.families import ROLL_BACK, build
from tests.words import byte_level

CHAT = (
    "{% for m in messages %}{{ '<s>' + m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant: ' }}{% endif %}"
)


def folder(
    place: Path,
    family: str = "llama",
    *,
    tokenizer: PreTrainedTokenizerFast | None = None,
    vocab_size: int | None = None,
    seed: int = 0,
    chat: bool = False,
    eos: Any = None,
    **settings: Any,
) -> Path:
    """Save a random model of a family with its tokenizer, and return its folder."""
    tokenizer = copy.deepcopy(tokenizer) if tokenizer is not None else byte_level(300)
    config = ROLL_BACK[family]()
    for name, value in {"vocab_size": vocab_size or len(tokenizer), "eos_token_id": None, **settings}.items():
        setattr(config, name, value)
    build(config, "eager", seed=seed).save_pretrained(place)
    tokenizer.chat_template = CHAT if chat else None
    tokenizer.save_pretrained(place)
    (place / "generation_config.json").write_text(json.dumps({"eos_token_id": eos}))
    return place
