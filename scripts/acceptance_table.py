#!/usr/bin/env python3
"""Compare how much of a draft each acceptance rule keeps, on a pair of your own.

    python scripts/acceptance_table.py PROFILE [-t 0.8] [-k 4] [-n 32] [--prompts FILE]

Prints, after every prompt, accepted / proposed of all prompts so far under ``block``, ``token`` and ``coupled``. Beside
them stands what *independent* sampling and comparing would keep (draft and target each draw their own token), which
specgen does not do: it follows from both distributions along the coupled text, as the expected share of a proposal of
``k`` tokens, with ``sum p q`` as the chance of a match. ``overlap`` is the same with ``sum min(p, q)``, the most that
any rule for one token can keep; it shows how far the estimate is from the measured ``token``.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import torch

from specgen.api import load
from specgen.decoding.drafting import drafter
from specgen.decoding.events import Round
from specgen.decoding.lookahead import fixed
from specgen.decoding.rounds import Task, rounds
from specgen.models.load import Pair
from specgen.profile import Sampling
from specgen.text import encode_prompt
from specgen.verify.run import PROMPTS

RULES = ("block", "token", "coupled")


def play(pair: Pair, task: Task, rule: str, k: int) -> tuple[list[int], int, int]:
    """Return a text, and how many draft tokens were accepted and proposed for it."""
    lookahead = fixed(k, baseline=False)
    played = [
        event
        for event in rounds(pair.target, task, proposer=drafter(pair), lookahead=lookahead, rule=rule)
        if isinstance(event, Round)
    ]
    tokens = [token for event in played for token in event.tokens]
    return tokens, sum(event.accepted for event in played), sum(len(event.proposed) for event in played)


def distributions(model: object, ids: list[int], count: int, temperature: float, common: int) -> torch.Tensor:
    """Return a model's distributions of the last ``count`` tokens, ``[count, common]``."""
    tokens = torch.tensor([ids])
    model.open(1, len(ids))
    logits = model.logits(tokens, [len(ids) - 1], last=count)[0].double() / temperature
    return logits.softmax(-1)[:, :common]


def expected(chances: torch.Tensor, k: int) -> float:
    """Return the expected share of a proposal of ``k`` tokens that is kept, averaged over where it may begin."""
    starts = chances.unfold(0, k, 1) if len(chances) >= k else chances[None]
    return float(starts.cumprod(-1).mean())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("profile")
    parser.add_argument("-t", "--temperature", type=float, default=0.8)
    parser.add_argument("-k", "--lookahead", type=int, default=4)
    parser.add_argument("-n", "--max-tokens", type=int, default=32)
    parser.add_argument("--prompts", type=Path)
    options = parser.parse_args()
    prompts = options.prompts.read_text(encoding="utf-8").splitlines() if options.prompts else PROMPTS
    pair, k = load(options.profile), options.lookahead
    assert pair.draft is not None, "the profile has no draft"
    common = pair.relation.common
    accepted, proposed = Counter(), Counter()
    estimates: dict[str, list[float]] = {"independent": [], "overlap": []}
    for seed, prompt in enumerate(prompts, 1):
        ids = list(encode_prompt(pair.tokenizer, prompt, system=None, chat=pair.profile.chat))
        task = Task(ids, options.max_tokens, pair.stop_ids, Sampling(temperature=options.temperature), seed)
        for rule in RULES:
            text, kept, tried = play(pair, task, rule, k)
            accepted[rule] += kept
            proposed[rule] += tried
        p, q = (
            distributions(model, ids + text, len(text), options.temperature, common)
            for model in (pair.target, pair.draft)
        )
        estimates["independent"].append(expected((p * q).sum(-1), k))
        estimates["overlap"].append(expected(torch.minimum(p, q).sum(-1), k))
        row = [f"{rule} {accepted[rule] / proposed[rule]:.3f} ({accepted[rule]}/{proposed[rule]})" for rule in RULES]
        row += [f"{name} {sum(values) / len(values):.3f}" for name, values in estimates.items()]
        print(f"{seed} prompts: {', '.join(row)}", flush=True)


if __name__ == "__main__":
    main()
