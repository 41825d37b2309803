"""The control groups of a container: limits that Linux puts on this process from outside, both versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")


def groups(controller: str, proc: Path = PROC, root: Path = GROUPS) -> Iterator[tuple[Path, int]]:
    """Yield the folder of every group that this process is in, inner ones first, and the version of its files.

    Args:
        controller: ``memory`` or ``cpu``.
        proc: where the system describes its processes.
        root: where the groups are mounted.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base, version = root, 2
        elif controller in controllers.split(","):
            base, version = root / controller, 1
        else:
            continue
        inside = base / path.lstrip("/")
        for folder in (inside, *inside.parents):
            yield folder, version
            if folder == base:
                break
