"""Which proposer suits a pair."""

from __future__ import annotations

from specgen.decoding.proposers import DraftModel, Proposer
from specgen.decoding.translated import IntersectionDraft, TextDraft
from specgen.models.load import Pair


def drafter(pair: Pair) -> Proposer | None:
    """A proposer that runs the pair's draft, through whatever the two vocabularies have in common; None without one."""
    draft, relation = pair.draft, pair.relation
    if draft is None:
        return None
    match relation.kind:
        case "same":
            return DraftModel(draft, common=relation.common)
        case "intersection":
            return IntersectionDraft(draft, pair.draft_tokenizer, pair.tokenizer, relation.pairs)
        case "text":
            return TextDraft(draft, pair.draft_tokenizer, pair.tokenizer)
