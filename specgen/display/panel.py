"""The live panel: text as it is committed, and below it the last round and the numbers, repainted as rounds come."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from specgen.decoding.events import Decided, Finished, Notice
from specgen.decoding.stats import Stats
from specgen.display.aside import LineByLine
from specgen.display.escape import one_line, printable
from specgen.display.flow import Flow
from specgen.display.lane import lane
from specgen.display.plain import conclude
from specgen.display.region import Region
from specgen.display.renderer import Run, Streams
from specgen.display.status import Moment, compact, foot, head, numbers
from specgen.display.styles import ASCII, UNICODE, Palette, Spans, Style, cut, width
from specgen.display.tally import Tally
from specgen.display.usage import memory_in_use
from specgen.text import Narration, Spoken

if TYPE_CHECKING:
    from typing_extensions import Self

PER_SECOND = 12
TAIL = 3  # rows of text that are shown with their marks before they are committed
_PANEL = 4  # rows of the panel itself
_NARROW, _SHORT, _TINY = 60, 12, 5
_MEMORY_SECONDS = 1.0


class PanelRenderer:
    """Shows a run on a terminal and leaves its text and one summary line there.

    Args:
        streams: the terminal.
        run: what the panel is about.
        memory: bytes in use.
    """

    def __init__(self, streams: Streams, run: Run, memory: Callable[[], int | None] = memory_in_use) -> None:
        self._streams = streams
        # Names come from files and from the web.
        self._run = replace(run, profile=one_line(run.profile), models=one_line(run.models))
        self._memory = memory
        self._signs = UNICODE if streams.unicode else ASCII
        self._palette = Palette(streams.colored(terminal=True))
        self._flow = Flow(max(streams.size()[0], 1), self._palette, highlight=run.highlight)
        self._region = Region(streams.write, lambda: streams.size()[0])
        self._tally, self._stats = Tally(), Stats()
        self._last: Spoken | None = None
        self._notices: list[str] = []
        self._start = self._painted = self._weighed = streams.clock()
        self._bytes: int | None = None
        self._busy = self._ended = False
        self._stop: Callable[[], None] | None = None
        self._why = ""
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._streams.mute_keyboard(True)
        self._closing.callback(self._streams.mute_keyboard, False)
        self._streams.set_aside(self._aside)
        self._closing.callback(self._streams.set_aside, contextlib.nullcontext)
        self._closing.enter_context(contextlib.redirect_stderr(LineByLine(self._streams.stderr, self._aside)))
        self._bytes = self._memory()
        self.paint()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A terminal that has gone cannot be tidied up, and a second failure would hide the first.
        with contextlib.suppress(OSError) if error is not None else contextlib.nullcontext():
            self._end()
        self._closing.close()

    def on(self, event: Narration, stats: Stats) -> None:
        """Show an event, unless the last one was shown too short a time ago."""
        self._stats = stats
        match event:
            case Spoken():
                self._hear(event)
            case Notice():
                self._notices.append(event.message)
            case Decided():
                self._why = event.why
            case Finished():
                self._end()
                conclude(self._streams, self._run, stats, event.reason, self._notices)
                return
        # The first round is always shown: the next may take long.
        if self._streams.clock() - self._painted >= 1 / PER_SECOND or (isinstance(event, Spoken) and stats.rounds == 1):
            self.paint()

    def paint(self) -> None:
        """Commit what is due and repaint the rest; called by a signal in the middle of it, do nothing."""
        if self._busy or self._ended:
            return
        with self._drawing():
            columns, height = self._streams.size()
            self._flow.resize(max(columns, 1))
            rows = self._rows(columns, height)
            self._region.paint(self._flow.take(self._keep(columns, height)), [*self._tail(), *rows])
            self._painted = self._streams.clock()

    def suspend(self, stop: Callable[[], None]) -> None:
        """Leave the terminal to others while the program is stopped.

        Args:
            stop: stops the program and returns when it goes on.
        """
        if self._busy:
            self._stop = stop  # when what is being written is complete
            return
        self._busy, self._stop = True, None
        self._region.close()
        self._streams.mute_keyboard(False)
        stop()
        self._busy = False
        if not self._ended:
            self._streams.mute_keyboard(True)
            self.paint()

    @contextlib.contextmanager
    def _drawing(self) -> Iterator[None]:
        """Keep signal handlers from writing in between."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self._stop:
            self.suspend(self._stop)

    def _hear(self, spoken: Spoken) -> None:
        self._last = spoken
        self._tally.add(spoken.round)
        for piece in spoken.pieces:
            if piece.text:
                self._flow.add(printable(piece.text), Style.ACCEPTED if piece.accepted else Style.PLAIN)

    def _end(self) -> None:
        self._ended = True
        with self._drawing():
            self._flow.resize(max(self._streams.size()[0], 1))
            self._region.close(self._flow.finish())

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        with self._drawing(), self._region.aside():
            yield

    # What is where

    def _roomy(self, columns: int, height: int) -> bool:
        return columns >= _NARROW and height >= _SHORT

    def _keep(self, columns: int, height: int) -> int:
        return TAIL if self._roomy(columns, height) else 1

    def _tail(self) -> list[tuple[str, int]]:
        return [(self._palette.paint(row.spans), row.cells) for row in self._flow.rows]

    def _rows(self, columns: int, height: int) -> list[tuple[str, int]]:
        """Return the panel for the room there is; nothing where there is none, or while in the background."""
        room = columns - 1  # no full row: terminals disagree about what comes after it
        if height < _TINY or columns < 2 * _TINY or not self._streams.in_foreground():
            return []
        moment = self._moment()
        if not self._stats.rounds:
            spans: list[Spans] = [[(f" reading the prompt{self._signs.dot}{self._run.models}", Style.QUIET)]]
        elif self._roomy(columns, height):
            assert self._last is not None
            spans = [
                head(moment, self._run, room, self._signs),
                lane(self._last, room, self._signs),
                numbers(moment, room, self._signs),
                foot(moment, self._run, room, self._signs),
            ]
        else:
            spans = [compact(moment, self._run, room, self._signs)]
        rows = [cut(row, room, self._signs.more) for row in spans]
        return [(self._palette.paint(row), sum(width(text) for text, _ in row)) for row in rows]

    def _moment(self) -> Moment:
        now = self._streams.clock()
        if now - self._weighed >= _MEMORY_SECONDS:
            self._bytes, self._weighed = self._memory(), now
        told = one_line(self._notices[-1]) if self._notices and self._tally.plain_in_a_row else None
        why = self._why or told
        return Moment(self._stats, self._tally, now - self._start, self._bytes, why)
