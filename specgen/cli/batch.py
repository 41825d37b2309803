"""``specgen generate`` with many prompts: from a file or a pipe to records, with progress and a way to go on."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from specgen import __version__
from specgen.cli.batch_files import choose_seed, open_feed, open_journal, open_source
from specgen.cli.batch_options import BatchSettings
from specgen.cli.environment import Environment
from specgen.cli.loading import load_models, strict_columns
from specgen.cli.logs import library_messages
from specgen.cli.settings import Settings
from specgen.cli.signals import halting
from specgen.decoding.halt import Halt
from specgen.display.batch_progress import Bar, BatchProgress, Lines, Sum, batch_summary
from specgen.display.escape import printable
from specgen.display.json_lines import dump
from specgen.errors import ExitCode
from specgen.profile import Profile

if TYPE_CHECKING:
    from specgen.api import Request
    from specgen.batch.feed import Failure, Feed
    from specgen.batch.happenings import Happening, Outcome
    from specgen.batch.journal import Journal

_MANY = 200


def run_batch(environment: Environment, settings: Settings, batch: BatchSettings) -> int:
    """Run every prompt of the input and return the exit code."""
    batch.check(settings)
    with library_messages(environment), ExitStack() as closing:
        profile = settings.load_profile(environment)
        source = closing.enter_context(open_source(environment, batch.file))
        journal = open_journal(batch, source, closing)
        feed = open_feed(environment, batch, source, journal)
        closing.callback(feed.close)
        request = settings.request(profile, choose_seed(environment, settings, batch))
        return _Run(environment, settings, batch, profile, request, feed, journal).play()


class _Run:
    """One batch, from the loaded pair to the summary."""

    def __init__(
        self,
        environment: Environment,
        settings: Settings,
        batch: BatchSettings,
        profile: Profile,
        request: Request,
        feed: Feed,
        journal: Journal | None,
    ) -> None:
        from specgen.batch.record import Made

        self.environment, self.settings, self.batch = environment, settings, batch
        self.profile, self.request, self.feed, self.journal = profile, request, feed, journal
        self.sum = Sum()
        self._made = Made(profile.name, request.acceptance or profile.acceptance, request.strict)
        self._held: dict[int, str] = {}
        self._next = 0
        self._stopped = False
        self._warned = False

    def play(self) -> int:
        """Load, run, and say how it went."""
        from specgen.api import cautions
        from specgen.batch.rows import Seats
        from specgen.batch.run import schedule
        from specgen.decoding.adaptive import AdaptiveLookahead
        from specgen.learned import Learned

        environment = self.environment
        rows = self.batch.batch_size or self._rows()
        pair = load_models(environment, self.profile, self.settings, rows=rows)
        for caution in cautions(pair, self.request):
            environment.notice(caution)
        halt, memory = Halt(), Learned(pair)
        scheduler = schedule(
            pair,
            self.request,
            self.feed,
            seats=Seats(rows, measured=self.batch.batch_size is None),
            halt=halt,
            timeout=self.batch.item_timeout,
            clock=environment.clock,
            learned=memory.load(),
        )
        environment.detail(f"up to {rows} rows side by side")
        self._write_manifest(rows, finished=False)
        start = environment.clock()
        with halting(halt) as interruption, self._progress() as progress:
            for happening in scheduler.run():
                self._take(happening, progress)
                if self._stopped:
                    break
        if isinstance(scheduler.lookahead, AdaptiveLookahead):
            memory.save(scheduler.lookahead.as_data())
        code, self.sum.skipped = interruption.exit_code, self.feed.skipped
        if self.journal is not None:
            if self.batch.output_format != "text":
                self.journal.tidy(failures=True, ordered=self._in_order)
            self._write_manifest(rows, finished=not code and not self._stopped)
        self._conclude(environment.clock() - start, code)
        return code or (ExitCode.FAILED if self.sum.failed else ExitCode.DONE)

    @property
    def _in_order(self) -> bool:
        return self.batch.ordered or self.batch.output_format == "text"

    def _rows(self) -> int:
        from specgen.api import lookahead_of
        from specgen.batch.rows import rows_that_fit, unplanned_rows

        if self.settings.skip_memory_check:
            return unplanned_rows(self.profile)
        _, most = lookahead_of(self.profile, self.request)
        columns = strict_columns(self.request.strict)
        return rows_that_fit(self.profile, max_tokens=self.request.max_tokens, lookahead=most, columns=columns)

    @contextmanager
    def _progress(self) -> Iterator[BatchProgress]:
        environment = self.environment
        progress: BatchProgress = (
            Bar(environment.stderr, colored=environment.colored(terminal=True), clock=environment.clock)
            if environment.animated and environment.in_foreground()
            else Lines(environment.note, environment.clock)
        )
        environment.set_aside(progress.aside)
        try:
            yield progress
        finally:
            environment.set_aside(contextlib.nullcontext)
            progress.close()

    def _take(self, happening: Happening, progress: BatchProgress) -> None:
        from specgen.batch.feed import Failure
        from specgen.batch.happenings import Beat, Outcome, Shrunk

        so_far = self.sum
        match happening:
            case Beat():
                so_far.tokens += happening.tokens
                so_far.seconds += happening.seconds
                so_far.drafts = so_far.drafts or happening.drafted
                if happening.baseline_seconds is not None:
                    so_far.measured_seconds += happening.seconds
                    so_far.baseline_seconds += happening.baseline_seconds
            case Outcome():
                so_far.done += 1
                so_far.done_tokens += happening.stats.tokens
                self._write(happening, happening.job.index, progress)
            case Failure():
                so_far.failed += 1
                self._write(happening, happening.index, progress)
                if self.batch.output_format == "text":
                    self.environment.notice(happening.message)
                self._stopped = self.batch.fail_fast
            case Shrunk():
                self.environment.notice(
                    f"out of memory; going on with {happening.rows} row{'s' if happening.rows > 1 else ''} side by side"
                )
        so_far.skipped = self.feed.skipped
        so_far.total = self.feed.reader.estimate()
        progress.show(so_far)
        self._warn()

    def _warn(self) -> None:
        if not self._warned and self.feed.format == "lines" and self.feed.read > _MANY and self.batch.file is None:
            self._warned = True
            self.environment.notice("every line of standard input is a prompt; - takes all of it as one prompt")

    def _write(self, result: Outcome | Failure, index: int, progress: BatchProgress) -> None:
        line = self._line(result)
        if self.batch.output_format != "text" and (self.journal is not None or not self._in_order):
            self._say(line, progress)
            return
        self._held[index] = line
        while self._next in self._held:
            self._say(self._held.pop(self._next), progress)
            self._next += 1

    def _say(self, line: str, progress: BatchProgress) -> None:
        if self.journal is not None:
            self.journal.write(line)
            return
        if not self.environment.stdout_is_terminal:
            self.environment.write(line)
            return
        with progress.aside():
            self.environment.write(printable(line))

    def _line(self, result: Outcome | Failure) -> str:
        from specgen.batch.happenings import Outcome
        from specgen.batch.record import openai_record, record

        statistics = self.batch.item_stats
        match self.batch.output_format:
            case "text":
                return (result.text if isinstance(result, Outcome) else "") + "\n"
            case "openai":
                now = int(time.time()) if statistics else 0
                return dump(openai_record(result, self._made, statistics=statistics, now=now)) + "\n"
            case _:
                return dump(record(result, self._made, statistics=statistics)) + "\n"

    def _write_manifest(self, rows: int, *, finished: bool) -> None:
        if self.batch.output is None:
            return
        from importlib.metadata import version

        from specgen.batch.journal import write_manifest

        request = {key: value for key, value in dataclasses.asdict(self.request).items() if key != "seed"}
        write_manifest(
            Path(self.batch.output),
            {
                "specgen": __version__,
                "torch": version("torch"),
                "transformers": version("transformers"),
                "python": platform.python_version(),
                "input": self.batch.file or "standard input",
                "input_format": self.feed.format,
                "output_format": self.batch.output_format,
                "profile": dataclasses.asdict(self.profile),
                "request": request,
                "seed": self.request.seed,
                "rows": rows,
                "finished": finished,
                "items": {"done": self.sum.done, "failed": self.sum.failed, "done_before": self.feed.skipped},
            },
        )

    def _conclude(self, seconds: float, code: int | None) -> None:
        so_far = self.sum
        remark = "interrupted" if code else "stopped at the first failure" if self._stopped else ""
        self.environment.note(batch_summary(so_far, seconds=seconds, seed=self.request.seed, remark=remark), dim=True)
        if (code or self._stopped or so_far.failed) and self.batch.output and self.batch.output_format != "text":
            what = "goes on" if code or self._stopped else "tries the failed ones again"
            self.environment.note(f"the same command with --resume {what}", dim=True)
