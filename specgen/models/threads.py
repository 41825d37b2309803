"""Threads: how many the CPU's kernels run on, no more than the processors that this process may use at once.

torch takes one for every core that it sees. In a container it sees the host's, and threads that wait for each other's
turn slow a step by an order of magnitude.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path

import torch

from specgen.cgroups import GROUPS, PROC, groups

_NO_THREADS = "HF_DEACTIVATE_ASYNC_LOAD"
CHOSEN = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables with which a user has chosen; torch follows them."""


def settle(threads: int | None = None, *, environ: Mapping[str, str] = os.environ) -> int:
    """Set the number of threads for this process and return it.

    Args:
        threads: as many as this; None leaves it to ``OMP_NUM_THREADS``, or else to the machine.
        environ: the environment variables.
    """
    if threads is None and not any(environ.get(name) for name in CHOSEN):
        threads = min(torch.get_num_threads(), processors())
    if threads is not None and threads != torch.get_num_threads():
        torch.set_num_threads(threads)
    return torch.get_num_threads()


@contextmanager
def one_weight_at_a_time(environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Let transformers read weights without its four threads.

    On a CPU these save no time, and which of them converts which weight leaves another pattern of gaps every time: a
    sixth more address space than the plan can know of.
    """
    before = environ.get(_NO_THREADS)
    environ[_NO_THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del environ[_NO_THREADS]
        else:
            environ[_NO_THREADS] = before


def processors(proc: Path = PROC, root: Path = GROUPS) -> int:
    """Processors that this process may use at once: its affinity, within the quota of every group it is in."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for folder, version in groups("cpu", proc, root) if (quota := _quota(folder, version)) is not None]
    return max(1, math.floor(min([allowed, *quotas])))


def _quota(folder: Path, version: int) -> float | None:
    """Processors that a group may use, None without a limit."""
    try:
        if version == 2:
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return None if quota in ("max", "-1") else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
