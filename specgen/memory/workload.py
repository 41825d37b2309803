"""What a pair is asked to run: rows, tokens, lookahead. The sizes of every buffer follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from specgen.profile import Sampling

COMPANY = 8
"""Columns by which rows of one pass may differ, as in ``specgen.models.cached``."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A run to plan for.

    Attributes:
        context: tokens of prompt and output together, in each row.
        batch: rows side by side.
        lookahead: draft tokens a round.
        prefill_chunk: columns of one pass over a prompt.
        prompt: tokens of the prompt; None is the longest that still leaves room for a whole round.
        columns: constant width of the target's passes (strict mode), or None.
        sampling: decides which sampling buffers exist.
        rule: the acceptance rule.
    """

    context: int
    batch: int = 1
    lookahead: int = 5
    prefill_chunk: int = 512
    prompt: int | None = None
    columns: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    rule: str = "coupled"

    @property
    def slots(self) -> int:
        """Slots of a row in the target's cache: a last round may write a proposal and its bonus token past the end."""
        return self.context + max(self.lookahead + 1, self.columns or 0)

    def draft_slots(self, positions: int) -> int:
        """Slots of a row in the cache of a draft that was made for so many positions."""
        return min(self.slots, positions + 1)

    @property
    def length(self) -> int:
        """Tokens of a row when its first round begins."""
        longest = max(self.context - self.lookahead - 1, 1)
        return longest if self.prompt is None else max(min(self.prompt, longest), 1)

    def draft_length(self, positions: int) -> int:
        """Tokens of the longest row that a draft of so many positions can still propose a whole round for."""
        return max(min(self.length, positions - self.lookahead + 1), 1)


def passes(total: int, chunk: int, last: int, *, alone: bool = True) -> list[tuple[int, int]]:
    """The passes over one row's ``total`` fresh tokens that can hold a peak, as ``CachedModel.logits`` cuts them.

    These are the first, which needs no mask, and the last two, which read the most slots: a context of 10^9 tokens has
    two million passes.

    Args:
        total: tokens to feed.
        chunk: columns of a pass.
        last: positions that are scored.
        alone: whether the row is the only one; in company it is fed ahead until a few columns are left.
    """
    tail = max(last, 1)
    slack = chunk if alone else min(COMPANY, chunk)
    if total <= tail + slack:
        return [(0, total)] if total > 0 else []
    full = max((total - tail - slack - 1) // chunk, 0)  # whole chunks before the last that is cut off
    spans = [(start, start + chunk) for start in sorted({0, (full - 1) * chunk}) if 0 <= start < full * chunk]
    held = full * chunk
    stop = min(held + chunk, total - tail)
    return [*spans, (held, stop), (stop, total)]
