"""How much memory there is: what the device says, less what a container or a limit takes away."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from specgen.cgroups import GROUPS, PROC, groups
from specgen.errors import UsageError
from specgen.memory.errors import CannotTell

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)
# By version of cgroups: the limit, what is used, and what of that can be dropped.
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
# Version 1 writes "no limit" as a number near 2^63.
_UNLIMITED = 2**60


@dataclass(frozen=True, slots=True)
class Memory:
    """One device's memory.

    Attributes:
        id: ``cuda:0``, ``cpu``, ...
        total: bytes, 0 when not known.
        free: bytes that a new process may use.
        source: where the number is from.
        address_space: whether every mapping counts, used or not (``RLIMIT_AS``).
        others: other processes on it and their bytes.
        integrated: whether it shares the host's memory.
    """

    id: str
    total: int
    free: int
    source: str
    address_space: bool = False
    others: tuple[tuple[int, int], ...] = ()
    integrated: bool = False

    @property
    def kind(self) -> str:
        """The kind of device."""
        return self.id.partition(":")[0]


def parse_size(text: str) -> int:
    """Read ``80GB``, ``46.5GiB`` or a number of bytes.

    Raises:
        UsageError: it is no size, or not above zero.
    """
    match = _SIZE.fullmatch(text)
    size = int(float(match[1]) * _UNITS[(match[2] or "").lower()]) if match else 0
    if size <= 0:
        raise UsageError(f"{text!r} is not an amount of memory", "--device-memory 80GB, or 46.5GiB, or 24GB,24GB")
    return size


def assumed(text: str, kind: str = "cuda") -> tuple[Memory, ...]:
    """Devices that are not here, from ``80GB`` or ``80GB,80GB``."""
    sizes = [parse_size(part) for part in text.split(",")]
    names = [kind if kind in ("cpu", "mps") else f"{kind}:{i}" for i in range(len(sizes))]
    return tuple(Memory(name, size, size, "given") for name, size in zip(names, sizes, strict=True))


def cpu(proc: Path = PROC, cgroups: Path = GROUPS) -> Memory:
    """The host's memory, within every limit of this process; what this process holds itself counts as free.

    Raises:
        CannotTell: the system does not say.
    """
    total, available, source = _host(proc)
    own = resident(proc)
    readings = [(available + own, source)]
    readings += [(free + own, "cgroup") for free in _cgroup_free(proc, cgroups)]
    free, source = min(readings)
    limit = _address_limit()
    if limit is not None and limit < free:
        return Memory("cpu", limit, limit, "RLIMIT_AS", address_space=True)
    return Memory("cpu", total, max(free, 0), source)


def _host(proc: Path) -> tuple[int, int, str]:
    try:
        fields = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines() if ":" in line)
        return _kib(fields["MemTotal"]), _kib(fields["MemAvailable"]), "MemAvailable"
    except (OSError, KeyError, ValueError):
        pass
    try:
        import psutil

        memory = psutil.virtual_memory()
        return int(memory.total), int(memory.available), "psutil"
    except Exception as error:  # whatever the system's answer was, there is no number
        raise CannotTell("cannot read how much memory is free", "say it: --device-memory 16GB --device cpu") from error


def _kib(text: str) -> int:
    return int(text.split(maxsplit=1)[0]) * 1024


def resident(proc: Path = PROC) -> int:
    """Bytes of memory that this process has of its own; 0 where that is not known."""
    return _status("RssAnon", proc)


def address_space(proc: Path = PROC) -> int:
    """Bytes of address space that this process has mapped."""
    return _status("VmSize", proc)


def _status(field: str, proc: Path) -> int:
    try:
        lines = (proc / "self" / "status").read_text().splitlines()
        return next(_kib(line.partition(":")[2]) for line in lines if line.startswith(f"{field}:"))
    except (OSError, StopIteration, ValueError):
        return 0


def _address_limit() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else int(soft)


def _cgroup_free(proc: Path, root: Path) -> list[int]:
    """What every group above this process leaves, both versions; page cache that can be dropped counts as free."""
    found = (_group(folder, *_FILES[version]) for folder, version in groups("memory", proc, root))
    return [free for free in found if free is not None]


def _group(folder: Path, limit_name: str, used_name: str, cache_name: str) -> int | None:
    try:
        limit = (folder / limit_name).read_text().strip()
        used = int((folder / used_name).read_text())
        if limit == "max" or int(limit) >= _UNLIMITED:
            return None
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines() if line.count(" ") == 1)
        return int(limit) - used + int(stat.get(cache_name, 0))
    except (OSError, ValueError):
        return None


def present(names: tuple[str, ...]) -> tuple[Memory, ...]:
    """Read devices of this machine; ``names`` as torch writes them.

    Raises:
        CannotTell: a device does not say.
    """
    return tuple(_read(name) for name in names)


def _read(name: str) -> Memory:
    kind = name.partition(":")[0]
    if kind == "cpu":
        return cpu()
    try:
        return _unified(name) if kind == "mps" else _accelerator(name)
    except (RuntimeError, AssertionError, AttributeError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise CannotTell(f"cannot read the free memory of {name}: {line}", "say it: --device-memory 24GB") from error


def _accelerator(name: str) -> Memory:
    import torch

    device = torch.device(name)
    free, total = torch.accelerator.get_memory_info(device)
    if device.type == "cuda" and getattr(torch.cuda.get_device_properties(device), "is_integrated", False):
        # The device counts the page cache as used, and its memory is the host's.
        host = cpu()
        return Memory(name, total, min(total, host.free), f"{host.source}, shared with the host", integrated=True)
    return Memory(name, int(total), int(free), "the driver", others=_others(device.index or 0))


def _others(index: int) -> tuple[tuple[int, int], ...]:
    """Other processes on a CUDA device, where the management library is installed."""
    try:
        import pynvml  # type: ignore[import-not-found, unused-ignore]

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        found = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        return tuple((int(p.pid), int(p.usedGpuMemory)) for p in found if p.usedGpuMemory)
    except Exception:  # noqa: BLE001 - it only adds names to a plan
        return ()


def _unified(name: str) -> Memory:
    import torch

    total = int(torch.mps.recommended_max_memory())
    host = cpu()
    return Memory(name, total, min(total, host.free), "recommended maximum", integrated=True)
