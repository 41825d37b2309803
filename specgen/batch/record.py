"""What is written of an item: specgen's own record, OpenAI's, or its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specgen import __version__
from specgen.batch.feed import Failure
from specgen.batch.happenings import Outcome
from specgen.decoding.stats import rounded

OUTPUTS = ("specgen", "openai", "text")


@dataclass(frozen=True, slots=True)
class Made:
    """What made all items of a run.

    Attributes:
        profile: the profile's name.
        acceptance: the rule that judged the drafts.
        strict: whether every pass of the target had one shape.
    """

    profile: str
    acceptance: str = "coupled"
    strict: bool = False


def record(result: Outcome | Failure, made: Made, *, statistics: bool = True) -> dict[str, Any]:
    """Return specgen's record of an item (docs/batches.md describes the fields).

    Args:
        result: the item's.
        made: what made it.
        statistics: whether to say what depends on the machine and on the neighbours: rounds and seconds.
    """
    if isinstance(result, Failure):
        return {
            "id": result.id,
            "line": result.line,
            "text": None,
            "finish_reason": None,
            "error": {"code": result.code, "message": result.message},
            "profile": made.profile,
            "fingerprint": result.fingerprint,
            "specgen": __version__,
        }
    item, stats = result.job.item, result.stats
    fields: dict[str, Any] = {
        "id": item.id,
        "line": item.line,
        "text": result.text,
        "finish_reason": result.reason,
        "error": None,
        "prompt_tokens": len(result.job.task.prompt),
        "tokens": stats.tokens,
    }
    if statistics:
        fields |= _statistics(result)
    fields |= {
        "profile": made.profile,
        "acceptance": made.acceptance if result.job.task.sampling.temperature else "greedy",
        "strict": made.strict,
        "seed": result.job.task.seed,
        "fingerprint": result.job.fingerprint,
        "specgen": __version__,
    }
    return fields | ({"extra": dict(item.extra)} if item.extra else {})


def _statistics(result: Outcome) -> dict[str, Any]:
    stats, alone = result.stats, result.baseline_seconds
    baseline = stats.tokens / alone if alone else None
    speed = stats.tokens_per_second
    return {
        **stats.as_record(),
        # A batch measures the target alone once a row count, not in every row.
        "speedup": rounded(speed / baseline) if speed and baseline and stats.proposed else None,
        "baseline_tokens_per_second": rounded(baseline),
    }


def openai_record(result: Outcome | Failure, made: Made, *, statistics: bool = True, now: int = 0) -> dict[str, Any]:
    """Return a line of OpenAI's batch output, with specgen's own fields in one place.

    Args:
        result: the item's.
        made: what made it.
        statistics: as in ``record``.
        now: seconds since 1970, for ``created``.
    """
    own = record(result, made, statistics=statistics)
    for key in ("id", "text", "finish_reason", "error", "profile"):
        own.pop(key)
    own["version"] = own.pop("specgen")
    name = "batch_req_" + (own["fingerprint"] or f"line_{own['line']}")
    if isinstance(result, Failure):
        error = {"code": result.code, "message": result.message}
        custom = None if result.id is None else str(result.id)
        return {"id": name, "custom_id": custom, "response": None, "error": error, "specgen": own}
    kind = result.job.item.kind
    finish = {"stop": "stop"}.get(result.reason, "length")
    chat = kind != "text_completion"
    said = {"message": {"role": "assistant", "content": result.text}} if chat else {"text": result.text}
    count = len(result.job.task.prompt)
    body = {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{own['fingerprint']}",
        "object": "chat.completion" if chat else "text_completion",
        "created": now,
        "model": made.profile,
        "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": count,
            "completion_tokens": result.stats.tokens,
            "total_tokens": count + result.stats.tokens,
        },
    }
    response = {"status_code": 200, "request_id": name, "body": body}
    return {"id": name, "custom_id": str(result.job.item.id), "response": response, "error": None, "specgen": own}
