"""How much memory the process holds."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def memory_in_use() -> int | None:
    """Return the accelerator's memory where torch has some, else the process's; None if unknown."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None  # nothing is loaded
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(sum(torch.cuda.memory_reserved(device) for device in range(torch.cuda.device_count())))
    try:
        resident = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(resident) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return _peak()


def _peak() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
