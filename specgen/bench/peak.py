"""The most memory that was in use during a run, all loaded models included."""

from __future__ import annotations

from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_HIGH_WATER = "5"  # what resets the mark, in the kernel's words


class Peak:
    """The high-water mark of a device, or of the process on a CPU; where it cannot be reset it is that of all runs.

    Args:
        device: where the target runs.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reset(self) -> None:
        """Begin anew."""
        if self._device.type == "cuda":
            for index in range(torch.cuda.device_count()):
                torch.cuda.reset_peak_memory_stats(index)
        elif self._device.type == "cpu":
            try:
                _CLEAR.write_text(_HIGH_WATER, encoding="ascii")
            except OSError:
                return

    def read(self) -> int | None:
        """Bytes; None where nobody can tell."""
        if self._device.type == "cuda":
            return sum(torch.cuda.max_memory_allocated(index) for index in range(torch.cuda.device_count()))
        if self._device.type != "cpu":
            return None
        try:
            lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
            return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
        except (OSError, StopIteration, ValueError):
            return _process()


def _process() -> int | None:
    try:
        from specgen.memory.measure import high_water

        return high_water()
    except ImportError:  # Windows
        return None
