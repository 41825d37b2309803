"""What a batch reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from specgen.cli.batch_options import BatchSettings
from specgen.cli.environment import Environment
from specgen.cli.settings import Settings
from specgen.errors import PromptError, UsageError

if TYPE_CHECKING:
    from specgen.batch.feed import Feed
    from specgen.batch.journal import Journal


@contextmanager
def open_source(environment: Environment, file: str | None) -> Iterator[BinaryIO]:
    """Open the input.

    Raises:
        UsageError: it cannot be read.
    """
    if file is None or file == "-":
        yield environment.stdin
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", "-f FILE takes prompts, one a line") from None
    with stream:
        yield stream


def open_journal(batch: BatchSettings, source: BinaryIO, closing: ExitStack) -> Journal | None:
    """Open the output file, if one is asked for, without the records of items that failed.

    Raises:
        UsageError: it holds something that must not be lost, or cannot be written.
    """
    if batch.output is None:
        return None
    from specgen.batch.journal import Journal

    journal = closing.enter_context(Journal(Path(batch.output), resume=batch.resume, source=source))
    if journal.kept.failed:
        journal.tidy(failures=False, ordered=False)
    return journal


def open_feed(environment: Environment, batch: BatchSettings, source: BinaryIO, journal: Journal | None) -> Feed:
    """Begin to read the input, up to its first prompt.

    Raises:
        PromptError: it holds none.
        UsageError: it cannot be read.
    """
    from specgen.batch.feed import Feed
    from specgen.batch.lines import LineReader

    if journal is not None and journal.kept.torn:
        environment.notice(f"dropped an incomplete last line of {journal.kept.torn:,} bytes")
    feed = Feed(
        LineReader(source),
        format_=None if batch.input_format == "auto" else batch.input_format,  # type: ignore[arg-type]
        done=journal.kept.done if journal else None,
        limit=batch.max_items,
    )
    name = "standard input" if batch.file in (None, "-") else batch.file
    try:
        while not feed.begin(0.2):
            if feed.reader.over:
                raise PromptError(
                    f"the prompt is empty: {name} holds no text",
                    'specgen generate "Explain speculative decoding in one sentence."\n'
                    "specgen generate -f prompts.txt -o texts.jsonl",
                )
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error}", "-f FILE takes prompts, one a line") from None
    return feed


def choose_seed(environment: Environment, settings: Settings, batch: BatchSettings) -> int:
    """The seed that was given, or that of the run that is resumed, or a new one."""
    if settings.seed is not None:
        return settings.seed
    if batch.resume and batch.output:
        from specgen.batch.journal import read_manifest

        seed = read_manifest(Path(batch.output)).get("seed")
        if isinstance(seed, int) and 0 <= seed < 2**63:
            return seed
    return environment.draw_seed()
