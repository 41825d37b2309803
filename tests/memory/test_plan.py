"""Plans as a whole: the case the tool was asked for, the formula beside the trace, changes that are true."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specgen.errors import UsageError
from specgen.memory import free, quantized
from specgen.memory.advice import advise, largest
from specgen.memory.as_json import as_data
from specgen.memory.closed_form import architecture
from specgen.memory.errors import CannotTell, DoesNotFit
from specgen.memory.packing import eight_bits, packs
from specgen.memory.plan import Planner
from specgen.memory.preflight import check_fits, planner_for
from specgen.memory.request import Request
from specgen.memory.sources import Known
from specgen.memory.workload import Workload
from specgen.profile import Sampling, load_profile, most_proposed

SHIPPED = sorted(path.stem for path in (Path(__file__).parents[2] / "profiles").glob("*.yaml"))


@pytest.fixture(scope="module")
def seed():
    profile = load_profile("llama-7b-1b")
    load = Workload(4096, 18, 5, sampling=profile.sampling)
    return planner_for(profile, offline=True), Request(load, free.assumed("80GB"))


def test_seed_case_weights_and_caches_to_the_byte(seed):
    planner, request = seed

    plan = planner.plan(request)

    assert plan.target.weights == 13_476_831_232 + 512  # the published checkpoint, and the rotary frequencies
    assert plan.draft.weights == 2_200_096_768 + 256
    assert (plan.target.kv_per_token, plan.draft.kv_per_token) == (524_288, 22_528)
    assert round(18 * 4096 * (plan.target.kv_per_token + plan.draft.kv_per_token) / 1e9, 2) == 40.32
    assert plan.target.kv == 18 * (4096 + 6) * 524_288
    assert plan.draft.kv == 18 * (2048 + 1) * 22_528
    assert plan.verdict == "fits"


def test_seed_case_read_in_one_piece_costs_what_others_report(seed):
    planner, request = seed

    in_chunks, whole = planner.plan(request), planner.plan(request.changed(prefill_chunk=4096))

    assert whole.peak.peak > in_chunks.peak.peak
    assert in_chunks.need < 57e9


def test_seed_case_does_not_fit_48_gb_and_every_change_is_true(seed):
    planner, request = seed
    request = replace(request, devices=free.assumed("48GB"))

    plan = advise(planner, request, planner.plan(request))

    assert plan.verdict == "no"
    changes = {
        "--context": lambda v: {"context": int(v)},
        "--batch": lambda v: {"batch": int(v)},
        "--target-quant": lambda v: {"target_quant": v},
    }
    assert len(plan.suggestions) >= 3
    for suggestion in plan.suggestions:
        name, value = suggestion.options.split()
        again = planner.plan(request.changed(**changes[name](value)))
        assert again.fits
        assert again.need == suggestion.need


def test_limits_are_the_last_that_fit(seed):
    planner, request = seed
    plan = advise(planner, request, planner.plan(request))

    assert plan.limits.context_by == "model"
    assert planner.plan(request.changed(batch=plan.limits.batch)).fits
    assert not planner.plan(request.changed(batch=plan.limits.batch + 2)).fits


@pytest.mark.parametrize("name", SHIPPED)
def test_formula_and_trace_agree_for_every_shipped_profile(name):
    profile = load_profile(name)
    planner = planner_for(profile, offline=True)
    if architecture(planner.target.numbers) is None or (planner.draft and architecture(planner.draft.numbers) is None):
        pytest.skip("the formula does not claim this family")
    for device, dtype, batch, context in (
        ("cpu", "float32", 1, 2048),
        ("cpu", "bfloat16", 3, 8192),
        ("cuda", "bfloat16", 1, 2048),
        ("cuda", "bfloat16", 3, 8192),
    ):
        memory, tokens = free.assumed("500GB", device), min(context, planner.positions())
        load = Workload(
            tokens, batch, most_proposed(profile.lookahead) if profile.draft else 0, sampling=profile.sampling
        )
        rounded = eight_bits("int8", dtype, memory)
        request = Request(load, memory, None, dtype, "int8" if rounded else dtype, with_draft=profile.draft is not None)
        traced, quick = planner.plan(request), planner.plan(replace(request, fast=True))
        assert quick.target.weights == traced.target.weights
        assert quick.target.kv == traced.target.kv
        assert (quick.draft is None) or quick.draft.weights == traced.draft.weights
        assert not (rounded and quick.draft) or quick.draft.by_dtype == traced.draft.by_dtype
        assert quick.peak.peak == pytest.approx(traced.peak.peak, rel=0.01)


def test_formula_and_trace_agree_in_strict_mode(seed):
    planner, request = seed
    request = replace(request.changed(batch=1, columns=12), target_dtype="bfloat16", draft_dtype="bfloat16")

    traced, quick, loose = (
        planner.plan(r) for r in (request, replace(request, fast=True), request.changed(columns=None))
    )

    assert quick.peak.peak == pytest.approx(traced.peak.peak, rel=0.01)
    assert traced.target.kv - loose.target.kv == (12 - 6) * traced.target.kv_per_token
    verify = [next(p.peak for p in plan.phases if p.name == "verify") for plan in (traced, quick, loose)]
    assert verify[1] == pytest.approx(verify[0], rel=0.01)
    assert verify[0] > verify[2]


packed = pytest.mark.skipif(not packs("float32", free.assumed("1GB", "cpu")), reason="nothing is packed here")


@packed
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("vocab", [512, 500])
def test_packed_weights_in_formula_and_trace(tied, vocab):
    config = numbers(tie_word_embeddings=tied, vocab_size=vocab)
    options = {"devices": free.assumed("4GB", "cpu"), "target_dtype": "float32"}

    traced, quick = (plan_of(config, **options, fast=fast).target for fast in (False, True))

    for name in ("weights", "copied", "packing", "untouched", "by_dtype"):
        assert getattr(traced, name) == getattr(quick, name), name
    # 512 rows of 64 numbers, whatever the vocabulary: whole blocks.
    head = 512 * 64 * 4
    assert traced.copied == (head if tied else 0)
    assert traced.packing == (128 * 64 * 4 if tied else head)
    # Keys and values have 32 outputs, and take as much as 64.
    padding = 4 * 2 * 32 * 64 * 4 + (0 if tied else head - vocab * 64 * 4)
    plain = plan_of(config, **{**options, "devices": free.assumed("4GB")}).target
    assert traced.weights == plain.weights + traced.copied + padding


@packed
def test_what_is_planned_packed():
    here, spread = free.assumed("4GB", "cpu"), free.assumed("4GB,4GB", "cpu")

    def weights(devices, dtype, **options):
        return plan_of(numbers(tie_word_embeddings=True), devices=devices, target_dtype=dtype, **options).target

    assert weights(here, "float32").packing
    assert not weights(here, "bfloat16").packing
    assert not weights(here, "float32", target_quant="nf4").packing
    assert not weights(spread, "float32").packing
    assert not weights(free.assumed("4GB"), "float32").packing


@pytest.mark.skipif(not eight_bits("int8", "float32", free.assumed("1GB", "cpu")), reason="nothing is rounded here")
def test_which_drafts_are_planned_in_eight_bits():
    here = free.assumed("4GB", "cpu")

    def planned(draft_dtype, devices=here, **options):
        request = Request(Workload(64, 1, 3), devices, target_dtype="float32", draft_dtype=draft_dtype, **options)
        draft = Known("toy-draft", numbers(tie_word_embeddings=True), None, "config")
        return Planner(Known("toy", numbers(), None, "config"), draft).plan(request).draft

    rounded, wide = planned("int8"), planned("float32")
    assert rounded.dtype == "int8"
    assert set(rounded.by_dtype) == {"int8", "float32"}
    assert rounded.copied
    assert not planned("bfloat16").packing
    assert wide.dtype == "float32"
    assert planned("auto", draft_quant="nf4").dtype != "int8"
    for devices in (free.assumed("4GB"), free.assumed("4GB,4GB", "cpu")):
        with pytest.raises(UsageError, match="int8 needs an x86 CPU"):
            planned("int8", devices)


@packed
def test_packing_holds_a_matrix_twice_while_a_model_is_loaded():
    plan = plan_of(numbers(), devices=free.assumed("4GB", "cpu"), target_dtype="float32")

    assert plan.phases[0].name == "load target"
    assert plan.phases[0].peak == plan.target.weights + 512 * 64 * 4


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_profile_is_planned_offline(name):
    profile = load_profile(name)
    planner = planner_for(profile, offline=True)
    load = Workload(min(profile.context or 4096, 4096), 1, most_proposed(profile.lookahead) if profile.draft else 0)

    plan = planner.plan(Request(load, free.assumed("2000GB"), with_draft=profile.draft is not None))

    assert plan.fits
    json.dumps(as_data(plan))


def numbers(**changes):
    return {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 512,
        "max_position_embeddings": 128,
        **changes,
    }


def plan_of(config, **options):
    load = Workload(options.pop("context", 64), 1, 0)
    request = Request(load, options.pop("devices", free.assumed("4GB")), with_draft=False, **options)
    return Planner(Known("toy", config, None, "config"), None).plan(request)


@pytest.mark.parametrize("fast", [True, False])
def test_a_null_head_dim_is_the_quotient(fast):
    assert plan_of(numbers(head_dim=None), fast=fast).target.kv == plan_of(numbers(), fast=fast).target.kv


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (numbers(model_type="nonesuch"), "does not know model_type 'nonesuch'"),
        (numbers(model_type=None), "does not know model_type None"),
        (numbers(hidden_size="wide"), "toy"),
        (numbers(hidden_size=-64), "toy"),
        (numbers(model_type="mamba"), "toy"),
    ],
)
def test_what_is_not_known_is_not_guessed(config, message):
    with pytest.raises(CannotTell, match=message) as caught:
        plan_of(config)
    assert caught.value.exit_code == 4
    assert caught.value.hint
    assert "\n" not in caught.value.message


def test_an_enormous_context_is_refused():
    with pytest.raises(UsageError, match="1,000,000,000 is more than the 128 positions of toy"):
        plan_of(numbers(), context=10**9)


def test_an_enormous_context_that_the_model_allows_is_planned_at_once():
    plan = plan_of(numbers(max_position_embeddings=2 * 10**9), context=10**9)

    assert plan.verdict == "no"
    assert plan.target.kv == (10**9 + 1) * 4 * 2 * 2 * 16 * 2


@pytest.mark.parametrize(
    ("method", "shape", "expected"),
    [
        ("int8", (11008, 4096), 45_132_800),
        ("nf4", (4096, 4096), 4096 * 4096 // 2 + 4 * (4096 * 4096 // 64) + 64),
        ("nf4-double", (4096, 4096), 8_388_608 + 262_144 + 4 * 1024 + 64 + 1028),
        ("nf4", (3, 5), 8 + 4 + 64),
    ],
)
def test_bitsandbytes_bytes(method, shape, expected):
    assert quantized.linear_bytes(quantized.Scheme(method), *shape) == expected


def test_llama_8b_in_4_bits_is_what_was_measured():
    planner = planner_for(load_profile("llama3-8b-1b"), offline=True)
    request = Request(Workload(4096, 1, 5), free.assumed("80GB"))

    sizes = {q: planner.plan(request.changed(target_quant=q)).target.weights / 1e9 for q in quantized.SCHEMES}

    assert {q: round(s, 2) for q, s in sizes.items()} == {"int8": 9.09, "nf4": 6.03, "nf4-double": 5.70}


def test_fused_experts_stay_as_they_are():
    moe = numbers(model_type="mixtral", num_local_experts=4, head_dim=16)

    dense, packed = plan_of(moe), plan_of(moe, target_quant="nf4")

    attention = 4 * sum(
        quantized.linear_bytes(quantized.Scheme("nf4"), *s) for s in ((64, 64), (32, 64), (32, 64), (64, 64))
    )
    assert packed.target.weights == dense.target.weights - 2 * 4 * (2 * 64 * 64 + 2 * 32 * 64) + attention


@pytest.mark.parametrize(
    ("config", "device", "capability", "stays"),
    [
        ({"quant_method": "fp8"}, "cuda", (8, 9), True),
        ({"quant_method": "fp8"}, "cuda", (8, 0), False),
        ({"quant_method": "fp8"}, "cpu", None, False),
        ({"quant_method": "mxfp4"}, "cpu", None, False),
        ({"quant_method": "gptq", "bits": 4}, "cuda", None, True),
        ({"quant_method": "compressed-tensors", "dequantize": True}, "cuda", None, False),
    ],
)
def test_silent_dequantization_is_noticed(config, device, capability, stays):
    found = quantized.packed({"quantization_config": config}, device, capability)

    assert found.stays is stays
    assert (found.reason is None) is stays


def test_a_quantized_checkpoint_without_its_headers_cannot_be_told():
    with pytest.raises(CannotTell, match="gptq weights is in its headers"):
        plan_of(numbers(quantization_config={"quant_method": "gptq", "bits": 4}))


def test_several_devices_share_the_target_and_the_draft_goes_where_room_is():
    planner = planner_for(load_profile("llama3-70b-1b"), offline=True)
    request = Request(Workload(8192, 1, 5), free.assumed("80GB,100GB"))

    plan = planner.plan(request)

    assert sum(d.weights for d in plan.devices) == plan.target.weights + plan.draft.weights
    assert sum(d.kv for d in plan.devices) == pytest.approx(plan.target.kv + plan.draft.kv, abs=200)
    assert [d.verdict for d in plan.devices] == ["fits", "fits"]


@pytest.mark.parametrize("limit", [0, 1, 63, 64, 999, 1000])
def test_largest_finds_the_last_value_with_something_to_spare(limit):
    asked = []

    def spare(value):
        asked.append(value)
        return 1000 * limit - 1000 * value + value % 7

    assert largest(spare, 1, 1000) == limit
    assert len(asked) < 14


def test_preflight_refuses_in_a_line_and_names_a_way_out(monkeypatch):
    monkeypatch.setattr(free, "cpu", lambda: free.Memory("cpu", 10**9, 10**9, "test"))
    profile = load_profile("qwen-coder-7b-0.5b", ["target.device=cpu", "draft.device=cpu", "target.dtype=bfloat16"])

    with pytest.raises(DoesNotFit, match=r"needs \d+\.\d GB on cpu at its peak .*, 1\.0 GB are free") as caught:
        check_fits(profile, context=300)

    assert caught.value.exit_code == 3
    assert "--skip-memory-check" in caught.value.hint
    assert "plan-memory" in caught.value.hint


def test_preflight_counts_the_wider_passes_of_strict_mode():
    profile = load_profile("llama-7b-1b", ["target.device=cpu", "draft.device=cpu", "target.dtype=bfloat16"])
    planner = planner_for(profile, offline=True)
    room = free.Memory("cpu", 10**12, 10**12, "test")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(free, "cpu", lambda: room)
        strict, loose = (
            check_fits(profile, context=300, prompt=64, lookahead=4, columns=columns, planner=planner)
            for columns in (12, None)
        )

    assert (strict.request["slots"], loose.request["slots"]) == (312, 305)
    peaks = [next(p.peak for p in plan.phases if p.name == "verify") for plan in (strict, loose)]
    assert peaks[0] > peaks[1]


def test_preflight_lets_pass_what_it_cannot_tell():
    profile = load_profile("starter", ["target.model=no/such-model"])
    profile = replace(profile, target=replace(profile.target, config={}, mirror=None))

    assert check_fits(profile, context=300) is None


def test_greedy_needs_less_than_sampling(seed):
    planner, request = seed

    sampled, greedy = (
        planner.plan(request.changed(sampling=s)) for s in (Sampling(temperature=1.0), Sampling(temperature=0.0))
    )

    last = [next(p.peak for p in plan.phases if p.name == "acceptance") for plan in (sampled, greedy)]
    assert last[0] > last[1]


def test_advice_is_quick_and_true_where_the_formula_does_not_reach():
    planner = planner_for(load_profile("gemma3-12b-1b"), offline=True)
    request = Request(Workload(8192, 4, 5), free.assumed("36GB"))

    plan = advise(planner, request, planner.plan(request))

    assert planner.plan(request.changed(batch=plan.limits.batch)).fits
    assert planner.plan(request.changed(context=plan.limits.context)).fits
    assert len(planner.traces._ran) < 12
