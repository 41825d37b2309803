"""The engine: rounds over any number of rows that share a target, a proposer and one lookahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from specgen.decoding.acceptance import NOTHING, Proposal
from specgen.decoding.calibration import UNKNOWN
from specgen.decoding.clock import Clock, clock_for
from specgen.decoding.events import FinishReason, Round
from specgen.decoding.lookahead import Lookahead
from specgen.decoding.proposers import Proposer
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler
from specgen.errors import PromptError
from specgen.models.cached import CachedModel
from specgen.profile import Sampling
from specgen.stopwatch import now


@dataclass(frozen=True, slots=True)
class Task:
    """What to generate in one row.

    Attributes:
        prompt: token ids, at least one.
        max_tokens: tokens to generate at most, the end-of-sequence token included.
        stop_ids: tokens that end the sequence.
        sampling: the numbers of the warper chain.
        seed: of the noise.
    """

    prompt: Sequence[int]
    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0

    def limit(self, context: int) -> tuple[int, FinishReason]:
        """Tokens that can be generated within a context, and what to call it when they are.

        Raises:
            PromptError: the prompt is empty or leaves no room.
            ValueError: ``max_tokens`` is below 1.
        """
        if self.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")
        count = len(self.prompt)
        if not count:
            raise PromptError("the prompt is empty", "give at least one token")
        if count >= context:
            raise PromptError(
                f"the prompt has {count:,} tokens, the context holds {context:,}",
                "shorten the prompt, or raise `context` if the model allows more",
            )
        room = context - count
        return (self.max_tokens, "length") if self.max_tokens <= room else (room, "context")


@dataclass(slots=True)
class _Seat:
    """The state of a live row that is not tokens."""

    task: Task
    left: int
    limit: FinishReason
    reason: FinishReason | None = None
    rounds: int = 0

    def cut(self, tokens: list[int]) -> list[int]:
        """End the tokens at the first end of sequence or at the limit, and note why."""
        tokens = tokens[: self.left]
        for place, token in enumerate(tokens):
            if token in self.task.stop_ids:
                self.reason = "stop"
                return tokens[: place + 1]
        self.left -= len(tokens)
        if not self.left:
            self.reason = self.limit
        return tokens


class Engine:
    """Decodes up to ``rows`` sequences side by side; the live ones are always the first.

    Args:
        target: the model whose text it is; its cache is emptied.
        proposer: where draft tokens come from; None for the target alone.
        rows: sequences side by side at most.
        slots: tokens that each may come to, one proposal and its bonus token included.
        rule: acceptance rule, ``coupled``, ``block`` or ``token``.
        columns: constant width of the target's passes (strict mode), or None.
        clock: marks for the time of draft and target; by default the one that suits the target's device.
    """

    def __init__(
        self,
        target: CachedModel,
        proposer: Proposer | None,
        *,
        rows: int,
        slots: int,
        rule: str = "coupled",
        columns: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.target, self.proposer = target, proposer
        self.clock = clock or clock_for(target.device)
        self.rows = Rows(rows, slots, target.device)
        self.sampler = Sampler(vocab_size=target.vocab_size, device=target.device, rule=rule)
        self._seats: list[_Seat] = []
        self._filling: _Seat | None = None
        target.open(rows, slots, columns=columns)
        if proposer is not None:
            proposer.open(rows, slots)

    @property
    def live(self) -> int:
        """Rows in use."""
        return len(self._seats)

    def admit(self, task: Task) -> int:
        """Seat a task in the next free row and fill the target's cache with all of its prompt but the last token.

        The first round feeds that token, so that every generated token comes from a round. A beginning that some row
        has in its cache, live or not, is not computed again.

        Returns:
            How many tokens were in a cache already.

        Raises:
            PromptError: the prompt is empty or leaves no room.
        """
        held = self.begin(task)
        self.fill()
        return held

    def begin(self, task: Task) -> int:
        """Admit a task without computing anything yet: ``fill`` does, and others may play rounds in between.

        A prompt that was begun before and is not complete is given up.

        Returns:
            How many tokens were in a cache already.

        Raises:
            PromptError: the prompt is empty or leaves no room.
        """
        left, limit = task.limit(self.target.context)
        row = self.live
        source, shared = self.rows.best_start(task.prompt, at=row)
        self._resume(row, source, min(shared, len(task.prompt) - 1))
        self.rows.hold(row, task.prompt)
        self._filling = _Seat(task, left, limit)
        return self.target.lengths[row]

    def fill(self, budget: int | None = None) -> int:
        """Compute the prompt that was begun, or ``budget`` tokens of it; when it is complete, its row is live.

        Returns:
            How many tokens were computed.
        """
        seat, row = self._filling, self.live
        assert seat is not None
        held, whole = self.target.lengths[row], len(seat.task.prompt) - 1
        total = whole if budget is None else min(held + budget, whole)
        if held < total:
            self.target.logits(self.rows.alone(row), [total], last=0, first_row=row)
        if total == whole:
            self.rows.put(row, seat.task.prompt)
            self._seats.append(seat)
            self._filling = None
            self._reseat()
        return total - held

    @property
    def filling(self) -> bool:
        """Whether a prompt was begun and is not complete yet."""
        return self._filling is not None

    def _resume(self, row: int, source: int, length: int) -> None:
        self.target.resume(row, source=source, length=length)
        if self.proposer is not None:
            self.proposer.resume(row, source=source, length=length)

    def release(self, row: int) -> int | None:
        """End a row; the last live one takes its place.

        Returns:
            The row that moved there, or None if it was the last one itself.
        """
        last = self.live - 1
        if row != last:
            self._resume(row, last, self.rows.lengths[last])
            self.rows.move(last, row)
            self._seats[row] = self._seats[last]
        self._seats.pop()
        self.rows.drop_last()
        if self._filling is not None:  # its row is always the one after the live ones
            self._resume(last, last + 1, self.target.lengths[last + 1])
            self.rows.hold(last, self._filling.task.prompt)
        self._reseat()
        return last if row != last else None

    def grow(self, slots: int) -> None:
        """Make room for longer sequences, keeping what the caches hold."""
        self.rows.grow(slots)
        self.target.grow(slots)
        if self.proposer is not None:
            self.proposer.grow(slots)

    def _reseat(self) -> None:
        self.sampler.seat([seat.task.sampling for seat in self._seats], [seat.task.seed for seat in self._seats])

    def room(self) -> int:
        """Tokens that can be proposed: what the draft can hold, and no more than any row still wants."""
        if self.proposer is None:
            return 0
        wanted = max(seat.left for seat in self._seats) - 1
        # A row near the end of the context has no positions to spare, however much its neighbours want.
        spare = self.target.context - max(self.rows.lengths)
        return max(min(self.proposer.room(self.rows.lengths), wanted, spare), 0)

    def reason(self, row: int) -> FinishReason | None:
        """Why a row is over, or None while it is not."""
        return self._seats[row].reason

    def round(self, k: int, lookahead: Lookahead | None = None) -> list[Round]:
        """Play one round on every live row: propose up to ``k`` tokens, verify them in one target pass, commit.

        With ``k = 0`` this is plain decoding. There is one host synchronisation, where the ids are read.

        Args:
            k: tokens to propose at most.
            lookahead: may end the proposal earlier; it is told of the round.

        Returns:
            What happened in each row.
        """
        start = now()
        marks = [self.clock.mark()]
        proposal = None
        if self.proposer is not None and k:
            proposal = self.proposer.propose(self.rows, self.sampler, k, lookahead)
        marks.append(self.clock.mark())
        k = proposal.tokens.shape[1] if proposal else 0
        logits = self.target.logits(self.rows.tokens, [n + k for n in self.rows.lengths], last=k + 1)
        marks.append(self.clock.mark())
        if proposal is None or not k:
            own = self.sampler.own(self.sampler.scores(logits, self.rows), self.rows)  # [rows, 1]
            read = torch.cat([torch.zeros_like(own), own], dim=1).tolist()
        else:
            accepted, token = self.sampler.judge(proposal, logits, self.rows)
            read = torch.cat([accepted[:, None], token[:, None], proposal.tokens], dim=1).tolist()
        played = self._commit(read, start, marks, proposal if k else None)
        if lookahead is not None:
            lookahead.observe(played)
        return played

    def _commit(
        self, read: list[list[int]], start: float, marks: Sequence[Any], proposal: Proposal | None
    ) -> list[Round]:
        committed = []
        for row, (seat, (accepted, own, *proposed)) in enumerate(zip(self._seats, read, strict=True)):
            tokens = seat.cut([*proposed[:accepted], own])
            self.rows.commit(row, tokens)
            committed.append((proposed, accepted, tokens))
        held = [n - 1 for n in self.rows.lengths]
        self.target.crop(held)
        if self.proposer is not None:
            self.proposer.crop(held)
        self.sampler.round += 1
        seconds = now() - start
        played = []
        for row, (seat, (proposed, accepted, tokens)) in enumerate(zip(self._seats, committed, strict=True)):
            offered = tuple(token for token in proposed if token != NOTHING)
            known = proposal.evidence[row] if proposal and proposal.evidence else (UNKNOWN,) * len(offered)
            played.append(
                Round(
                    index=seat.rounds,
                    proposed=offered,
                    accepted=accepted,
                    tokens=tuple(tokens),
                    draft_seconds=self.clock.seconds(marks[0], marks[1]),
                    verify_seconds=self.clock.seconds(marks[1], marks[2]),
                    seconds=seconds,
                    source=proposal.source if proposal and offered else "",
                    evidence=known[: len(offered)],
                )
            )
            seat.rounds += 1
        return played

    def fed(self) -> dict[str, int]:
        """Positions that each model has computed since it was loaded."""
        fed = {"target": self.target.fed}
        if self.proposer is not None:
            fed["draft"] = self.proposer.fed
        return fed
