"""One JSON object for one run."""

from __future__ import annotations

import json
import re
from types import TracebackType
from typing import TYPE_CHECKING, Any

from specgen import __version__
from specgen.decoding.events import Finished, FinishReason, Notice, Prompted
from specgen.display.renderer import Run, Streams
from specgen.text import Narration, Spoken

if TYPE_CHECKING:
    from typing_extensions import Self

    from specgen.decoding.stats import Stats

# Legal in JSON, but not on a terminal; and half of a surrogate pair is legal nowhere but as an escape.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def dump(record: dict[str, Any]) -> str:
    """Return the object as one line: readable in every script, safe to show, valid whatever the text holds."""
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def record(
    run: Run, stats: Stats, *, text: str, reason: FinishReason, prompt_tokens: int, id_: str | None = None
) -> dict[str, Any]:
    """Return what there is to know about a finished run (docs/cli.md describes the fields)."""
    return {
        "id": id_,
        "text": text,
        "finish_reason": reason,
        "error": None,
        "prompt_tokens": prompt_tokens,
        "tokens": stats.tokens,
        **stats.as_record(),
        "acceptance": run.rule or None,
        "strict": run.strict,
        "profile": run.profile,
        "seed": run.seed,
        "fingerprint": run.fingerprint,
        "specgen": __version__,
    }


class JsonRenderer:
    """Collects the run and writes its object when it has ended; a run that fails leaves none."""

    def __init__(self, streams: Streams, run: Run) -> None:
        self._streams = streams
        self._run = run
        self._text: list[str] = []
        self._prompt_tokens = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def on(self, event: Narration, stats: Stats) -> None:
        """Collect an event."""
        match event:
            case Prompted():
                self._prompt_tokens = event.prompt_tokens
            case Spoken():
                self._text.append(event.text)
            case Notice():
                self._streams.notice(event.message)
            case Finished():
                result = record(
                    self._run,
                    stats,
                    text="".join(self._text),
                    reason=event.reason,
                    prompt_tokens=self._prompt_tokens,
                )
                self._streams.write(dump(result) + "\n")
