"""Packed weights: the same numbers in another order, and nothing held twice."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

from specgen.decoding.events import Round
from specgen.decoding.lookahead import fixed
from specgen.decoding.proposers import DraftModel
from specgen.decoding.rounds import Task, rounds
from specgen.models import cache, load, packing
from specgen.models.attention import NAME
from specgen.models.cached import CachedModel
from specgen.models.packing import PackedLinear, can_pack, linears, pack
from specgen.profile import ModelSpec, Profile
from tests.families import ROLL_BACK, VOCAB, build
from tests.models.tiny_files import gguf_file
from tests.pairs import folder

cache.register()
CPU = torch.device("cpu")
here = pytest.mark.skipif(not can_pack(torch.float32, CPU), reason="this machine's weights are not packed")


def model_of(family, *, packed, seed=0, **settings):
    config = ROLL_BACK[family]()
    for name, value in settings.items():
        setattr(config, name, value)
    model = build(config, NAME, seed=seed)
    if packed:
        pack(model)
    return model


def packed_layers(model):
    return [module for module in model.modules() if isinstance(module, PackedLinear)]


def text(target, draft, task, k):
    proposer = DraftModel(draft, common=VOCAB) if draft else None
    events = rounds(target, task, proposer=proposer, lookahead=fixed(k, baseline=False))
    return [token for event in events if isinstance(event, Round) for token in event.tokens]


@here
@pytest.mark.parametrize("family", ROLL_BACK)
def test_logits_are_the_same_to_rounding_for_every_family(family):
    plain, packed = (CachedModel(model_of(family, packed=p), family, context=256) for p in (False, True))
    torch.manual_seed(1)
    ids = torch.randint(3, VOCAB, (2, 64))
    for model in (plain, packed):
        model.open(2, 64)
    assert packed.vocab_size == VOCAB
    for totals, last in (((30, 21), 1), ((31, 22), 1), ((36, 27), 5)):
        expected, got = (model.logits(ids, totals, last=last) for model in (plain, packed))
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
        for model in (plain, packed):
            model.crop([total - 1 for total in totals])


@here
@pytest.mark.parametrize("family", ROLL_BACK)
def test_greedy_text_is_the_plain_models_for_every_family(family):
    plain = CachedModel(model_of(family, packed=False), family, context=256)
    target, draft = (CachedModel(model_of(family, packed=True, seed=s), family, context=256) for s in (0, 9))
    task = Task([5, 9, 14, 3, 40], 28)
    expected = text(plain, None, task, 0)
    assert text(target, None, task, 0) == expected
    assert text(target, draft, task, 3) == expected


@here
@pytest.mark.parametrize("family", ["llama", "qwen2", "phi", "starcoder2"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_tied_head_is_a_copy_and_the_embedding_stays(family, tied):
    plain, packed = (model_of(family, packed=p, tie_word_embeddings=tied) for p in (False, True))
    ids = torch.tensor([[5, 9, 14]])

    torch.testing.assert_close(packed(ids).logits, plain(ids).logits, rtol=1e-4, atol=1e-4)

    assert isinstance(packed.get_output_embeddings(), PackedLinear)
    assert torch.equal(packed.get_input_embeddings().weight, plain.get_input_embeddings().weight)


@here
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inner", "outer"), [(64, 64), (17, 61), (300, 1), (1, 3), (576, 192)])
def test_a_layer_is_the_plain_one_for_any_shape_and_number_of_columns(bias, inner, outer):
    torch.manual_seed(0)
    plain = nn.Linear(inner, outer, bias=bias).requires_grad_(False)
    packed = PackedLinear(plain)
    for columns in (1, 2, 5, 12, 70):
        hidden = torch.randn(2, columns, inner)
        torch.testing.assert_close(packed(hidden), plain(hidden), rtol=1e-4, atol=1e-4)
    assert packed.nbytes >= plain.weight.nbytes
    if not (inner % 64 or outer % 64):
        assert packed.nbytes == plain.weight.nbytes
    # A model may read a layer's weight besides calling it.
    assert torch.equal(packed.weight, plain.weight)


@here
@pytest.mark.parametrize("tied", [True, False])
def test_nothing_of_the_plain_weights_is_held(tied):
    model = model_of("llama", packed=False, tie_word_embeddings=tied)
    layers = [getattr(parent, name) for parent, name in linears(model)]
    kept = {id(model.get_input_embeddings().weight)}
    weights = [weakref.ref(layer.weight) for layer in layers if id(layer.weight) not in kept]
    assert len(weights) == len(layers) - tied

    pack(model)
    del layers
    gc.collect()

    assert [weight for weight in weights if weight() is not None] == []


@here
def test_a_model_without_plain_linear_layers_is_left_alone():
    # GPT-2 writes its layers as Conv1D; without a head nothing is left to pack.
    model = model_of("gpt2", packed=False).transformer
    before = {name: id(module) for name, module in model.named_modules()}

    pack(model)

    assert {name: id(module) for name, module in model.named_modules()} == before


def test_only_plain_layers_are_packed():
    class Quantized(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(4, 4), Quantized(4, 4), nn.Sequential(nn.Linear(4, 4)))

    assert [(parent is model, name) for parent, name in linears(model)] == [(True, "0"), (False, "0")]


@pytest.mark.parametrize(
    ("dtype", "device", "machine", "expected"),
    [
        (torch.float32, "cpu", "x86_64", True),
        (torch.float32, "cpu", "AMD64", True),
        (torch.bfloat16, "cpu", "x86_64", False),
        (torch.float16, "cpu", "x86_64", False),
        (torch.float32, "cuda:0", "x86_64", False),
        (torch.float32, "mps", "arm64", False),
        (torch.float32, "cpu", "arm64", False),
        (torch.float32, "cpu", "aarch64", False),
    ],
)
def test_what_can_be_packed(monkeypatch, dtype, device, machine, expected):
    monkeypatch.setattr(packing.platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)

    assert can_pack(dtype, torch.device(device)) is expected


def test_a_torch_without_these_kernels_cannot_pack(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)

    assert not can_pack(torch.float32, CPU)


def loaded(spec):
    return load.load_pair(Profile("test", spec, None)).target.model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return str(folder(tmp_path_factory.mktemp("models") / "tiny"))


@here
def test_loading_packs_float32_and_nothing_else(place):
    assert packed_layers(loaded(ModelSpec(place, device="cpu", dtype="float32")))
    assert not packed_layers(loaded(ModelSpec(place, device="cpu", dtype="bfloat16")))


@here
def test_a_gguf_file_is_turned_into_numbers_and_packed(tmp_path):
    file = gguf_file(tmp_path / "tiny.gguf")

    assert packed_layers(loaded(ModelSpec(str(file), device="cpu", dtype="float32")))


@here
def test_what_is_quantized_or_spread_is_not_packed(place, monkeypatch):
    from_pretrained = load.AutoModelForCausalLM.from_pretrained
    with monkeypatch.context() as patch:

        def quantized(*arguments, **settings):
            model = from_pretrained(*arguments, **settings)
            model.is_quantized = True  # as transformers' quantizers write it
            return model

        patch.setattr(load.AutoModelForCausalLM, "from_pretrained", quantized)
        assert not packed_layers(loaded(ModelSpec(place, device="cpu", dtype="float32")))
    monkeypatch.setattr(load, "pick_devices", lambda _: (CPU, CPU))
    monkeypatch.setattr(load, "_placement", lambda _: {})
    assert not packed_layers(loaded(ModelSpec(place, device="cpu", dtype="float32")))
