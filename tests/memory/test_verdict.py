"""The verdict is kept: under a limit on memory, what fits runs, and what does not fit had next to nothing to spare."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
import transformers as hf

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS is enforced on Linux"),
]

# What is imported before the limit is the same before both numbers, so only the pair's own memory is judged.
CHILD = """
import json, resource, sys
question = json.loads(sys.argv[1])
import torch
from transformers import AutoModelForCausalLM
from specgen.memory import free, measure, tracing
from specgen.memory.preflight import planner_for
from specgen.memory.request import Request
from specgen.memory.workload import Workload
from specgen.models import cache
from specgen.models.attention import NAME
from specgen.models.cached import CachedModel
from specgen.models.packing import can_pack, pack
from specgen.models.threads import one_weight_at_a_time
from specgen.profile import ModelSpec, Profile, Sampling
torch.set_num_threads(2)
cache.register()
resource.setrlimit(resource.RLIMIT_AS, (question["limit"],) * 2)
spec = ModelSpec(question["model"], dtype=question["dtype"], device="cpu")
load = Workload(question["context"], question["batch"], 4, sampling=Sampling(temperature=0.8, top_p=0.9))
plan = planner_for(Profile("x", spec, spec), offline=True).plan(
    Request(load, (free.cpu(),), target_dtype=spec.dtype, draft_dtype=spec.dtype)
)
print(json.dumps([plan.verdict, plan.need]), flush=True)
if plan.verdict == "no":
    sys.exit()
dtype, models = getattr(torch, spec.dtype), []
for _ in range(2):
    with one_weight_at_a_time():
        model = AutoModelForCausalLM.from_pretrained(spec.model, dtype=dtype, attn_implementation=NAME).eval()
    if can_pack(dtype, model.device):
        pack(model)
    models.append(CachedModel(model, "m", context=8192))
measure.run_phases(*models, load, measure.Meter(torch.device("cpu"), events=False))
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmPeak")))
"""


def save(folder, dtype):
    config = hf.LlamaConfig(
        vocab_size=16384,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=8,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=8192,
    )
    hf.AutoModelForCausalLM.from_config(config, dtype=dtype).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {name: save(folder / name, getattr(torch, name)) for name in ("bfloat16", "float32")}


def run(model, dtype, context, batch, limit):
    question = json.dumps({"model": model, "dtype": dtype, "context": context, "batch": batch, "limit": limit})
    done = subprocess.run([sys.executable, "-c", CHILD, question], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    verdict, need = json.loads(lines[0])
    return verdict, need, int(lines[1]) if len(lines) == 2 else None


@pytest.mark.parametrize(
    ("stored", "dtype", "context", "batch"),
    [
        ("bfloat16", "bfloat16", 256, 1),
        # Packed, from files that are converted and from files that stay mapped.
        ("bfloat16", "float32", 256, 1),
        ("float32", "float32", 256, 1),
        ("float32", "float32", 1024, 4),
    ],
)
def test_no_fits_dies_and_no_refusal_had_a_tenth_to_spare(models, stored, dtype, context, batch):
    model = models[stored]
    _, _, used = run(model, dtype, context, batch, 64 * 2**30)
    assert used is not None

    for share in (0.94, 1.01, 1.11):
        verdict, need, peak = run(model, dtype, context, batch, int(used * share))
        told = f"limit {share} of {used:,}: {verdict}, planned {need:,}, ran {peak is not None}"
        assert verdict == "no" or peak is not None, told
        assert verdict != "no" or share < 1.1, told
