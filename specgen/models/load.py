"""From a profile to a pair that is ready to generate."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GgufConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

from specgen.errors import ModelError, UsageError, is_out_of_memory
from specgen.memory.errors import DoesNotFit
from specgen.models import cache
from specgen.models.attention import NAME
from specgen.models.cached import CachedModel
from specgen.models.convert import end_ids, gguf_tokenizer, quiet
from specgen.models.devices import EIGHT_BIT, pick_devices, pick_dtype
from specgen.models.eight_bit import EightBitLinear, in_eight_bits, quantize
from specgen.models.headers import GgufHeader, read_gguf
from specgen.models.packing import can_pack, pack
from specgen.models.progress import Progress, silent
from specgen.models.rollback import check_rollback
from specgen.models.sources import Located, locate
from specgen.models.threads import one_weight_at_a_time, settle
from specgen.models.vocabulary import Relation, relate, same_file
from specgen.profile import ModelSpec, Profile

# Where config classes keep the number of positions that a model was trained for.
_POSITIONS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length")
_UNKNOWN_CONTEXT = 2048


@dataclass(frozen=True, slots=True)
class Pair:
    """A target, perhaps a draft, and what belongs to both.

    Attributes:
        profile: where it came from.
        tokenizer: the target's.
        target: the model whose text it is.
        draft: the model that proposes, or None.
        draft_tokenizer: the draft's, where it is another one than the target's.
        relation: how the draft's ids relate to the target's.
        stop_ids: tokens that end a sequence.
    """

    profile: Profile
    tokenizer: Any
    target: CachedModel
    draft: CachedModel | None
    draft_tokenizer: Any
    relation: Relation
    stop_ids: frozenset[int]

    @property
    def context(self) -> int:
        """Tokens that a prompt and its continuation may have together."""
        return self.target.context

    def describe(self) -> str:
        """The models, their arithmetic and their devices, in a line."""
        return " with ".join(map(_described, self._models))

    @property
    def threads(self) -> int:
        """Threads of the CPU's kernels; 0 where no model runs on the CPU."""
        return torch.get_num_threads() if any(model.device.type == "cpu" for model in self._models) else 0

    @property
    def _models(self) -> list[CachedModel]:
        return [model for model in (self.target, self.draft) if model is not None]


def _described(model: CachedModel) -> str:
    eight_bit = isinstance(model.model.get_output_embeddings(), EightBitLinear)
    dtype = EIGHT_BIT if eight_bit else str(model.model.dtype).removeprefix("torch.")
    return f"{model.name} ({dtype}, {model.device})"


def load_pair(
    profile: Profile,
    *,
    offline: bool = False,
    trust_remote_code: bool = False,
    threads: int | None = None,
    progress: Progress = silent,
) -> Pair:
    """Find, check and load the models of a profile.

    Everything that can be refused is refused before weights are read: states that cannot be rolled back, devices that
    are not there.

    Raises:
        MissingWeights: a model is in none of its places.
        ModelError: a model cannot be used or read.
        UsageError: a device or the context of the profile does not exist.
    """
    cache.register()
    settle(threads)
    specs = [spec for spec in (profile.target, profile.draft) if spec is not None]
    places = [locate(spec, offline=offline, progress=progress, profile=profile.name) for spec in specs]
    configs = [
        _read_config(spec, place, trust_remote_code=trust_remote_code)
        for spec, place in zip(specs, places, strict=True)
    ]
    tokenizer = _read_tokenizer(places[0], trust_remote_code=trust_remote_code)
    draft_tokenizer, relation = _compare(tokenizer, places, configs, trust_remote_code=trust_remote_code)
    models = [
        _load_model(spec, place, config, progress, draft=i > 0, trust_remote_code=trust_remote_code)
        for i, (spec, place, config) in enumerate(zip(specs, places, configs, strict=True))
    ]
    target = models[0]
    if profile.context is not None:
        if profile.context > target.context:
            raise UsageError(
                f"context {profile.context:,} is more than the {target.context:,} positions of {target.name}",
                f"set `context` to {target.context} or less",
            )
        target.context = profile.context
    return Pair(
        profile=profile,
        tokenizer=tokenizer,
        target=target,
        draft=models[1] if len(models) == 2 else None,
        draft_tokenizer=draft_tokenizer,
        relation=relation,
        stop_ids=_stop_ids(places[0], configs[0], tokenizer),
    )


def short_name(spec: ModelSpec) -> str:
    """The last part of a model's id or path."""
    return spec.model.rstrip("/").rpartition("/")[2]


def _read_config(spec: ModelSpec, place: Located, *, trust_remote_code: bool) -> PreTrainedConfig:
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(
            place.path, gguf_file=place.gguf_file, trust_remote_code=trust_remote_code, local_files_only=True
        )
    except (ValueError, KeyError, OSError, ImportError) as error:
        raise ModelError(
            f"cannot read the config of {short_name(spec)}: {_first_line(error)}", _config_hint(error)
        ) from None
    check_rollback(config, short_name(spec))
    return config


def _config_hint(error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return "the model brings its own code; --trust-remote-code runs it, if you trust its author"
    return "check that the folder holds the model's config.json, and that transformers 5.24 knows its model_type"


def _read_tokenizer(place: Located, *, trust_remote_code: bool) -> Any:
    try:
        if place.gguf_file:
            return gguf_tokenizer(Path(place.file), _gguf(place))
        return AutoTokenizer.from_pretrained(
            place.path, gguf_file=place.gguf_file, trust_remote_code=trust_remote_code, local_files_only=True
        )
    except (ValueError, KeyError, OSError, ImportError) as error:
        raise ModelError(
            f"cannot read the tokenizer in {place.path}: {_first_line(error)}", "download the model again"
        ) from None


def _gguf(place: Located) -> GgufHeader:
    return read_gguf(Path(place.file), "download the file again")


def _compare(
    tokenizer: Any, places: list[Located], configs: list[PreTrainedConfig], *, trust_remote_code: bool
) -> tuple[Any, Relation]:
    """The draft's tokenizer and its relation to the target's."""
    sizes = [config.get_text_config(decoder=True).vocab_size for config in configs]
    if len(places) == 1 or same_file(places[0].path, places[1].path):
        return tokenizer, Relation("same", common=min(len(tokenizer), *sizes))
    other = _read_tokenizer(places[1], trust_remote_code=trust_remote_code)
    return other, relate(tokenizer, other, target_size=sizes[0], draft_size=sizes[1])


def _load_model(
    spec: ModelSpec,
    place: Located,
    config: PreTrainedConfig,
    progress: Progress,
    *,
    draft: bool,
    trust_remote_code: bool,
) -> CachedModel:
    devices = pick_devices(spec.device)
    dtype = pick_dtype(spec.dtype, devices[0], parameters=_parameters(place))
    eight_bit = draft and in_eight_bits(spec.dtype, dtype, devices)
    named = EIGHT_BIT if eight_bit else str(dtype).removeprefix("torch.")
    where = ", ".join(str(device) for device in devices)
    # transformers keeps no GGUF blocks packed for the families that roll back; it should not say that it does.
    kind = {"quantization_config": GgufConfig(dequantize=True)} if place.gguf_file else {"use_safetensors": True}
    reading = one_weight_at_a_time() if devices[0].type == "cpu" else nullcontext()
    try:
        with progress.stage(f"loading {short_name(spec)}, {named} on {where}"), quiet(), reading:
            model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
                place.path,
                config=config,
                gguf_file=place.gguf_file,
                # As in its file, from where eight bits are made: nothing is held twice.
                dtype="auto" if eight_bit and not place.gguf_file else dtype,
                attn_implementation=NAME,
                trust_remote_code=trust_remote_code,
                local_files_only=True,
                **kind,
                **_placement(devices),
            )
    except (SafetensorError, ValueError, OSError, KeyError) as error:
        if is_out_of_memory(error):
            raise
        raise ModelError(
            f"cannot load {short_name(spec)}: {_first_line(error)}", f"download it again into {place.path}"
        ) from None
    except torch.OutOfMemoryError:
        raise DoesNotFit(
            f"{short_name(spec)} does not fit on {devices[0]}", "choose another device, a smaller dtype or model"
        ) from None
    # What is quantized keeps its few plain layers as they are, and the planner counts them so.
    if not getattr(model, "is_quantized", False):
        if eight_bit:
            with progress.stage(f"rounding {short_name(spec)} to eight bits"):
                quantize(model)
        elif len(devices) == 1 and can_pack(dtype, devices[0]):
            with progress.stage(f"arranging {short_name(spec)} for the CPU"):
                pack(model)
    return CachedModel(model.eval(), short_name(spec), context=_positions(config))


def _placement(devices: tuple[torch.device, ...]) -> dict[str, Any]:
    """Arguments that put a model on its devices; accelerate spreads the layers when there are several."""
    if len(devices) == 1:
        return {} if devices[0].type == "cpu" else {"device_map": {"": devices[0]}}
    free = {device: torch.accelerator.get_memory_info(device)[0] for device in devices if device.type != "cpu"}
    # Nine tenths: the caches and the activations come later.
    limits: dict[int | str, int] = {device.index or 0: int(0.9 * count) for device, count in free.items()}
    if any(device.type == "cpu" for device in devices):
        import psutil

        limits["cpu"] = int(0.9 * psutil.virtual_memory().available)
    return {"device_map": "auto", "max_memory": limits}


def _parameters(place: Located) -> int | None:
    """Roughly, from the size of 16-bit files."""
    files = [Path(place.path) / place.gguf_file] if place.gguf_file else list(Path(place.path).glob("*.safetensors"))
    return sum(file.stat().st_size for file in files) // 2 or None


def _positions(config: PreTrainedConfig) -> int:
    text = config.get_text_config(decoder=True)
    found = (getattr(text, name, None) for name in _POSITIONS)
    return next((int(value) for value in found if value), _UNKNOWN_CONTEXT)


def _stop_ids(place: Located, config: PreTrainedConfig, tokenizer: Any) -> frozenset[int]:
    """End-of-sequence ids: the generation config's, which may be several, else the config's and the tokenizer's."""
    if place.gguf_file:
        return frozenset(end_ids(tokenizer, _gguf(place)))
    file = Path(place.path) / "generation_config.json"
    if file.is_file():
        try:
            ids = _as_ids(json.loads(file.read_text(encoding="utf-8")).get("eos_token_id"))
        except (ValueError, AttributeError):
            raise ModelError(f"{file} is not readable JSON", "download the model again") from None
        if ids:
            return ids
    text = config.get_text_config(decoder=True)
    return _as_ids(getattr(text, "eos_token_id", None)) | _as_ids(tokenizer.eos_token_id)


def _as_ids(value: int | Iterable[int] | None) -> frozenset[int]:
    if value is None:
        return frozenset()
    return frozenset({value}) if isinstance(value, int) else frozenset(value)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
