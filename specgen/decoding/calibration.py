"""How often drafts are accepted, learned from rounds, by what was known when they were proposed.

What is known of a proposed token is its *evidence*, a small number whose meaning is the source's: how sure the draft
was, or how long a context the lookup followed. Raw confidence is no acceptance; this is the table between the two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN = -1
"""Evidence of a token whose confidence was not read, as on a device that would have to be waited for."""
_START = -2  # stands before the first token of a proposal

_EDGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
_FORGET = 0.98
_PLACES = 4  # places that are told apart; the last one stands for all after it
_TRUST = 4.0  # observations at one place that weigh as much as those at all places
# What is thought beforehand, and how many observations that is worth.
_FIRST, _FIRST_WEIGHT = 0.7, 3.0
_WEIGHT = 2.0


def evidence_of(confidence: float) -> int:
    """The evidence of a token that the draft gave this probability."""
    return bisect_right(_EDGES, confidence)


class _Rate:
    """A share that follows what it is told, beginning from a guess."""

    __slots__ = ("hits", "seen")

    def __init__(self, hits: float = 0.0, seen: float = 0.0) -> None:
        self.hits, self.seen = hits, seen

    def add(self, hit: bool) -> None:
        self.hits, self.seen = _FORGET * self.hits + hit, _FORGET * self.seen + 1


class Calibration:
    """Acceptance by evidence and place, older rounds counting less.

    Args:
        prior: acceptance of a token by its own evidence, before anything was seen; by default half way between the
            draft's confidence and what is usual.
        learned: what ``as_data`` returned in an earlier run.
    """

    def __init__(self, prior: Mapping[int, float] | None = None, learned: Mapping[str, Any] | None = None) -> None:
        self._prior = prior
        self._own: dict[int, _Rate] = {}
        self._next: dict[int, _Rate] = {}
        self._next_at: dict[tuple[int, int], _Rate] = {}
        self._places = [_Rate(_FIRST * _WEIGHT, _WEIGHT) for _ in range(_PLACES)]
        for name, table in (("own", self._own), ("next", self._next)):
            for key, (hits, seen) in (learned or {}).get(name, {}).items():
                table[int(key)] = _Rate(float(hits), float(seen))
        for place, (hits, seen) in zip(self._places, (learned or {}).get("places", ()), strict=False):
            place.hits, place.seen = float(hits), float(seen)

    def as_data(self) -> dict[str, Any]:
        """Return what was learned, for the next run; it begins with at most a few dozen observations' worth of it."""
        return {
            "own": {str(key): _kept(rate) for key, rate in self._own.items()},
            "next": {str(key): _kept(rate) for key, rate in self._next.items()},
            "places": [_kept(rate) for rate in self._places],
        }

    def of(self, evidence: int, place: int) -> float:
        """Probability that a token with this evidence is accepted when all before it are."""
        if evidence == UNKNOWN:
            rate = self._places[min(place, _PLACES - 1)]
            return rate.hits / rate.seen
        rate = self._own_rate(evidence)
        return rate.hits / rate.seen

    def after(self, evidence: Sequence[int]) -> float:
        """Probability that the token after these is accepted when they are, before anything is known of it."""
        place, last = min(len(evidence), _PLACES - 1), evidence[-1] if evidence else _START
        if last == UNKNOWN:
            rate = self._places[place]
            return rate.hits / rate.seen
        rate = self._next_rate(last)
        here = self._next_at.get((place, last), _NOTHING)
        return (here.hits + _TRUST * rate.hits / rate.seen) / (here.seen + _TRUST)

    def learn(self, evidence: Sequence[int], accepted: int) -> None:
        """Note a round: the accepted tokens and the rejected one were tested, what follows was not."""
        before = _START
        for place, one in enumerate(evidence[: accepted + 1]):
            hit, at = place < accepted, min(place, _PLACES - 1)
            self._places[at].add(hit)
            if before != UNKNOWN:
                self._next_rate(before).add(hit)
                self._next_at.setdefault((at, before), _Rate()).add(hit)
            if one != UNKNOWN:
                self._own_rate(one).add(hit)
            before = one

    def doubt(self, trust: float = 6.0) -> None:
        """Hold what is known of a proposal's first token less firmly, so that a few new rounds can change it."""
        for rate in (self._places[0], self._next_rate(_START), self._next_at.get((0, _START))):
            if rate is not None and rate.seen > trust:
                rate.hits, rate.seen = rate.hits * trust / rate.seen, trust

    def _own_rate(self, evidence: int) -> _Rate:
        if evidence not in self._own:
            guess = (self._prior or {}).get(evidence, (0.7 + _middle(evidence)) / 2)
            self._own[evidence] = _Rate(guess * _WEIGHT, _WEIGHT)
        return self._own[evidence]

    def _next_rate(self, evidence: int) -> _Rate:
        if evidence not in self._next:
            start = evidence == _START
            guess, weight = (_FIRST, _FIRST_WEIGHT) if start else (0.5 + 0.35 * _middle(evidence), _WEIGHT)
            self._next[evidence] = _Rate(guess * weight, weight)
        return self._next[evidence]


_NOTHING = _Rate()


def _middle(evidence: int) -> float:
    """A confidence that has this evidence."""
    edges = (0.0, *_EDGES, 1.0)
    at = min(max(evidence, 0), len(_EDGES))
    return (edges[at] + edges[at + 1]) / 2


def _kept(rate: _Rate, most: float = 24.0) -> list[float]:
    scale = min(1.0, most / rate.seen) if rate.seen else 1.0
    return [round(rate.hits * scale, 4), round(rate.seen * scale, 4)]
