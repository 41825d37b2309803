"""Which proposer suits a pair, and which lookahead suits the proposer."""

from __future__ import annotations

from specgen.decoding.lookahead import GuardedLookahead, Lookahead, fixed
from specgen.decoding.lookup import SuffixLookup
from specgen.decoding.proposers import DraftModel, Proposer
from specgen.decoding.translated import IntersectionDraft, TextDraft
from specgen.models.load import Pair


def drafter(pair: Pair) -> Proposer:
    """The pair's draft, through whatever the two vocabularies have in common; without one, a lookup in the text."""
    draft, relation = pair.draft, pair.relation
    if draft is None:
        return SuffixLookup()
    match relation.kind:
        case "same":
            return DraftModel(draft, common=relation.common)
        case "intersection":
            return IntersectionDraft(draft, pair.draft_tokenizer, pair.tokenizer, relation.pairs)
        case "text":
            return TextDraft(draft, pair.draft_tokenizer, pair.tokenizer)


def lookahead_for(pair: Pair, k: int, *, baseline: bool) -> Lookahead:
    """Exactly ``k`` for a draft model; for a lookup, which costs nothing to try, up to ``k`` where it pays."""
    if pair.draft is None and k and baseline:
        return GuardedLookahead(k)
    return fixed(k, baseline=baseline)
