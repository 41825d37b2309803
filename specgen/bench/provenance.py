"""Where a measurement is from: what ran, on what, with what."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from specgen import __version__
from specgen.bench.run import Plan
from specgen.models.load import Pair


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a reader needs to know of a figure.

    Attributes:
        profile: the pair's name.
        models: the pair in words.
        dtype: the target's arithmetic.
        device: where the target ran, in words.
        cpu: the processor's name.
        threads: of torch.
        system: operating system and machine.
        python: its version.
        torch: likewise.
        transformers: likewise.
        specgen: likewise.
        prompts: how many were wanted.
        source: where they are from.
        max_tokens: tokens for each at most.
        repeats: how many were wanted.
        seed: of the first prompt.
        rule: the acceptance rule above temperature 0.
    """

    profile: str
    models: str
    dtype: str
    device: str
    cpu: str
    threads: int
    system: str
    python: str
    torch: str
    transformers: str
    specgen: str
    prompts: int
    source: str
    max_tokens: int
    repeats: int
    seed: int
    rule: str


def provenance(pair: Pair, plan: Plan, source: str) -> Provenance:
    """Look around.

    Args:
        pair: what is measured.
        plan: how.
        source: where the prompts are from, in words.
    """
    return Provenance(
        profile=pair.profile.name,
        models=pair.describe(),
        dtype=str(pair.target.model.dtype).removeprefix("torch."),
        device=_device(pair.target.device),
        cpu=_cpu(),
        threads=torch.get_num_threads(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        torch=str(torch.__version__),
        transformers=transformers.__version__,
        specgen=__version__,
        prompts=len(plan.prompts),
        source=source,
        max_tokens=plan.max_tokens,
        repeats=plan.repeats,
        seed=plan.seed,
        rule=pair.profile.acceptance,
    )


def _device(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return str(device)


def _cpu(info: Path = Path("/proc/cpuinfo")) -> str:
    try:
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
