"""What a run says as it goes: frozen events, consumed with ``match``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FinishReason = Literal["stop", "length", "context", "interrupted"]


@dataclass(frozen=True, slots=True)
class Prompted:
    """The prompt is in the target's cache.

    Attributes:
        prompt_tokens: tokens in the prompt.
        cached_tokens: how many of them the cache already held.
        seconds: time to fill the target's cache.
    """

    prompt_tokens: int
    cached_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Round:
    """One proposal and one target pass.

    Attributes:
        index: 0 for the first round of the run.
        proposed: the draft tokens, ``()`` in a plain round.
        accepted: how many of them the target kept, before any cut at a stop or a limit.
        tokens: what was committed: the accepted drafts and the target's own token, cut at the first
            end-of-sequence token (which is included) or at the limit.
        draft_seconds: time spent proposing.
        verify_seconds: time of the target pass.
        seconds: the whole round, the two above and specgen's own work.
        source: ``draft`` or ``lookup``, or ``""`` in a plain round.
        evidence: what was known of each proposed token, see ``calibration``.
    """

    index: int
    proposed: tuple[int, ...]
    accepted: int
    tokens: tuple[int, ...]
    draft_seconds: float
    verify_seconds: float
    seconds: float
    source: str = ""
    evidence: tuple[int, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether the target worked alone."""
        return not self.proposed

    @property
    def rejected(self) -> int | None:
        """The first draft token that the target refused."""
        return self.proposed[self.accepted] if self.accepted < len(self.proposed) else None

    @property
    def discarded(self) -> tuple[int, ...]:
        """The draft tokens after the rejected one, which were never tested."""
        return self.proposed[self.accepted + 1 :]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know once, such as a draft that ran out of context."""

    message: str


@dataclass(frozen=True, slots=True)
class Decided:
    """Adaptive lookahead has switched drafting on or off.

    Attributes:
        why: why it is off; empty where it is on again.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over.

    Attributes:
        reason: ``stop`` (an end-of-sequence token or a stop string), ``length`` (``max_tokens``), ``context`` (the
            target's context is full) or ``interrupted``.
        fed: positions computed by each model (``target``, ``draft``), the prompt included.
    """

    reason: FinishReason
    fed: Mapping[str, int] = field(default_factory=dict)


Event = Prompted | Round | Notice | Decided | Finished
