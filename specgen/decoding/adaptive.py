"""The lookahead that specgen chooses by itself, from measured costs and learned acceptance.

A token more is drafted while what it is expected to add, at the speed of the run, takes longer than drafting and
verifying it: the marginal rule, which is optimal for the cost model in ``speedup``. The expectation comes from the
draft's confidence in its last token, through a table learned from the run (after Huang et al., SpecDec++,
arXiv 2405.19715, whose optimal policy is such a threshold). It is always taken before the token is drawn, never after
seeing it, so every acceptance rule stays lossless, and any schedule leaves the text as it is.

Where no lookahead pays, the target works alone on its plain path; a short proposal now and then, at growing intervals,
finds out whether that has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specgen.decoding.calibration import UNKNOWN, Calibration
from specgen.decoding.costs import Costs
from specgen.decoding.events import Round
from specgen.decoding.lookahead import Evidence
from specgen.decoding.lookup import PRIOR
from specgen.decoding.speedup import break_even
from specgen.profile import AUTO_MOST

_HORIZON = 4  # tokens ahead that may together be worth what the next one alone is not
_MARGIN = 1.02  # how much faster than the target alone drafting must promise to be to be switched on again
_CLEARLY = 0.98  # below this it is switched off
_PAUSE = 64  # tokens from switching off to the first probe
_PLAIN_EVERY = 128  # tokens from one measure of the target alone to the next
_MEMORY = 0.95  # of the speed of the run, by rounds
_JUDGED = 64  # tokens of drafting whose real time is held against the target alone


class AdaptiveLookahead:
    """Chooses for every round what to propose, and whether to.

    Args:
        most: tokens proposed a round at most.
        draft_cost: guess of a draft step in plain steps, until it is measured.
        first: plain rounds at the start, which measure the target alone.
        learned: what ``as_data`` returned in an earlier run.
    """

    def __init__(
        self,
        most: int = AUTO_MOST,
        *,
        draft_cost: float = 0.3,
        first: int = 3,
        learned: Mapping[str, Any] | None = None,
    ) -> None:
        self.most = most
        learned = learned or {}
        self.costs = Costs(learned.get("costs"))
        self.draft = Calibration(learned=learned.get("draft"))
        self.lookup = Calibration(PRIOR, learned=learned.get("lookup"))
        self.why = ""
        self._draft_cost = draft_cost
        self._first = first
        self._rows = 1
        self._since_plain = 0
        self._tokens = self._seconds = 0.0  # of recent rounds, for the speed of the run
        self._pause, self._off = _PAUSE, 0
        self._paused = self._probing = self._caught_up = False
        self._judged: list[tuple[int, float]] = []

    def as_data(self) -> dict[str, Any]:
        """Return what was learned, for the next run of the same pair on the same machine."""
        return {"costs": self.costs.as_data(), "draft": self.draft.as_data(), "lookup": self.lookup.as_data()}

    # What the engine asks.

    def choose(self, rows: int = 1) -> int:
        """The most to propose in the next round of ``rows`` rows; 0 where the target alone is to be measured."""
        self._rows = rows
        if self._first > 0 or not self.costs.measured(rows):
            return 0
        # The faster the run, the more a plain round costs it.
        if self._since_plain >= _PLAIN_EVERY * self._speed() * self.costs.verify(rows, 0):
            return 0
        return min(self.most, self.costs.reach(rows))

    def go_on(self, drafted: Evidence) -> bool:
        """Whether to draft one more token after these, in every row."""
        k = len(drafted[0])
        if not k:
            return self._begin()
        if self._probing:
            return False
        # A proposal is as long as its longest row; a few tokens together may pay where one does not.
        speed = self._speed()
        now, step = self.costs.verify(self._rows, k), self._step()
        alive = [_survival(self.draft, row) for row in drafted]
        ahead = [self.draft.after(row) for row in drafted]
        gain = 0.0
        for j in range(1, min(_HORIZON, self.most - k) + 1):
            gain += sum(a * p**j for a, p in zip(alive, ahead, strict=True))
            if gain > speed * (j * step + self.costs.verify(self._rows, k + j) - now):
                return True
        return False

    def columns(self, found: Evidence, *, drafting: bool) -> int:
        """How much of what a lookup found to verify; 0 where the alternative promises more.

        Args:
            found: evidence of the tokens found, which need not be equally many in every row.
            drafting: whether the alternative is the draft, not the target alone.
        """
        rows, width = len(found), max(map(len, found))
        best, columns = rows / self.costs.verify(rows, 0), 0
        if drafting and not self._paused:
            best = max(best, self._speed())
        for k in range(1, width + 1):
            tokens = rows + sum(_expected(self.lookup, row[:k]) for row in found)
            speed = tokens / self.costs.verify(rows, k)
            if speed > best:
                best, columns = speed, k
        return columns

    def observe(self, played: Sequence[Round]) -> None:
        """Learn from a round of all rows."""
        first, tokens = played[0], sum(len(one.tokens) for one in played)
        width = max(len(one.proposed) for one in played)
        drafted = first.source == "draft"
        seconds = self.costs.learn(played, width, steady=self._caught_up)
        self._caught_up = drafted
        self._first = max(self._first - 1, 0)
        self._since_plain = 0 if not width else self._since_plain + tokens
        for one in played:
            table = self.draft if one.source == "draft" else self.lookup
            table.learn(one.evidence, one.accepted)
        if self._paused:
            self._off -= tokens
        if drafted:
            self._judge(len(played), tokens, width, seconds)

    # How it decides.

    def _begin(self) -> bool:
        """Whether to draft at all in this round."""
        rows, self._probing = self._rows, False
        plain = self.costs.plain(rows)
        if plain is None:
            return False
        best, k = self._promise()
        if self._paused:
            if best > _MARGIN and self._off <= 0:
                self._paused, self.why = False, ""
                self._tokens = self._seconds = 0.0
                return True
        elif best > _CLEARLY or self._recent() > _CLEARLY * _plain_speed(rows, plain):
            return True
        if self._never():
            self.why = "the draft is too slow to pay"
            self._paused = True
            return False
        if not self._paused:
            self._stop(k)
        if self._off > 0:
            return False
        self._probing = True
        return True

    def _stop(self, k: int) -> None:
        """Let the target work alone for a while, a longer one each time."""
        self._paused, self._off = True, self._pause * self._rows
        self.draft.doubt()
        self._pause = min(2 * self._pause, 16 * _PAUSE)
        plain = self.costs.plain(self._rows) or 1.0
        k = max(k, 1)
        enough = break_even(k, self._step() / plain, self.costs.verify(self._rows, k) / plain)
        wanted = "" if enough is None else f", {enough:.0%} would pay"
        self.why = f"{self.draft.after(()):.0%} accepted{wanted}"

    def _judge(self, rows: int, tokens: int, width: int, seconds: float) -> None:
        """Follow the speed of drafting, as modelled and as it was, and stop where the real one is too low."""
        modelled = width * self._step() + self.costs.verify(rows, width)
        self._tokens = _MEMORY * self._tokens + tokens
        self._seconds = _MEMORY * self._seconds + modelled
        if self._probing:
            # One that is accepted is followed by another; one that is not makes the next pause longer.
            self._off = 0 if 2 * (tokens - rows) > rows else self._pause * rows
            if self._off:
                self._pause = min(2 * self._pause, 16 * _PAUSE)
            return
        self._judged.append((tokens, seconds))
        if sum(count for count, _ in self._judged) < _JUDGED * rows:
            return
        plain = self.costs.plain(rows) or 0.0
        spent = sum(took for _, took in self._judged)
        alone = plain * sum(count for count, _ in self._judged) / rows
        self._judged.clear()
        if alone < 0.97 * spent:
            self._stop(width)
        else:
            self._pause = max(self._pause // 2, _PAUSE)

    def _speed(self) -> float:
        """Tokens a second of the run while it drafts: what it did lately, or what it may hope for; plain at least."""
        return max(self._recent(), _plain_speed(self._rows, self.costs.verify(self._rows, 0)))

    def _recent(self) -> float:
        """Tokens a second of the latest rounds with drafts; the promise weighs as much as two of them."""
        plain = self.costs.verify(self._rows, 0)
        hoped = self._promise()[0] * _plain_speed(self._rows, plain)
        return (self._tokens + hoped * 2 * plain) / (self._seconds + 2 * plain)

    def _promise(self) -> tuple[float, int]:
        """The best speedup that drafting promises, and with which lookahead."""
        rows, plain = self._rows, self.costs.verify(self._rows, 0)
        best, best_k, reached, tokens = 0.0, 0, 1.0, 1.0
        for k in range(1, min(self.most, self.costs.reach(rows)) + 1):
            reached *= self.draft.after(()) if k == 1 else self.draft.of(UNKNOWN, k - 1)
            tokens += reached
            speedup = tokens * plain / (k * self._step() + self.costs.verify(rows, k))
            if speedup > best:
                best, best_k = speedup, k
        return best, best_k

    def _never(self) -> bool:
        """Whether drafting would lose even if every token were accepted."""
        rows, plain = self._rows, self.costs.verify(self._rows, 0)
        ks = range(1, self.most + 1)
        return all((k + 1) * plain < _MARGIN * (k * self._step() + self.costs.verify(rows, k)) for k in ks)

    def _step(self) -> float:
        """Seconds of a draft step."""
        measured = self.costs.step(self._rows)
        return self._draft_cost * self.costs.verify(self._rows, 0) if measured is None else measured


def _plain_speed(rows: int, seconds: float) -> float:
    """Tokens a second of the target alone."""
    return rows / seconds


def _survival(table: Calibration, evidence: Sequence[int]) -> float:
    """Probability that all of a proposal is accepted."""
    alive = 1.0
    for place, one in enumerate(evidence):
        alive *= table.of(one, place)
    return alive


def _expected(table: Calibration, evidence: Sequence[int]) -> float:
    """Drafts of a proposal that are accepted on average."""
    alive, total = 1.0, 0.0
    for place, one in enumerate(evidence):
        alive *= table.of(one, place)
        total += alive
    return total
