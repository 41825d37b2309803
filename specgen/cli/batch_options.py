"""The options that only a batch has."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import click

from specgen.cli.environment import Environment
from specgen.cli.options import Count, Number, option
from specgen.cli.settings import Settings
from specgen.errors import UsageError


@dataclasses.dataclass(frozen=True, slots=True)
class BatchSettings:
    """The values of the options that only a batch has."""

    file: str | None
    input_format: str
    output: str | None
    resume: bool
    output_format: str
    ordered: bool
    batch_size: int | None
    item_timeout: float | None
    max_items: int | None
    item_stats: bool
    fail_fast: bool

    @classmethod
    def take(cls, options: dict[str, Any]) -> BatchSettings:
        """Take the batch's options out of all that were given."""
        return cls(**{field.name: options.pop(field.name) for field in dataclasses.fields(cls)})

    def wanted(self, prompt: Sequence[str], environment: Environment) -> bool:
        """Whether this run is a batch.

        Raises:
            UsageError: it is one and something else as well.
        """
        if prompt:
            given = "-f" if self.file else "-o" if self.output else "--resume" if self.resume else None
            if given:
                raise UsageError(f"{given} is for a batch, and a PROMPT is one text", "leave one of them out")
            return False
        return self.file is not None or not environment.stdin_is_terminal

    def check(self, settings: Settings) -> None:
        """Refuse what does not go together.

        Raises:
            UsageError: with the way out.
        """
        if self.resume and not self.output:
            raise UsageError("--resume needs the file to go on with", "-o FILE --resume")
        if self.resume and self.output_format == "text":
            raise UsageError("plain text says not which prompts are done", "--resume works with the other formats")
        if settings.trace:
            raise UsageError("--trace follows one prompt", "leave it out, or give one PROMPT")


class _Rows(Count):
    """A number of rows, or ``auto``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value in (None, "auto") else super().convert(value, param, ctx)


BATCH_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    option("-f", "--file", metavar="FILE", help="Prompts, one a line or a JSON object a line; - is standard input."),
    option(
        "--input-format",
        type=click.Choice(["auto", "lines", "jsonl", "openai"]),
        default="auto",
        show_default=True,
        help="What a line of a batch is; auto tells it from the first one.",
    ),
    option("-o", "--output", metavar="FILE", help="Write a batch's records there, with a manifest beside it."),
    option("--resume", is_flag=True, help="Go on with the records in -o FILE: run what is missing or failed."),
    option(
        "--output-format",
        type=click.Choice(["specgen", "openai", "text"]),
        default="specgen",
        show_default=True,
        help="What is written of each item of a batch.",
    ),
    option("--ordered", is_flag=True, help="Write the items in the order of the input, not as they are done."),
    option(
        "--batch-size",
        type=_Rows(min=1, max=1024),
        metavar="auto|N",
        help="Items side by side.  [default: auto, what fits]",
    ),
    option("--item-timeout", type=Number(min=0, min_open=True), metavar="S", help="Seconds for an item at most."),
    option("--max-items", type=Count(min=1), metavar="N", help="Run N items at most."),
    option(
        "--item-stats/--no-item-stats",
        default=True,
        help="Leave out what differs from run to run, such as seconds.",
    ),
    option("--fail-fast", is_flag=True, help="End a batch at the first item that fails."),
)
