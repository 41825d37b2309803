"""(N) What the target alone thinks of a text, token by token, and how much of a difference rounding explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log2

import torch
from torch import Tensor

from specgen.decoding.engine import Task
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler
from specgen.models.cached import CachedModel

ULPS = 4
"""Units in the last place of the largest logit that the gap between two tokens may differ by, pass to pass.

A pass of another shape adds in another order. Each layer then rounds a little differently, and the last rounding, of
the logits themselves, is half a unit for either pass and either token: the difference of two logits moves by two units
before any layer counts. Two units is also the most that was measured between the two leading tokens (SmolLM2-135M,
bfloat16, one column against 2, 5 and 9, one row against 2 and 4). A wrong position or cache entry moves logits by
whole nats.
"""

_SINGLE = 1e-3
"""The margin in float32 and float64, where passes differ by less than 1e-4."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the target alone, by itself and on one row, thinks of one token after the text before it.

    Attributes:
        position: which token of the output.
        token: the one that was asked about.
        choice: the one that the target chooses.
        gap: by how much it prefers its choice, in units of its logits, noise included.
        top_two: by how much it prefers its choice to the next best token.
        margin: the largest gap that rounding explains.
    """

    position: int
    token: int
    choice: int
    gap: float
    top_two: float
    margin: float


def margin(dtype: torch.dtype, magnitude: float) -> float:
    """The largest gap that rounding explains.

    Args:
        dtype: the target's arithmetic.
        magnitude: of the largest logit at that place.
    """
    if dtype not in (torch.bfloat16, torch.float16):
        return _SINGLE
    unit = 2.0 ** floor(log2(max(magnitude, 1e-6))) * torch.finfo(dtype).eps
    return ULPS * unit


def explain(dtype: torch.dtype) -> str:
    """The margin in words."""
    name = str(dtype).removeprefix("torch.")
    if dtype not in (torch.bfloat16, torch.float16):
        return f"{name}: a gap of at most {_SINGLE:g} is a tie"
    at = margin(dtype, 16)
    return f"{name}: a gap of at most {ULPS} units in the last place is a tie ({at:g} for logits from 16 to 32)"


@torch.inference_mode()
def opinions(
    target: CachedModel,
    task: Task,
    tokens: Sequence[int],
    *,
    refused: Mapping[int, int],
    slots: int,
    columns: int | None,
) -> Iterator[Opinion]:
    """Force a text through the plain path: one row, one new token a pass.

    Args:
        target: its cache is emptied.
        task: the prompt, sampling and seed.
        tokens: the text.
        refused: further tokens to ask about, by position.
        slots: of the cache, as in the run.
        columns: width of the passes in strict mode.

    Yields:
        An opinion for every token of the text that the target alone would not have chosen, and for every refused one.
    """
    rows = Rows(1, slots, target.device)
    sampler = Sampler(vocab_size=target.vocab_size, device=target.device)
    sampler.seat([task.sampling], [task.seed])
    target.open(1, slots, columns=columns)
    rows.put(0, task.prompt)
    if len(task.prompt) > 1:
        target.logits(rows.tokens, [len(task.prompt) - 1], last=0)
    for position, token in enumerate(tokens):
        logits = target.logits(rows.tokens, rows.lengths, last=1)
        scores = sampler.scores(logits, rows)
        if not sampler.greedy:
            scores = scores + sampler.noise.at(sampler.seeds, rows.lengths, 1, dtype=scores.dtype)
        asked = {token} | ({refused[position]} if position in refused else set())
        for one in sorted(asked):
            opinion = _judge(position, one, logits[0, 0], scores[0, 0], task.sampling.temperature or 1.0)
            if opinion.choice != one:
                yield opinion
        rows.commit(0, [token])


def _judge(position: int, token: int, logits: Tensor, scores: Tensor, temperature: float) -> Opinion:
    best = scores.topk(2)
    choice = int(scores.argmax())
    # Of the whole row: what a layer rounds differently moves every logit, the small ones of likely tokens included.
    magnitude = float(logits.abs().masked_fill(logits.isinf(), 0).max())
    return Opinion(
        position=position,
        token=token,
        choice=choice,
        gap=temperature * float(scores[choice] - scores[token]),
        top_two=temperature * float(best.values[0] - best.values[1]),
        margin=margin(logits.dtype, magnitude),
    )
