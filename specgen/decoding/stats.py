"""What a run amounts to, added up from its events."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from specgen.decoding.events import Decided, Event, Finished, FinishReason, Notice, Prompted, Round


class Stats:
    """Counts and times of a run; every rate is a property, and None until it is measured."""

    def __init__(self) -> None:
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.prefill_seconds = 0.0
        self.ttft: float | None = None
        self.tokens = 0
        self.rounds = 0
        self.proposed = 0
        self.accepted = 0
        self.refusals = 0
        self.seconds = 0.0
        self.draft_seconds = 0.0
        self.verify_seconds = 0.0
        self.speculative_rounds = 0
        self.looked_up = 0  # proposed tokens that came from a lookup
        self.drafting_off = ""
        self.finish_reason: FinishReason | None = None
        self.fed: Mapping[str, int] = {}
        self._plain_seconds: list[float] = []
        self._plain_by_chance = False  # the round before was not

    def add(self, event: Event) -> None:
        """Take one event into account."""
        match event:
            case Prompted():
                self.prompt_tokens = event.prompt_tokens
                self.cached_tokens = event.cached_tokens
                self.prefill_seconds = event.seconds
            case Round():
                self._add_round(event)
            case Finished():
                self.finish_reason = event.reason
                if self._plain_by_chance:
                    # Only one token was wanted; a single time is no measurement.
                    self._plain_seconds.pop()
                self.fed = event.fed
            case Decided():
                self.drafting_off = event.why
            case Notice():
                pass

    def _add_round(self, played: Round) -> None:
        self.rounds += 1
        self.tokens += len(played.tokens)
        self.seconds += played.seconds
        self.draft_seconds += played.draft_seconds
        self.verify_seconds += played.verify_seconds
        if self.ttft is None:
            self.ttft = self.prefill_seconds + played.seconds
        self._plain_by_chance = played.plain and self.speculative_rounds > 0 and not self._plain_by_chance
        if played.plain:
            self._plain_seconds.append(played.seconds)
            return
        self.speculative_rounds += 1
        self.proposed += len(played.proposed)
        self.accepted += played.accepted
        self.looked_up += len(played.proposed) if played.source == "lookup" else 0
        self.refusals += played.rejected is not None

    @property
    def own_seconds(self) -> float:
        """Decoding time outside draft and target: specgen's own work."""
        return self.seconds - self.draft_seconds - self.verify_seconds

    @property
    def tokens_per_second(self) -> float | None:
        """Decoding speed, the prompt's time left out."""
        return self.tokens / self.seconds if self.seconds else None

    @property
    def baseline_tokens_per_second(self) -> float | None:
        """Speed of the target alone: one token in the median plain round of this run."""
        return 1 / median(self._plain_seconds) if self._plain_seconds else None

    @property
    def speedup(self) -> float | None:
        """Tokens/s over measured tokens/s of the target alone; None when nothing was proposed or measured."""
        speed, baseline = self.tokens_per_second, self.baseline_tokens_per_second
        return speed / baseline if speed and baseline and self.speculative_rounds else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over proposed."""
        return self.accepted / self.proposed if self.proposed else None

    @property
    def alpha(self) -> float | None:
        """Accepted over tested: tokens after a rejection were never tested."""
        tested = self.accepted + self.refusals
        return self.accepted / tested if tested else None

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens a speculative round, the target's own included."""
        return 1 + self.accepted / self.speculative_rounds if self.speculative_rounds else None

    def as_record(self) -> dict[str, Any]:
        """The counts and rates as a record's fields (docs/cli.md), rounded to what they are worth."""
        return {
            "rounds": self.rounds,
            "proposed": self.proposed,
            "accepted": self.accepted,
            "acceptance_rate": rounded(self.acceptance_rate),
            "alpha": rounded(self.alpha),
            "mean_accepted_length": rounded(self.mean_accepted_length),
            "seconds": {"prefill": rounded(self.prefill_seconds), "decode": rounded(self.seconds)},
            "tokens_per_second": rounded(self.tokens_per_second),
            "speedup": rounded(self.speedup),
            "baseline_tokens_per_second": rounded(self.baseline_tokens_per_second),
        }


def rounded(value: float | None, digits: int = 4) -> float | None:
    """Four decimals; what is not known stays unknown."""
    return None if value is None else round(value, digits)
