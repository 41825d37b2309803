"""Continuous batching: rows that come and go in one engine, each with its own text, limits and clock."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import torch

from specgen.batch.baseline import Baseline
from specgen.batch.feed import Failure, Feed, Job
from specgen.batch.happenings import Beat, Happening, Outcome, Shrunk
from specgen.batch.row import Row
from specgen.batch.rows import Seats
from specgen.decoding.engine import Engine
from specgen.decoding.events import Prompted
from specgen.decoding.halt import Halt
from specgen.decoding.lookahead import Lookahead
from specgen.errors import is_out_of_memory
from specgen.text import Speech

SLICE = 256
"""Tokens of a prompt that are computed for each free seat between two rounds: the longest that the others wait."""


class Scheduler:
    """Runs jobs side by side.

    Args:
        feed: where jobs come from.
        engine: makes an engine for so many rows and slots.
        seats: how many rows to use.
        tokenizer: the target's.
        skip: tokens without text.
        lookahead: how many tokens to propose.
        context: tokens of the target's context.
        halt: ends the run after the round in progress.
        timeout: seconds for an item, from its admission on.
        clock: seconds, monotonic.
        pool: items to choose from at most; the longest of them go first, beside others of their length.
    """

    def __init__(
        self,
        feed: Feed,
        engine: Callable[[int, int], Engine],
        *,
        seats: Seats,
        tokenizer: Any,
        skip: frozenset[int],
        lookahead: Lookahead,
        context: int,
        halt: Halt,
        timeout: float | None = None,
        clock: Callable[[], float] = perf_counter,
        pool: int | None = None,
    ) -> None:
        self.seats = seats
        self._feed, self._make, self.lookahead, self._halt = feed, engine, lookahead, halt
        self._tokenizer, self._skip, self._context = tokenizer, skip, context
        self._timeout, self._clock = timeout, clock
        self._pool_size = pool or max(8 * seats.most, 32)
        self._pool: deque[Job] = deque()
        self._seated: list[Row] = []
        self._entering: Row | None = None
        self._engine: Engine | None = None
        self._baseline = Baseline()

    @property
    def running(self) -> list[Job]:
        """Jobs that were begun and are not over."""
        rows = [*self._seated, *([self._entering] if self._entering else [])]
        return [row.job for row in rows]

    @property
    def busy(self) -> bool:
        """Whether anything is in a row."""
        return bool(self._seated) or self._entering is not None

    def run(self) -> Iterator[Happening]:
        """Yield what happens until everything is done or the halt says so."""
        while not self._halt.reason:
            yield from self._refill()
            if not self.busy and not self._pool:
                if self._feed.over:
                    return
                continue
            if self._halt.reason:
                return
            try:
                yield from self._step()
                continue
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
            # Outside the except clause: its traceback keeps the tensors of the failed pass alive.
            yield self._shrink()

    def _refill(self) -> Iterator[Failure]:
        """Take more jobs once those in hand are used up; never wait while rows could play."""
        if self._pool:
            return
        found: list[Job] = []
        while len(found) < self._pool_size and not self._halt.reason:
            free = len(self._seated) < self.seats.limit
            got = self._feed.next(0.002 if found or (self.busy and free) else 0 if self.busy else 0.1)
            if isinstance(got, Failure):
                yield got
            elif got is not None:
                found.append(got)
            else:
                break
        self._pool.extend(sorted(found, key=lambda job: -(len(job.task.prompt) + job.task.max_tokens)))

    def _step(self) -> Iterator[Happening]:
        """Fill free seats within the budget, then play a round."""
        start = self._clock()
        self._admit(max(self.seats.limit - len(self._seated), 0) * SLICE)
        yield from self._expire()
        if self._seated:
            yield self._play(start)
            yield from self._dismiss()

    def _admit(self, budget: int) -> None:
        while budget > 0 and (self._entering or (self._pool and len(self._seated) < self.seats.limit)):
            entering, start = self._entering, self._clock()
            if entering is None:
                job = self._pool[0]
                engine = self._ready(job)
                self._pool.popleft()
                speech = Speech(self._tokenizer, job.stops, self._skip, preview=False)
                entering = self._entering = Row(job, speech, start)
                entering.cached = engine.begin(job.task)
            assert self._engine is not None
            budget -= max(self._engine.fill(budget), 1)
            entering.prefill += self._clock() - start
            if not self._engine.filling:
                entering.stats.add(Prompted(len(entering.job.task.prompt), entering.cached, entering.prefill))
                self._seated.append(entering)
                self._entering = None

    def _ready(self, job: Job) -> Engine:
        """The engine, with slots enough for the job."""
        needed = self._slots(job)
        if self._engine is None:
            most = max([needed, *(self._slots(other) for other in self._pool)])
            rows = min(self.seats.most, len(self._pool)) if self._feed.over else self.seats.most
            self._engine = self._make(rows, most)
        elif needed > self._engine.rows.slots:
            # Half as much again, so that ever longer prompts copy the caches a few times only.
            most = self._context + self.lookahead.most + 1
            self._engine.grow(min(max(needed, self._engine.rows.slots * 3 // 2), most))
        return self._engine

    def _slots(self, job: Job) -> int:
        left, _ = job.task.limit(self._context)
        return len(job.task.prompt) + left + self.lookahead.most + 1

    def _play(self, start: float) -> Beat:
        engine = self._engine
        assert engine is not None
        rows = len(self._seated)
        played = engine.round(min(self.lookahead.choose(rows), engine.room()), self.lookahead)
        tokens = sum(len(one.tokens) for one in played)
        plain = all(one.plain for one in played)
        self.seats.observe(rows, tokens, played[0].seconds)
        if plain:
            self._baseline.add(rows, played[0].seconds)
        plain_seconds = self._baseline.seconds(rows)
        for row, one in zip(self._seated, played, strict=True):
            row.hear(one, plain_seconds)
        seconds = self._clock() - start
        if plain_seconds is None:
            return Beat(rows, tokens, seconds, None, not plain)
        # What was spent on prompts, both would have spent.
        baseline = tokens / rows * plain_seconds + max(seconds - played[0].seconds, 0)
        return Beat(rows, tokens, seconds, baseline, not plain)

    def _dismiss(self) -> Iterator[Outcome]:
        """Let the rows go that are over, from the last one on, because a row that goes is replaced by the last."""
        assert self._engine is not None
        over: list[Outcome] = []
        for place in reversed(range(len(self._seated))):
            row = self._seated[place]
            reason = self._engine.reason(place) or ("stop" if row.speech.stopped else None)
            if reason is not None:
                self._release(place)
                over.append(row.outcome(reason))
        yield from reversed(over)

    def _release(self, place: int) -> None:
        assert self._engine is not None
        moved = self._engine.release(place)
        if moved is not None:
            self._seated[place] = self._seated[moved]
        self._seated.pop()

    def _expire(self) -> Iterator[Failure]:
        """End the rows whose time is up."""
        if self._timeout is None:
            return
        for place in reversed(range(len(self._seated))):
            row = self._seated[place]
            if self._clock() - row.since > self._timeout:
                self._release(place)
                yield _failure(row.job, "timeout", f"not done after {self._timeout:g} s")

    def _shrink(self) -> Happening:
        """Go on with half the rows after memory ran out; a single row that does not fit has failed."""
        lost = self.running
        alone = self.seats.most == 1
        self._seated, self._entering, self._engine = [], None, None
        release_memory()
        if alone:
            job, *rest = lost or [self._pool.popleft()]
            self._pool.extendleft(reversed(rest))
            self.seats.resize(max(self.seats.planned // 2, 1))  # what did not fit has gone
            return _failure(job, "out_of_memory", "out of memory")
        self._pool.extendleft(reversed(lost))
        self.seats.resize(max(self.seats.most // 2, 1))
        return Shrunk(self.seats.most)


def release_memory() -> None:
    """Give back what nothing refers to any more."""
    gc.collect()
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()


def _failure(job: Job, code: str, message: str) -> Failure:
    item = job.item
    return Failure(item.line, job.index, item.id, code, f"line {item.line}: {message}", job.fingerprint, item.kind)
