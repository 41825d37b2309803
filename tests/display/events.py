"""Events with text, and the statistics that go with them."""

from __future__ import annotations

from specgen.decoding.events import Finished, Prompted, Round
from specgen.decoding.stats import Stats
from specgen.text import Piece, Spoken


def spoken(*texts, index=0, proposed=None, accepted=None):
    """A round whose tokens have these texts; all but the last were drafts unless said otherwise."""
    kept = len(texts) - 1 if accepted is None else accepted
    drafts = tuple(range(kept)) if proposed is None else proposed
    round_ = Round(index, drafts, kept, tuple(range(len(texts))), 0.01, 0.02, 0.04)
    return Spoken(round_, tuple(Piece(text, token, token < kept) for token, text in enumerate(texts)))


def story(*parts, reason="stop"):
    """Events of a run that says these parts, one a round."""
    yield Prompted(prompt_tokens=5, cached_tokens=0, seconds=0.25)
    for index, part in enumerate(parts):
        yield spoken(*part, index=index) if isinstance(part, tuple) else part
    yield Finished(reason, {"target": 9})


def show(renderer, events):
    """Let a renderer see the events, as the command does."""
    stats = Stats()
    with renderer:
        for event in events:
            stats.add(event.round if isinstance(event, Spoken) else event)
            renderer.on(event, stats)
    return stats
