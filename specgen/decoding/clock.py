"""Time as a parameter: marks taken in the order of the work, on the host or on the device that does it."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from specgen.stopwatch import now


class Clock(Protocol):
    """Takes marks now and tells the seconds between them later, when the work is known to be done."""

    def mark(self) -> Any:
        """A point in the stream of work."""

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds from one mark to another; only after a host synchronisation past ``end``."""


class HostClock:
    """For devices whose operations are done when the call returns (a CPU)."""

    def mark(self) -> float:
        """The time now, in seconds; a pause of the program is none."""
        return now()

    def seconds(self, start: float, end: float) -> float:
        """The difference."""
        return end - start


class CudaClock:
    """CUDA events, so that timing the two models of a round costs no synchronisation of its own."""

    def mark(self) -> torch.cuda.Event:
        """Record an event on the current stream."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """Device seconds between two events."""
        return float(start.elapsed_time(end)) / 1e3


def clock_for(device: torch.device) -> Clock:
    """The clock that tells the truth about work on ``device``."""
    return CudaClock() if device.type == "cuda" else HostClock()
