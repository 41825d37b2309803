"""An item while it is running."""

from __future__ import annotations

from dataclasses import dataclass, field

from specgen.batch.feed import Job
from specgen.batch.happenings import Outcome
from specgen.decoding.events import FinishReason, Round
from specgen.decoding.stats import Stats
from specgen.text import Speech


@dataclass(slots=True)
class Row:
    """A job in a row of the engine.

    Attributes:
        job: the item.
        speech: its text so far.
        since: when it got its row.
        cached: tokens of its prompt that some row had in its cache.
        prefill: seconds spent on its prompt.
        stats: counts and times.
        text: the pieces of its text.
        baseline: what its tokens would have taken the target alone; None if not measured.
    """

    job: Job
    speech: Speech
    since: float
    cached: int = 0
    prefill: float = 0.0
    stats: Stats = field(default_factory=Stats)
    text: list[str] = field(default_factory=list)
    baseline: float | None = 0.0

    def hear(self, played: Round, plain_seconds: float | None) -> None:
        """Take a round; ``plain_seconds`` is what one of the target alone takes beside as many rows."""
        spoken = self.speech.hear(played)
        self.stats.add(spoken.round)
        self.text.append(spoken.text)
        if self.baseline is not None:
            tokens = len(spoken.round.tokens)
            self.baseline = None if plain_seconds is None else self.baseline + tokens * plain_seconds

    def outcome(self, reason: FinishReason) -> Outcome:
        """What became of the item, whose engine ended it for ``reason``."""
        if self.speech.stopped:
            reason = "stop"
        else:
            self.text.append(self.speech.finish())
        return Outcome(self.job, "".join(self.text), reason, self.stats, self.baseline)
