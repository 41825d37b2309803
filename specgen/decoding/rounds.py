"""The loop: propose, verify, commit. Token ids in, events out; it knows neither text nor terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch

from specgen.decoding.clock import Clock, clock_for
from specgen.decoding.events import Event, Finished, FinishReason, Notice, Prompted, Round
from specgen.decoding.halt import Halt
from specgen.decoding.lookahead import Lookahead
from specgen.decoding.proposers import Proposer
from specgen.decoding.rows import Rows, Sampler
from specgen.errors import PromptError
from specgen.models.cached import CachedModel
from specgen.profile import Sampling


@dataclass(frozen=True, slots=True)
class Task:
    """What to generate.

    Attributes:
        prompt: token ids, at least one.
        max_tokens: tokens to generate at most, the end-of-sequence token included.
        stop_ids: tokens that end the sequence.
        sampling: the numbers of the warper chain.
        seed: of the noise.
        rule: acceptance rule, ``coupled``, ``block`` or ``token``.
    """

    prompt: Sequence[int]
    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    rule: str = "coupled"


@dataclass(frozen=True, slots=True)
class Played:
    """One round of every row, before anything is committed.

    Attributes:
        proposed: draft tokens of each row.
        accepted: how many of them the target kept.
        own: the target's token after them.
        marks: the clock before proposing, before the target pass and after it.
    """

    proposed: list[list[int]]
    accepted: list[int]
    own: list[int]
    marks: tuple[Any, Any, Any]

    def tokens(self, row: int) -> list[int]:
        """What the round adds to a row."""
        return [*self.proposed[row][: self.accepted[row]], self.own[row]]


def play(target: CachedModel, proposer: Proposer | None, rows: Rows, sampler: Sampler, k: int, clock: Clock) -> Played:
    """Play one round on every row: propose ``k`` tokens, verify them in one target pass.

    With ``k = 0`` this is plain decoding. The one host synchronisation is where the ids are read.
    """
    before = clock.mark()
    proposal = proposer.propose(rows, sampler, k) if proposer is not None and k else None
    drafted = clock.mark()
    logits = target.logits(rows.tokens, [n + k for n in rows.lengths], last=k + 1)
    verified = clock.mark()
    if proposal is None:
        own = sampler.own(sampler.scores(logits, rows), rows)  # [rows, 1]
        read = torch.cat([torch.zeros_like(own), own], dim=1).tolist()
    else:
        accepted, token = sampler.judge(proposal, logits, rows)
        read = torch.cat([accepted[:, None], token[:, None], proposal.tokens], dim=1).tolist()
    sampler.round += 1
    return Played(
        proposed=[row[2:] for row in read],
        accepted=[row[0] for row in read],
        own=[row[1] for row in read],
        marks=(before, drafted, verified),
    )


def rounds(
    target: CachedModel,
    task: Task,
    *,
    proposer: Proposer | None,
    lookahead: Lookahead,
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
        halt: ends the run after the round in progress.
        clock: marks for the time of draft and target; by default the one that suits the target's device.

    Raises:
        PromptError: the prompt is empty or leaves no room in the target's context.
        ValueError: ``max_tokens`` is below 1.
    """
    run = _Run(target, task, proposer, lookahead, clock or clock_for(target.device))
    yield run.prefill()
    halt = halt or Halt()
    reason = halt.reason
    while reason is None:
        k, notice = run.choose()
        if notice:
            yield notice
        played = run.round(k)
        lookahead.observe(played)
        yield played
        reason = run.reason or halt.reason
    yield run.finish(reason)


class _Run:
    """The state of one run."""

    def __init__(
        self, target: CachedModel, task: Task, proposer: Proposer | None, lookahead: Lookahead, clock: Clock
    ) -> None:
        count = len(task.prompt)
        if task.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")
        if not count:
            raise PromptError("the prompt is empty", "give at least one token")
        if count >= target.context:
            raise PromptError(
                f"the prompt has {count:,} tokens, the context holds {target.context:,}",
                "shorten the prompt, or raise `context` if the model allows more",
            )
        self.target, self.task, self.proposer, self.lookahead, self.clock = target, task, proposer, lookahead, clock
        self.left = min(task.max_tokens, target.context - count)
        self.limit: FinishReason = "length" if task.max_tokens <= target.context - count else "context"
        self.reason: FinishReason | None = None
        self.draft_full = False
        self.index = 0
        slots = count + self.left + lookahead.most + 1
        self.rows = Rows([task.prompt], slots=slots, device=target.device)
        self.sampler = Sampler(
            [task.sampling], [task.seed], vocab_size=target.vocab_size, device=target.device, rule=task.rule
        )
        target.open(1, slots)
        if proposer is not None:
            proposer.open(1, slots)
        self.fed_before = self._fed()

    def prefill(self) -> Prompted:
        """Fill the target's cache with all of the prompt but its last token, which the first round feeds."""
        start = perf_counter()
        count = self.rows.lengths[0]
        if count > 1:
            self.target.logits(self.rows.tokens, [count - 1], last=0)
        return Prompted(prompt_tokens=count, cached_tokens=0, seconds=perf_counter() - start)

    def choose(self) -> tuple[int, Notice | None]:
        """The next round's lookahead, within what is left to generate and what the draft can still hold."""
        k = min(self.lookahead.choose(), self.left - 1)
        if self.proposer is None or self.draft_full or k <= 0:
            return 0, None
        room = self.proposer.room(self.rows.lengths)
        if room:
            return min(k, room), None
        self.draft_full = True
        return 0, Notice("the draft's context is full; the target goes on alone")

    def round(self, k: int) -> Round:
        """Play a round and commit its tokens."""
        start = perf_counter()
        played = play(self.target, self.proposer, self.rows, self.sampler, k, self.clock)
        tokens = self._cut(played.tokens(0))
        self.rows.commit(0, tokens)
        held = [n - 1 for n in self.rows.lengths]
        self.target.crop(held)
        if self.proposer is not None:
            self.proposer.crop(held)
        before, drafted, verified = played.marks
        self.index += 1
        return Round(
            index=self.index - 1,
            proposed=tuple(played.proposed[0]),
            accepted=played.accepted[0],
            tokens=tuple(tokens),
            draft_seconds=self.clock.seconds(before, drafted),
            verify_seconds=self.clock.seconds(drafted, verified),
            seconds=perf_counter() - start,
        )

    def _cut(self, tokens: list[int]) -> list[int]:
        """End the tokens at the first end of sequence or at the limit, and note why."""
        for place, token in enumerate(tokens[: self.left]):
            if token in self.task.stop_ids:
                self.reason = "stop"
                return tokens[: place + 1]
        self.left -= len(tokens)
        if self.left <= 0:
            self.reason = self.limit
        return tokens

    def finish(self, reason: FinishReason) -> Finished:
        """The end of the run, with the positions each model computed."""
        fed = {name: count - self.fed_before[name] for name, count in self._fed().items()}
        return Finished(reason, fed)

    def _fed(self) -> dict[str, int]:
        fed = {"target": self.target.fed}
        if self.proposer is not None:
            fed["draft"] = self.proposer.fed
        return fed
