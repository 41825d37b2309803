"""transformers' own ``generate`` and its assisted generation, as arms beside specgen's.

They get models of their own, loaded from the same files in the same arithmetic, with transformers' own attention: what
a user of transformers has. Only the whole time of a call is known.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, GgufConfig

from specgen.bench.arms import Family, Job, Outcome
from specgen.errors import ModelError
from specgen.memory.errors import CannotTell, DoesNotFit
from specgen.memory.free import present, resident
from specgen.models.cached import CachedModel
from specgen.models.convert import quiet
from specgen.models.load import Pair
from specgen.models.progress import Progress, silent
from specgen.models.sources import locate
from specgen.profile import ModelSpec
from specgen.text import encode_prompt

_CONSTANT = "assisted"
_MOST = 0.9  # of the free memory
ASSISTANT_TOKENS = tuple(range(2, 9))


@dataclass(frozen=True, slots=True)
class Models:
    """Target and draft as transformers has them, and what belongs to both."""

    pair: Pair
    target: Any
    draft: Any
    clock: Callable[[], float] = perf_counter


@dataclass(slots=True)
class TransformersArm:
    """``model.generate``, with or without an assistant.

    Attributes:
        models: the two.
        name: what the tables call it.
        about: what it is.
        tokens: ``num_assistant_tokens`` of a constant schedule; 0 is no assistant, None is transformers' default.
        group: the constant ones have one.
    """

    models: Models
    name: str
    about: str
    tokens: int | None
    group: str = ""
    family: Family = "transformers"
    _assistant: Any = None

    def begin(self) -> None:
        """Start with the assistant's settings as they come: transformers changes them from call to call."""
        self._assistant = GenerationConfig()
        if self.tokens:
            self._assistant = GenerationConfig(
                num_assistant_tokens=self.tokens,
                num_assistant_tokens_schedule="constant",
                assistant_confidence_threshold=0.0,
            )

    def run(self, job: Job) -> Outcome:
        """Generate."""
        models, pair = self.models, self.models.pair
        start = models.clock()
        prompt = encode_prompt(pair.tokenizer, job.prompt.content, system=None, chat=pair.profile.chat)
        ids = torch.tensor([prompt], device=models.target.device)
        models.target.generation_config = _config(job, pair)
        torch.manual_seed(job.seed)
        with torch.inference_mode(), _silence():
            out = models.target.generate(ids, attention_mask=torch.ones_like(ids), **self._drafting())
        tokens = out[0, len(prompt) :].tolist()
        pair.tokenizer.decode(tokens, skip_special_tokens=True)
        return Outcome(len(prompt), len(tokens), models.clock() - start, tuple(tokens))

    def _drafting(self) -> dict[str, Any]:
        if self.tokens == 0:
            return {}
        models, pair = self.models, self.models.pair
        models.draft.generation_config = self._assistant
        if models.draft.config.get_text_config().vocab_size == models.target.config.get_text_config().vocab_size:
            return {"assistant_model": models.draft}
        # transformers takes vocabularies of different sizes for different ones, and then asks for both tokenizers.
        return {
            "assistant_model": models.draft,
            "tokenizer": pair.tokenizer,
            "assistant_tokenizer": pair.draft_tokenizer,
        }


def transformers_arms(
    pair: Pair,
    assistant_tokens: Sequence[int] = ASSISTANT_TOKENS,
    *,
    progress: Progress = silent,
    trust_remote_code: bool = False,
    clock: Callable[[], float] = perf_counter,
) -> Iterator[TransformersArm]:
    """Load the models once more and return the arms: plain, assisted by default, and assisted by a constant number.

    Args:
        pair: the models that specgen has.
        assistant_tokens: the constant numbers.
        progress: told of what is loaded.
        trust_remote_code: run code that comes with a model.
        clock: seconds, monotonic.

    Raises:
        DoesNotFit: there is no room for the models a second time.
        ModelError: they cannot be loaded as transformers does it.
    """
    ours = [(spec, model) for spec, model in _models(pair) if spec is not None and model is not None]
    _check_room([model for _, model in ours])
    loaded = [_load(spec, model, progress, trust_remote_code=trust_remote_code) for spec, model in ours]
    models = Models(pair, loaded[0], loaded[1] if len(loaded) > 1 else None, clock)
    yield TransformersArm(models, "hf plain", "transformers generate", 0)
    if models.draft is None:
        return
    yield TransformersArm(models, "hf default", "assistant_model with its default settings", None)
    for count in dict.fromkeys(assistant_tokens):
        yield TransformersArm(models, f"hf {count}", "assistant_model with so many tokens, constant", count, _CONSTANT)


def _models(pair: Pair) -> list[tuple[ModelSpec | None, CachedModel | None]]:
    return [(pair.profile.target, pair.target), (pair.profile.draft, pair.draft)]


def _check_room(models: Sequence[CachedModel]) -> None:
    needed: dict[str, int] = {}
    for model in models:
        place = str(model.device)
        needed[place] = needed.get(place, 0) + _bytes(model)
    for place, count in needed.items():
        try:
            (memory,) = present((place,))
        except CannotTell:
            continue
        # For a plan, what this process holds itself is free; here it holds specgen's models, which stay.
        free = memory.free - (resident() if place == "cpu" else 0)
        if count > _MOST * free:
            raise DoesNotFit(
                f"transformers needs the models once more, {count / 1e9:.1f} GB on {place}, "
                f"where {max(free, 0) / 1e9:.1f} GB are free",
                "measure without --against transformers, or measure a smaller pair",
            )


def _bytes(model: CachedModel) -> int:
    """Bytes of a model's weights as transformers holds them; specgen may have rearranged its own."""
    with torch.device("meta"):
        bare = AutoModelForCausalLM.from_config(model.model.config)
    count: int = sum(parameter.numel() for parameter in bare.parameters())
    return count * int(model.model.dtype.itemsize)


def _load(spec: ModelSpec, ours: CachedModel, progress: Progress, *, trust_remote_code: bool) -> Any:
    place = locate(spec, offline=True)
    kind = {"quantization_config": GgufConfig(dequantize=True)} if place.gguf_file else {"use_safetensors": True}
    spread = getattr(ours.model, "hf_device_map", None)
    try:
        with progress.stage(f"loading {ours.name} for transformers"), quiet():
            model = AutoModelForCausalLM.from_pretrained(
                place.path,
                gguf_file=place.gguf_file,
                dtype=ours.model.dtype,
                attn_implementation="sdpa",
                device_map=spread or ({"": ours.device} if ours.device.type != "cpu" else None),
                trust_remote_code=trust_remote_code,
                local_files_only=True,
                **kind,
            )
    except (ValueError, OSError, KeyError, ImportError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"transformers cannot load {ours.name}: {reason}", "measure without --against transformers"
        ) from None
    return model.eval()


def _config(job: Job, pair: Pair) -> GenerationConfig:
    """The same sampling as specgen's; a model's own generation config may penalise repetition even when greedy."""
    stops = sorted(pair.stop_ids)
    return GenerationConfig(
        max_new_tokens=job.max_tokens,
        eos_token_id=stops or None,
        pad_token_id=stops[0] if stops else 0,
        **_sampling(job),
    )


def _sampling(job: Job) -> dict[str, Any]:
    sampling = job.sampling
    penalty = {} if sampling.repetition_penalty == 1 else {"repetition_penalty": sampling.repetition_penalty}
    if sampling.temperature == 0:
        return {"do_sample": False, **penalty}
    return {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p or None,
        **penalty,
    }


@contextmanager
def _silence() -> Iterator[None]:
    """Keep transformers from warning once a call about how it was called."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
