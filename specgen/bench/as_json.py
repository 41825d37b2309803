"""A measurement as plain data, its raw runs included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from specgen.bench.prompts import Prompt
from specgen.bench.report import ArmResult, Gain, Report, Speed
from specgen.bench.run import Sample
from specgen.decoding.events import Round
from specgen.decoding.stats import rounded

_exact = partial(rounded, digits=6)


def as_data(report: Report, samples: Iterable[Sample], prompts: Sequence[Prompt]) -> dict[str, Any]:
    """Everything that was measured; times are seconds, speeds tokens a second, memory bytes.

    Args:
        report: the measurement.
        samples: all runs, those too that are not in it because another arm had not come to them.
        prompts: what they ran on.
    """
    return {
        "provenance": asdict(report.provenance),
        "interrupted": report.interrupted,
        "default": report.default,
        "dropped": [asdict(one) for one in report.dropped],
        "results": [
            {
                "temperature": result.temperature,
                "prompts": result.prompts,
                "repeats": result.repeats,
                "categories": list(result.categories),
                "arms": [_arm(arm) for arm in result.arms],
                "findings": [
                    {
                        "kind": one.kind,
                        "arm": one.arm,
                        "over": one.other,
                        "category": one.category,
                        "speedup": _gain(one.gain),
                        "prompt_included": one.whole,
                    }
                    for one in result.findings
                ],
            }
            for result in report.results
        ],
        "prompts": [{"category": prompt.category, "name": prompt.name} for prompt in prompts],
        "runs": [_run(sample) for sample in samples],
    }


def _arm(arm: ArmResult) -> dict[str, Any]:
    return {
        "name": arm.name,
        "about": arm.about,
        "family": arm.family,
        "group": arm.group or None,
        "runs": arm.runs,
        "tokens": arm.tokens,
        "decode": _speed(arm.decode),
        "prompt_included": _speed(arm.whole),
        "ttft": _exact(arm.ttft),
        "inter_token_latency": {"median": _exact(arm.gap), "p95": _exact(arm.gap_95)},
        "proposed": arm.proposed,
        "accepted": arm.accepted,
        "acceptance_rate": _exact(arm.acceptance_rate),
        "alpha": _exact(arm.alpha),
        "mean_accepted_length": _exact(arm.mean_accepted_length),
        "positions": [{"tested": one.tested, "accepted": one.accepted} for one in arm.positions],
        "rounds_by_source": {name or "plain": count for name, count in arm.sources.items()},
        "own_share": _exact(arm.own_share),
        "peak_memory": arm.memory,
        "same_text": {"equal": arm.same_text, "compared": arm.compared_text},
    }


def _speed(speed: Speed | None) -> dict[str, Any] | None:
    if speed is None:
        return None
    return {
        "tokens_per_second": _exact(speed.rate),
        "speedup": _gain(speed.gain),
        "categories": {
            name: {"tokens_per_second": _exact(rate), "speedup": _gain(gain)}
            for name, (rate, gain) in speed.categories.items()
        },
    }


def _gain(gain: Gain) -> dict[str, Any]:
    return {"value": _exact(gain.value), "low": _exact(gain.low), "high": _exact(gain.high)}


def _run(sample: Sample) -> dict[str, Any]:
    outcome = sample.outcome
    return {
        "arm": sample.arm,
        "temperature": sample.temperature,
        "prompt": sample.prompt,
        "category": sample.category,
        "repeat": sample.repeat,
        "prompt_tokens": outcome.prompt_tokens,
        "tokens": outcome.count,
        "seconds": _exact(outcome.seconds),
        "ttft": _exact(outcome.ttft),
        "decode_seconds": _exact(outcome.decode_seconds),
        "proposed": outcome.proposed,
        "accepted": outcome.accepted,
        "finish_reason": outcome.finish_reason,
        "peak_memory": sample.memory,
        "rounds": [_round(played) for played in outcome.rounds],
    }


def _round(played: Round) -> list[Any]:
    """Tokens, proposed, accepted, source, and the seconds of the round, of its draft and of its verification."""
    times = (played.seconds, played.draft_seconds, played.verify_seconds)
    return [len(played.tokens), len(played.proposed), played.accepted, played.source, *map(_exact, times)]
