"""What a batch says as it goes."""

from __future__ import annotations

from dataclasses import dataclass

from specgen.batch.feed import Failure, Job
from specgen.decoding.events import FinishReason
from specgen.decoding.stats import Stats

__all__ = ["Beat", "Failure", "Happening", "Outcome", "Shrunk"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """An item that has its text.

    Attributes:
        job: the item.
        text: what the target wrote.
        reason: why it ended.
        stats: counts and times.
        baseline_seconds: what its tokens would have taken the target alone, beside as many rows; None if not measured.
    """

    job: Job
    text: str
    reason: FinishReason
    stats: Stats
    baseline_seconds: float | None


@dataclass(frozen=True, slots=True)
class Beat:
    """A round of all rows.

    Attributes:
        rows: how many played.
        tokens: committed in all of them.
        seconds: of the round, prompts that were filled before it included.
        baseline_seconds: what the same would have taken the target alone; None if not measured.
        drafted: whether anything was proposed.
    """

    rows: int
    tokens: int
    seconds: float
    baseline_seconds: float | None
    drafted: bool


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Memory ran out, and the batch goes on with fewer rows."""

    rows: int


Happening = Outcome | Failure | Beat | Shrunk
