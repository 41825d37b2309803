"""Rounds counted the way the panel and the report want them, besides what ``Stats`` has."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from specgen.decoding.events import Round
from specgen.decoding.speedup import alpha_for
from specgen.decoding.stats import Stats


@dataclass(slots=True)
class Tally:
    """Counts of the rounds that had proposals.

    Attributes:
        tested: how often each position of a proposal was tested.
        accepted: how often it was accepted.
        lengths: rounds by how many drafts they accepted.
        rounds: rounds with proposals.
        proposed: tokens proposed in them.
        seconds: their time.
        plain_seconds: the time of the other rounds.
        lookahead: tokens proposed in the last round that had a proposal.
        source: where they came from.
        plain_in_a_row: rounds without one since then.
    """

    tested: Counter[int] = field(default_factory=Counter)
    accepted: Counter[int] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    rounds: int = 0
    proposed: int = 0
    seconds: float = 0.0
    plain_seconds: float = 0.0
    lookahead: int = 0
    source: str = ""
    plain_in_a_row: int = 0

    def add(self, played: Round) -> None:
        """Count a round."""
        if played.plain:
            self.plain_in_a_row += 1
            self.plain_seconds += played.seconds
            return
        self.lookahead, self.source, self.plain_in_a_row = len(played.proposed), played.source, 0
        self.rounds += 1
        self.proposed += len(played.proposed)
        self.seconds += played.seconds
        self.lengths[played.accepted] += 1
        for place in range(min(played.accepted + 1, len(played.proposed))):
            self.tested[place] += 1
            self.accepted[place] += place < played.accepted

    def break_even_drafts(self, stats: Stats) -> float | None:
        """Drafts that a round must have accepted on average to be worth its time; None until measured."""
        baseline = stats.baseline_tokens_per_second
        if not baseline or not self.rounds:
            return None
        return max(self.seconds / self.rounds * baseline - 1, 0.0)

    def break_even_rate(self, stats: Stats) -> float | None:
        """The acceptance rate below which drafting loses."""
        drafts = self.break_even_drafts(stats)
        return None if drafts is None else drafts * self.rounds / self.proposed

    def break_even_alpha(self, stats: Stats) -> float | None:
        """The alpha below which drafting loses; None also where none would do."""
        drafts = self.break_even_drafts(stats)
        return None if drafts is None else alpha_for(drafts, round(self.proposed / self.rounds))
