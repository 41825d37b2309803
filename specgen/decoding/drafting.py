"""Which proposer suits a pair, and which lookahead suits the proposer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from specgen.decoding.adaptive import AdaptiveLookahead
from specgen.decoding.combined import Combined
from specgen.decoding.costs import Costs
from specgen.decoding.lookahead import Lookahead, fixed
from specgen.decoding.lookup import Corpus, SuffixLookup
from specgen.decoding.proposers import DraftModel, Proposer
from specgen.decoding.translated import IntersectionDraft, TextDraft
from specgen.models.load import Pair
from specgen.profile import AUTO_MOST
from specgen.stopwatch import now


def drafter(pair: Pair, drafts: str = "draft", corpus: Sequence[Sequence[int]] = ()) -> Proposer:
    """Where proposals come from.

    Args:
        pair: the models; without a draft among them there is only the lookup.
        drafts: ``draft``, ``lookup`` or ``both``.
        corpus: token ids of texts for the lookup, besides prompt and output.
    """
    lookup = SuffixLookup(Corpus(corpus) if corpus else None)
    if pair.draft is None or drafts == "lookup":
        return lookup
    draft = _model(pair)
    return Combined(draft, lookup) if drafts == "both" else draft


def _model(pair: Pair) -> Proposer:
    """The pair's draft, through whatever the two vocabularies have in common."""
    draft, relation = pair.draft, pair.relation
    assert draft is not None
    match relation.kind:
        case "same":
            return DraftModel(draft, common=relation.common)
        case "intersection":
            return IntersectionDraft(draft, pair.draft_tokenizer, pair.tokenizer, relation.pairs)
        case "text":
            return TextDraft(draft, pair.draft_tokenizer, pair.tokenizer)


def lookahead_for(
    pair: Pair, wanted: int | str, *, baseline: bool, most: int = AUTO_MOST, learned: Mapping[str, Any] | None = None
) -> Lookahead:
    """A fixed number of tokens, or for ``auto`` what measuring and learning makes of it.

    Args:
        pair: the models.
        wanted: a number, or ``auto``.
        baseline: whether a fixed lookahead begins with plain rounds.
        most: the most that ``auto`` may propose.
        learned: what ``auto`` learned before.
    """
    if isinstance(wanted, int):
        return fixed(wanted, baseline=baseline)
    lookahead = AdaptiveLookahead(most, learned=learned)
    if lookahead.costs.plain(1) is None:
        _warm_up(pair, lookahead.costs)
    return lookahead


def _warm_up(pair: Pair, costs: Costs) -> None:
    """Measure a step of each model, so that a draft that cannot pay is never tried; the first step is not counted."""
    for model, note in ((pair.target, partial(costs.add_pass, 1, 0)), (pair.draft, partial(costs.add_step, 1))):
        if model is None:
            continue
        model.open(1, 8)
        tokens = torch.zeros(1, 8, dtype=torch.long, device=model.device)
        for counts in (False, True):
            model.crop([2])
            start = now()
            model.logits(tokens, [3], last=1).argmax(-1).tolist()
            if counts:
                note(now() - start)
