"""The peak of every phase, found by running the real phases on models without memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from specgen.decoding.proposers import DraftModel
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler
from specgen.memory.errors import CannotTell
from specgen.memory.ledger import Fused, Held, Kernels, Ledger
from specgen.memory.skeleton import Skeleton
from specgen.memory.workload import COMPANY, Workload, passes
from specgen.models.cached import CachedModel

META = torch.device("meta")


@dataclass(frozen=True, slots=True)
class Traced:
    """The peak of one phase, weights left out.

    Attributes:
        name: of the phase.
        peak: bytes of caches, buffers and activations.
        after: bytes that are still there when it is over.
        owner: the operation that reached the peak.
        top: the largest blocks at the peak, when they were asked for.
    """

    name: str
    peak: int
    after: int
    owner: str
    top: tuple[Held, ...] = ()


class Actor:
    """A skeleton in the role of target or draft."""

    def __init__(self, skeleton: Skeleton, name: str, positions: int, chunk: int) -> None:
        self.skeleton = skeleton
        self.positions = positions
        self.cached = CachedModel(skeleton.model, name, context=positions, prefill_chunk=chunk)

    def slot_bytes(self) -> tuple[int, ...]:
        """Bytes of one slot of one row in each layer, from the buffers that the cache has made."""
        cache = self.cached._cache
        sizes = {i: (k.nbytes + cache._values[i].nbytes) // (cache.rows * cache.slots) for i, k in cache._keys.items()}
        likes = self.skeleton.layers
        return tuple(sizes[like] for like in likes) if likes else tuple(sizes.values())

    def missing(self) -> int:
        """Bytes of the layers' caches that the skeleton stands for and does not have."""
        cache = self.cached._cache
        kept = sum(t.nbytes for t in (*cache._keys.values(), *cache._values.values()))
        return sum(self.slot_bytes()) * cache.rows * cache.slots - kept


def slots_of(skeleton: Skeleton) -> tuple[int, ...]:
    """Bytes of one slot of one row in each layer of the whole model."""
    actor = Actor(skeleton, "", 8, 8)
    with _tracing("cpu", lambda *_: True):
        actor.cached.open(1, 2)
        actor.cached.logits(torch.zeros(1, 2, dtype=torch.long, device=META), [1], last=0)
        return actor.slot_bytes()


@contextmanager
def _tracing(device: str, fused: Fused, *, detail: bool = False) -> Iterator[Ledger]:
    with Ledger(detail=detail) as ledger, Kernels(device, fused, torch.get_num_threads() if device == "cpu" else 1):
        yield ledger


def trace(
    target: Actor, draft: Actor | None, load: Workload, *, device: str, fused: Fused, detail: bool = False
) -> tuple[Traced, ...]:
    """Run every phase of a workload and note its peak.

    Args:
        target: the model that verifies.
        draft: the model that proposes, if any.
        load: the rows and their sizes.
        device: kind of device, for the attention kernel.
        fused: which attention calls a fused kernel takes.
        detail: name the largest blocks.

    Raises:
        CannotTell: a forward pass needs real numbers, which a skeleton has none of.
    """
    phases = _Phases(target, draft, load)
    try:
        with _tracing(device, fused, detail=detail) as ledger:
            return tuple(phases.run(ledger))
    except (NotImplementedError, RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CannotTell(
            f"cannot trace {target.cached.name}: {line}",
            "what cannot be traced is not guessed; --fast uses the closed form where that is known",
        ) from error


class _Phases:
    def __init__(self, target: Actor, draft: Actor | None, load: Workload) -> None:
        self.target, self.draft, self.load = target, draft, load
        self.extra = 0  # caches of layers that the skeletons lack
        for actor in (target, draft):
            if actor is not None:
                actor.cached.prefill_chunk = load.prefill_chunk
                actor.cached._cache = type(actor.cached._cache)(0, 0)

    def run(self, ledger: Ledger) -> Iterator[Traced]:
        load, target, draft = self.load, self.target.cached, self.draft
        for actor in (self.target, draft):
            if actor is not None:
                ledger.ignore(t for t in (*actor.skeleton.model.parameters(), *actor.skeleton.model.buffers()))
        rows = Rows(load.batch, load.slots, META)
        rows.lengths = [load.length] * load.batch
        sampler = Sampler(vocab_size=target.vocab_size, device=META, rule=load.rule)
        sampler.seat([load.sampling] * load.batch, list(range(load.batch)))
        target.open(load.batch, load.slots, columns=load.columns)
        warm = load.batch > 1
        if draft is not None:
            draft.cached.open(load.batch, load.draft_slots(draft.positions))
            if warm and load.lookahead:
                # A batch reads new prompts while both caches are in use.
                draft.cached.logits(rows.tokens[:1], [1], last=0)
                self.extra += draft.missing()
        ledger.restart()
        self._prefill(self.target, rows, load.length - 1, 0, alone=True)
        self.extra += self.target.missing()
        yield self._note("target prefill", ledger)
        if draft is not None and load.lookahead:
            ledger.restart()
            length = load.draft_length(draft.positions)
            self._prefill(draft, rows, length, 1, alone=load.batch == 1)
            if load.batch > 1:
                draft.cached.lengths = [max(length - COMPANY, 0)] * load.batch
                draft.cached.logits(rows.tokens, [length] * load.batch, last=1)
            self.extra += 0 if warm else draft.missing()
            yield self._note("draft prefill", ledger)
        yield from self._round(ledger, rows, sampler)

    def _prefill(self, actor: Actor, rows: Rows, total: int, last: int, *, alone: bool) -> None:
        """Read one row's prompt: prompts are read one after the other, whatever the batch."""
        for start, stop in passes(total, self.load.prefill_chunk, last, alone=alone) or [(0, 1)]:
            actor.cached.lengths[0] = start
            actor.cached.logits(rows.tokens[:1], [stop], last=last if stop == total else 0)

    def _round(self, ledger: Ledger, rows: Rows, sampler: Sampler) -> Iterator[Traced]:
        load, target, draft = self.load, self.target.cached, self.draft
        proposal = None
        if draft is not None and load.lookahead:
            ledger.restart()
            proposer = DraftModel(draft.cached, common=min(target.vocab_size, draft.cached.vocab_size))
            rows.lengths = [load.draft_length(draft.positions)] * load.batch
            draft.cached.lengths = [n - 1 for n in rows.lengths]
            proposal = proposer.propose(rows, sampler, load.lookahead)
            rows.lengths = [load.length] * load.batch
            yield self._note("draft steps", ledger)
        ledger.restart()
        k = load.lookahead if proposal is not None else 0
        target.lengths = [load.length - 1] * load.batch
        logits = target.logits(rows.tokens, [load.length + k] * load.batch, last=k + 1)
        yield self._note("verify" if k else "decode", ledger)
        ledger.restart()
        if proposal is None:
            sampler.own(sampler.scores(logits, rows), rows)
        else:
            sampler.judge(proposal, logits, rows)
        yield self._note("acceptance" if k else "sampling", ledger)

    def _note(self, name: str, ledger: Ledger) -> Traced:
        return Traced(name, ledger.peak + self.extra, ledger.live + self.extra, ledger.owner, ledger.top)
