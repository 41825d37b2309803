"""Turn a GGUF file into a folder of bfloat16 safetensors, once, so that every later start takes seconds."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specgen.errors import ModelError, is_out_of_memory
from specgen.models.headers import GgufHeader, read_gguf
from specgen.models.progress import Advance, Progress
from specgen.models.store import is_disk_full

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

BYTES_PER_WEIGHT = 2  # bfloat16

# Tokens that end a turn, by name, for files that list only one of their end-of-sequence tokens.
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|end_of_turn|>")

# How the work divides, measured: reading the config, the weights, the tokenizer, and writing it all.
_SHARES = {"config": 0.45, "weights": 0.35, "tokenizer": 0.15, "writing": 0.05}


def require_gguf() -> None:
    """Raise when the package that reads GGUF files is not installed."""
    if importlib.util.find_spec("gguf") is None:
        raise ModelError("reading a GGUF file needs the gguf package", "pip install 'specgen[gguf]'")


def versions() -> dict[str, str]:
    """Return the versions that a conversion depends on, for the manifest."""
    return {name: version(name) for name in ("torch", "transformers", "gguf")}


def converted_size(header: GgufHeader) -> int:
    """Return the bytes that the converted folder will take, its tokenizer included."""
    return header.weights * BYTES_PER_WEIGHT + 32_000_000


def convert(gguf: Path, folder: Path, progress: Progress, hint: str) -> None:
    """Write the model, tokenizer and generation config of a GGUF file into ``folder``.

    Args:
        gguf: the file, already checked.
        folder: where to write; made if it is not there.
        progress: told about one stage.
        hint: what to do when transformers cannot read the file.
    """
    require_gguf()
    header = read_gguf(gguf, hint)
    total = header.weights * BYTES_PER_WEIGHT
    with progress.stage("converting to bfloat16, once", total) as advance, quiet():
        try:
            _convert(gguf, folder, header, lambda share: advance(int(total * share)))
        except (ValueError, KeyError, RuntimeError, OSError) as error:
            # transformers raises bare OSErrors of its own; those of the system are for the caller.
            if is_out_of_memory(error) or (isinstance(error, OSError) and (error.errno or is_disk_full(error))):
                raise
            reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
            raise ModelError(f"transformers cannot convert {gguf.name}: {reason[0]}", hint) from error


def _convert(gguf: Path, folder: Path, header: GgufHeader, advance: Callable[[float], None]) -> None:
    import torch
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoModelForCausalLM, GgufConfig

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name, "local_files_only": True}
    with _watched_reading(lambda count: advance(_SHARES["weights"] * count / header.weights)):
        config = AutoConfig.from_pretrained(**source)
        advance(_SHARES["config"])
        # Without dequantize=True some architectures would stay packed, where kernels for them are installed.
        model = AutoModelForCausalLM.from_pretrained(
            **source, config=config, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
        )
        tokenizer = gguf_tokenizer(gguf, header)
    advance(_SHARES["tokenizer"])
    _set_special_ids(model, tokenizer, header)
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except SafetensorError as error:
        raise OSError(str(error)) from error
    advance(_SHARES["writing"])


def gguf_tokenizer(gguf: Path, header: GgufHeader) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a GGUF file, splitting text the way the file's metadata says it must."""
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name, local_files_only=True)
    if header.metadata.get("tokenizer.ggml.pre") == "smollm":
        # transformers splits as GPT-2 does; SmolLM was trained with every digit apart, which changes the blank lines
        # before a numbered item too.
        split = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
        tokenizer.backend_tokenizer.pre_tokenizer = split
    return tokenizer


def _set_special_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, header: GgufHeader) -> None:
    """Give the generation config what transformers does not read from a GGUF: where a turn ends, padding, the start."""
    ends = end_ids(tokenizer, header)
    generation = model.generation_config
    generation.eos_token_id = ends[0] if len(ends) == 1 else ends
    generation.pad_token_id = _first(header.token("padding"), tokenizer.pad_token_id)
    generation.pad_token_id = _first(generation.pad_token_id, *ends)
    generation.bos_token_id = _first(header.token("bos"), tokenizer.bos_token_id)


def end_ids(tokenizer: PreTrainedTokenizerBase, header: GgufHeader) -> list[int]:
    """Return the ids that end a text: the file's own, and the end of a turn when the chat template writes one."""
    listed = [*(header.token(name) for name in ("eos", "eot", "eom")), tokenizer.eos_token_id]
    ends = [token for token in listed if token is not None]
    template = tokenizer.chat_template
    vocabulary = tokenizer.get_vocab()
    if isinstance(template, str):
        ends += [vocabulary[name] for name in _TURN_ENDS if name in template and name in vocabulary]
    return list(dict.fromkeys(ends))


def _first(*ids: int | None) -> int | None:
    return next((token for token in ids if token is not None), None)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' progress bars and its note on quantized weights, which is wrong here, off the terminal."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    hook = logging.set_tqdm_hook(lambda _factory, args, settings: logging.EmptyTqdm(*args, **settings))
    try:
        yield
    finally:
        logging.set_tqdm_hook(hook)
        logging.set_verbosity(verbosity)


@contextmanager
def _watched_reading(advance: Advance) -> Iterator[None]:
    """Count the weights that are read, and let transformers read the header once.

    It parses the vocabulary three times, builds one table of names for every module, which together takes half of the
    time, and shows a bar that no setting hides. So the names that it looks up are replaced for a while.
    """
    import gguf
    from transformers import modeling_gguf_pytorch_utils as loader

    def counted(tensors: Iterable[Any], **_settings: object) -> Iterator[Any]:
        for tensor in tensors:
            yield tensor
            advance(int(tensor.n_elements))

    bar, reader, names = loader.tqdm, gguf.GGUFReader, gguf.get_tensor_name_map
    loader.tqdm, gguf.GGUFReader, gguf.get_tensor_name_map = counted, cache(reader), cache(names)
    try:
        yield
    finally:
        loader.tqdm, gguf.GGUFReader, gguf.get_tensor_name_map = bar, reader, names
