"""The loop for one prompt: propose, verify, commit. Token ids in, events out; it knows neither text nor terminal."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.decoding.clock import Clock
from specgen.decoding.engine import Engine, Task
from specgen.decoding.events import Decided, Event, Finished, Notice, Prompted
from specgen.decoding.halt import Halt
from specgen.decoding.lookahead import Lookahead
from specgen.decoding.proposers import Proposer
from specgen.models.cached import CachedModel
from specgen.stopwatch import now

__all__ = ["Task", "converse", "rounds", "slots_for"]


def rounds(
    target: CachedModel,
    task: Task,
    *,
    proposer: Proposer | None,
    lookahead: Lookahead,
    rule: str = "coupled",
    columns: int | None = None,
    halt: Halt | None = None,
    clock: Clock | None = None,
) -> Iterator[Event]:
    """Generate from one prompt: ``Prompted``, then a ``Round`` for every target pass, then ``Finished``.

    The tokens are the target's own, whatever the proposer and the lookahead (see ``acceptance``).

    Args:
        target: its cache is emptied.
        task: what to generate.
        proposer: where draft tokens come from; None decodes with the target alone.
        lookahead: how many to propose; it is told of every round.
        rule: acceptance rule, ``coupled``, ``block`` or ``token``.
        columns: constant width of the target's passes (strict mode), or None.
        halt: ends the run after the round in progress.
        clock: marks for the time of draft and target; by default the one that suits the target's device.

    Raises:
        PromptError: the prompt is empty or leaves no room in the target's context.
        ValueError: ``max_tokens`` is below 1.
    """
    slots = slots_for(task, target.context, most=lookahead.most, columns=columns)
    engine = Engine(target, proposer, rows=1, slots=slots, rule=rule, columns=columns, clock=clock)
    return converse(engine, task, lookahead=lookahead, halt=halt)


def slots_for(task: Task, context: int, *, most: int, columns: int | None = None) -> int:
    """Slots that a task needs: its prompt, what it may generate, and one proposal with its bonus token.

    Raises:
        PromptError: the prompt is empty or leaves no room.
        ValueError: ``max_tokens`` is below 1.
    """
    left, _ = task.limit(context)
    return len(task.prompt) + left + max(most + 1, columns or 0)


def converse(engine: Engine, task: Task, *, lookahead: Lookahead, halt: Halt | None = None) -> Iterator[Event]:
    """Generate from one prompt on an engine of one row, which keeps its caches from one call to the next.

    Raises:
        PromptError: the prompt is empty or leaves no room in the target's context.
        ValueError: ``max_tokens`` is below 1.
    """
    while engine.live:  # left over from a call that was abandoned
        engine.release(0)
    before, start = engine.fed(), now()
    cached = engine.admit(task)
    yield Prompted(prompt_tokens=len(task.prompt), cached_tokens=cached, seconds=now() - start)
    halt, proposer = halt or Halt(), engine.proposer
    reason, draft_full, why = halt.reason, False, ""
    while reason is None:
        wanted = lookahead.choose()
        if wanted and proposer is not None and not draft_full and not proposer.room(engine.rows.lengths):
            draft_full = True
            yield Notice("the draft's context is full; the target goes on alone")
        (played,) = engine.round(min(wanted, engine.room()), lookahead)
        yield played
        if lookahead.why != why:
            why = lookahead.why
            yield Decided(why)
        reason = engine.reason(0) or halt.reason
    engine.release(0)
    yield Finished(reason, {name: count - before[name] for name, count in engine.fed().items()})
