"""Two proposers in one: what a lookup finds costs nothing, what it cannot find the draft writes."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.decoding.acceptance import Proposal
from specgen.decoding.lookahead import Lookahead
from specgen.decoding.lookup import SuffixLookup, evidence_of
from specgen.decoding.proposers import Proposer
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler


class Combined:
    """Proposes from the lookup where that promises more tokens a second, else from the draft.

    The choice looks at committed text only, so it is made before anything is drawn and every rule stays lossless.

    Args:
        draft: a model.
        lookup: the texts.
    """

    def __init__(self, draft: Proposer, lookup: SuffixLookup) -> None:
        self._draft, self._lookup = draft, lookup

    @property
    def fed(self) -> int:
        """Positions that the draft has computed so far."""
        return self._draft.fed

    def open(self, rows: int, slots: int) -> None:
        """Make room for a new run."""
        self._draft.open(rows, slots)
        self._lookup.open(rows, slots)

    def grow(self, slots: int) -> None:
        """Make room for more positions a row."""
        self._draft.grow(slots)

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget what lies past ``lengths`` in the live rows."""
        self._draft.crop(lengths)

    def resume(self, row: int, *, source: int, length: int) -> None:
        """Begin a row with the first ``length`` tokens of another row, or of itself."""
        self._draft.resume(row, source=source, length=length)
        self._lookup.resume(row, source=source, length=length)

    def room(self, lengths: Sequence[int]) -> int:
        """A lookup goes on where the draft's context is full."""
        return self._lookup.room(lengths)

    def propose(self, rows: Rows, sampler: Sampler, k: int, lookahead: Lookahead | None = None) -> Proposal:
        """Propose up to ``k`` tokens a row from one of the two."""
        left = min(k, self._draft.room(rows.lengths))
        found = self._lookup.find(rows, k)
        width = max(map(len, found))
        if width and lookahead is not None:
            width = lookahead.columns(evidence_of(found), drafting=left > 0)
        if width or not left:
            return self._lookup.proposal(rows, found, width)
        return self._draft.propose(rows, sampler, left, lookahead)
