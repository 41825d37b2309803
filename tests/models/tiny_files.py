"""Models of a few kilobytes as files: a folder, a GGUF file, and a wheel that holds one."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

from specgen.profile import Mirror

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
WHEEL = "tiny-mirror==1.0"
MEMBER = "tiny_mirror/tiny.gguf"

HIDDEN, MIDDLE, LAYERS, HEADS, KV_HEADS = 64, 96, 2, 4, 2
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def folder(place: Path, *, shards: int = 1, tokenizer: bool = True) -> Path:
    """Write a model's folder; no code loads it, so its weights mean nothing."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.json").write_text(json.dumps(CONFIG))
    if tokenizer:
        (place / "tokenizer.json").write_text("{}")
    if shards == 1:
        save_file({"w": torch.zeros(8)}, place / "model.safetensors")
        return place
    names = [f"model-{i:05}-of-{shards:05}.safetensors" for i in range(1, shards + 1)]
    for number, name in enumerate(names):
        save_file({f"w{number}": torch.full((8,), float(number))}, place / name)
    index = {"metadata": {}, "weight_map": {f"w{number}": name for number, name in enumerate(names)}}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    return place


def _byte_letters() -> list[str]:
    """The letters that byte-level BPE writes for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def gguf_file(path: Path, *, seed: int = 0, pre: str = "smollm") -> Path:
    """Write a random Llama with a byte-level tokenizer, its matrices at eight bits."""
    letters = _byte_letters()
    newline, space = letters[10], letters[32]
    merges = [f"{newline} {newline}", f"{space} {space}", "a b"]
    tokens = [*SPECIALS, *letters, *(merge.replace(" ", "") for merge in merges)]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(MIDDLE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    kinds = [gguf.TokenType.CONTROL] * len(SPECIALS) + [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIALS))
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(seed)
    head = HIDDEN // HEADS
    shapes = {
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (KV_HEADS * head, HIDDEN),
        "attn_v": (KV_HEADS * head, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_gate": (MIDDLE, HIDDEN),
        "ffn_up": (MIDDLE, HIDDEN),
        "ffn_down": (HIDDEN, MIDDLE),
    }
    matrices = {"token_embd": (len(tokens), HIDDEN)}
    norms = ["output_norm"]
    for layer in range(LAYERS):
        matrices |= {f"blk.{layer}.{name}": shape for name, shape in shapes.items()}
        norms += [f"blk.{layer}.attn_norm", f"blk.{layer}.ffn_norm"]
    for name in norms:
        writer.add_tensor(f"{name}.weight", random.normal(1, 0.1, HIDDEN).astype(np.float32))
    eight = gguf.GGMLQuantizationType.Q8_0
    for name, shape in matrices.items():
        values = random.normal(0, 0.3, shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", gguf.quantize(values, eight), raw_dtype=eight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def wheel(place: Path, gguf_path: Path, member: str = MEMBER) -> Mirror:
    """Put a file into a wheel that pip accepts, and return the mirror that names it."""
    place.mkdir(parents=True, exist_ok=True)
    info = "tiny_mirror-1.0.dist-info"
    with zipfile.ZipFile(place / "tiny_mirror-1.0-py3-none-any.whl", "w") as archive:
        archive.write(gguf_path, member)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-mirror\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return Mirror(WHEEL, member, hashlib.sha256(gguf_path.read_bytes()).hexdigest())
