"""(P) The prompts decoded in one way: which tokens, and what became of the drafts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from specgen.decoding.drafting import drafter
from specgen.decoding.engine import Engine, Task
from specgen.decoding.events import Round
from specgen.decoding.proposers import Proposer
from specgen.decoding.rounds import slots_for
from specgen.models.load import Pair
from specgen.models.strict import COLUMNS
from specgen.verify.controls import RandomDraft, SelfDraft
from specgen.verify.report import Case, Source


@dataclass(slots=True)
class Text:
    """What one prompt became.

    Attributes:
        tokens: of the output.
        proposed: draft tokens proposed.
        tested: draft tokens compared with the target's.
        accepted: draft tokens kept.
        refused: the refused draft token of each position where there is one.
    """

    tokens: list[int] = field(default_factory=list)
    proposed: int = 0
    tested: int = 0
    accepted: int = 0
    refused: dict[int, int] = field(default_factory=dict)

    def add(self, played: Round) -> None:
        """Take a round into account."""
        self.proposed += len(played.proposed)
        self.accepted += played.accepted
        self.tested += played.accepted + (played.rejected is not None)
        if played.rejected is not None:
            self.refused[len(self.tokens) + played.accepted] = played.rejected
        self.tokens += played.tokens


class Decoder:
    """Decodes tasks on a pair, with any proposer and any number of rows.

    Args:
        pair: the models.
        tasks: all that will be decoded; caches are sized once, so that every pass of a strict run has one shape.
        most: the longest lookahead.
        strict: give every pass of the target one shape.
    """

    def __init__(self, pair: Pair, tasks: Sequence[Task], *, most: int, strict: bool) -> None:
        self.target, self.columns = pair.target, COLUMNS if strict else None
        self.slots = max(slots_for(task, pair.context, most=most, columns=self.columns) for task in tasks)
        self._proposers: dict[Source, Proposer | None] = {
            "none": None,
            "draft" if pair.draft is not None else "lookup": drafter(pair),
            "self": SelfDraft(pair.target, columns=self.columns),
            "random": RandomDraft(pair.target.vocab_size),
        }

    def decode(self, case: Case, tasks: Sequence[Task]) -> Iterator[Text]:
        """Decode tasks, ``case.rows`` of them side by side.

        Each group has an engine of its own: what rows share is computed within a group only.
        """
        for first in range(0, len(tasks), case.rows):
            yield from self._together(case, tasks[first : first + case.rows])

    def _together(self, case: Case, tasks: Sequence[Task]) -> list[Text]:
        proposer = self._proposers[case.source]
        engine = Engine(self.target, proposer, rows=case.rows, slots=self.slots, columns=self.columns)
        texts = [Text() for _ in tasks]
        seated = list(texts)
        for task in tasks:
            engine.admit(task)
        while engine.live:
            for text, played in zip(seated, engine.round(min(case.lookahead, engine.room())), strict=True):
                text.add(played)
            for row in reversed(range(engine.live)):
                if engine.reason(row):
                    engine.release(row)
                    seated[row] = seated[-1]  # the last row takes the place of the one that is over
                    seated.pop()
        return texts
