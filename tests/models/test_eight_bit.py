"""Drafts in eight bits: close to what they were, and without any say in the text."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from specgen import generate, load
from specgen.decoding.events import Round
from specgen.decoding.lookahead import fixed
from specgen.decoding.proposers import DraftModel
from specgen.decoding.rounds import Task, rounds
from specgen.errors import ProfileError, UsageError
from specgen.models import cache
from specgen.models.attention import NAME
from specgen.models.cached import CachedModel
from specgen.models.eight_bit import EightBitLinear, can_quantize, in_eight_bits, quantize
from specgen.models.packing import PackedLinear
from specgen.profile import ModelSpec, Profile, Sampling, parse
from tests.families import ROLL_BACK, VOCAB, build
from tests.models.tiny_files import gguf_file
from tests.pairs import folder

cache.register()
CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(not can_quantize(torch.float32, CPU), reason="nothing is rounded here")


def error(got, expected):
    return float(((got - expected).norm() / expected.norm()).detach())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 300])
def test_a_layer_is_close_to_the_one_it_stands_for(rows, bias):
    torch.manual_seed(0)
    plain = nn.Linear(192, 130, bias=bias)
    hidden = torch.randn(2, rows, 192)
    got = EightBitLinear(plain)(hidden)
    assert got.shape == (2, rows, 130)
    assert error(got, plain(hidden)) < 0.03


@pytest.mark.parametrize("size", [1e-6, 1, 1e6])
def test_a_token_that_is_much_larger_than_the_others_takes_nothing_from_them(size):
    torch.manual_seed(0)
    plain = nn.Linear(256, 64, bias=False)
    hidden = torch.randn(9, 256) * size
    hidden[0] *= 10_000
    got, expected = EightBitLinear(plain)(hidden), plain(hidden)
    assert all(error(g, e) < 0.03 for g, e in zip(got, expected, strict=True))


def test_sums_do_not_overflow():
    """Kernels without VNNI add pairs of products in 16 bits."""
    plain = nn.Linear(512, 8, bias=False)
    nn.init.constant_(plain.weight, 1.0)
    hidden = torch.ones(3, 512)
    assert error(EightBitLinear(plain)(hidden), plain(hidden)) < 0.01


def test_rows_of_zeros_and_tokens_of_zeros_are_zero():
    plain = nn.Linear(64, 4, bias=False)
    with torch.no_grad():
        plain.weight[2] = 0
    got = EightBitLinear(plain)(torch.stack([torch.zeros(64), torch.ones(64)]))
    assert not got[0].any()
    assert got[1, 2] == 0
    assert torch.isfinite(got).all()


@pytest.mark.parametrize("family", ROLL_BACK)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_of_every_family_computes_in_float32_and_is_close(family, dtype):
    plain = build(ROLL_BACK[family](), NAME, seed=0)
    rounded = copy.deepcopy(plain).to(dtype)
    quantize(rounded)
    assert not any(type(module) is nn.Linear for module in rounded.modules())
    assert {p.dtype for p in rounded.parameters()} == {torch.float32}
    torch.manual_seed(1)
    ids = torch.randint(3, VOCAB, (2, 40))
    found = []
    for model in (CachedModel(plain, "plain", context=256), CachedModel(rounded, "rounded", context=256)):
        assert model.vocab_size == VOCAB
        model.open(2, 64)
        model.logits(ids, (30, 21), last=1)
        found.append(model.logits(ids, (35, 26), last=5))
    # A router that chooses other experts makes the few outputs that it does entirely different.
    assert float(torch.cosine_similarity(found[0], found[1], dim=-1).median()) > 0.98


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3", "gpt2"])
def test_the_text_stays_the_targets(family, temperature):
    target = CachedModel(build(ROLL_BACK[family](), NAME, seed=0), "target", context=256)
    model = build(ROLL_BACK[family](), NAME, seed=0)
    quantize(model)
    draft = CachedModel(model, "draft", context=256)
    task = Task([5, 6, 7], 40, sampling=Sampling(temperature=temperature), seed=3)
    texts, accepted = [], 0
    for k in (0, 1, 4, 8):
        proposer = DraftModel(draft, common=VOCAB) if k else None
        played = [
            event
            for event in rounds(target, task, proposer=proposer, lookahead=fixed(k, baseline=False))
            if isinstance(event, Round)
        ]
        texts.append([token for event in played for token in event.tokens])
        accepted += sum(event.accepted for event in played)
    assert texts == [texts[0]] * 4
    assert accepted > 30  # the target's own weights, rounded


def test_only_a_draft_is_rounded_and_only_where_it_is_left_to_specgen_or_wanted(tmp_path):
    target, draft = folder(tmp_path / "target"), folder(tmp_path / "draft", seed=1)

    def loaded(dtype, **spec):
        return load(Profile("pair", ModelSpec(str(target)), ModelSpec(str(draft), dtype=dtype, **spec)))

    def kinds(model):
        return {type(m) for m in model.model.modules()} & {EightBitLinear, PackedLinear, nn.Linear}

    for dtype in ("auto", "int8"):
        pair = loaded(dtype)
        if dtype == "int8" or pair.target.model.dtype == torch.float32:
            assert kinds(pair.draft) == {EightBitLinear}
            assert pair.describe().endswith("(int8, cpu)")
        assert EightBitLinear not in kinds(pair.target)
    assert kinds(loaded("float32").draft) == {PackedLinear}
    assert kinds(loaded("bfloat16").draft) == {nn.Linear}
    texts = {generate(loaded(dtype), "the quick", max_tokens=20, lookahead=3).text for dtype in ("int8", "float32")}
    assert len(texts) == 1


def test_a_draft_from_a_gguf_file(tmp_path):
    file = gguf_file(tmp_path / "tiny.gguf")
    pair = load(Profile("pair", ModelSpec(str(file), dtype="float32"), ModelSpec(str(file), dtype="int8")))
    assert isinstance(pair.draft.model.get_output_embeddings(), EightBitLinear)
    texts = {generate(pair, "the", max_tokens=12, lookahead=k).text for k in (0, 3)}
    assert len(texts) == 1


def test_a_target_cannot_be_rounded():
    with pytest.raises(ProfileError, match="int8"):
        parse({"target": {"model": "a/b", "dtype": "int8"}}, name="x", source="x.yaml")
    profile = parse({"target": "a/b", "draft": {"model": "a/c", "dtype": "int8"}}, name="x", source="x.yaml")
    assert profile.draft.dtype == "int8"


def test_eight_bits_where_there_are_no_kernels_for_them():
    cuda, several = [torch.device("cuda:0")], [CPU, torch.device("cuda:0")]
    for devices in (cuda, several):
        with pytest.raises(UsageError, match="a draft in int8 needs an x86 CPU"):
            in_eight_bits("int8", torch.float32, devices)
        assert not in_eight_bits("auto", torch.float32, devices)
    assert not in_eight_bits("auto", torch.bfloat16, [CPU])
    assert not in_eight_bits("float32", torch.float32, [CPU])
