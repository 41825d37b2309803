"""A batch for a pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from specgen.api import Request, lookahead_of, proposer_for
from specgen.batch.feed import Feed, Preparer
from specgen.batch.rows import Seats
from specgen.batch.scheduler import Scheduler
from specgen.decoding.drafting import lookahead_for
from specgen.decoding.engine import Engine
from specgen.decoding.halt import Halt
from specgen.models.load import Pair
from specgen.models.strict import COLUMNS


def schedule(
    pair: Pair,
    request: Request,
    feed: Feed,
    *,
    seats: Seats,
    halt: Halt,
    timeout: float | None = None,
    clock: Callable[[], float] = perf_counter,
    pool: int | None = None,
    learned: Mapping[str, Any] | None = None,
) -> Scheduler:
    """Return a scheduler for a pair, ready to run.

    Args:
        pair: the models; they serve this run alone.
        request: what the run asks for; an item's own settings win.
        feed: where items come from.
        seats: how many rows to use.
        halt: ends the run after the round in progress.
        timeout: seconds for an item.
        clock: seconds, monotonic.
        pool: items to choose from at most.
        learned: what adaptive lookahead knows from earlier runs.

    Raises:
        UsageError: the lookahead is too long for a strict run.
    """
    wanted, most = lookahead_of(pair.profile, request)
    columns = COLUMNS if request.strict else None
    rule = request.acceptance or pair.profile.acceptance

    def engine(rows: int, slots: int) -> Engine:
        return Engine(
            pair.target,
            proposer_for(pair, request) if most else None,
            rows=rows,
            slots=slots + (columns or 0),
            rule=rule,
            columns=columns,
        )

    feed.preparer = Preparer(pair, request)
    return Scheduler(
        feed,
        engine,
        seats=seats,
        tokenizer=pair.tokenizer,
        skip=pair.stop_ids,
        lookahead=lookahead_for(pair, wanted, baseline=request.baseline, most=most, learned=learned),
        context=pair.context,
        halt=halt,
        timeout=timeout,
        clock=clock,
        pool=pool,
    )
