"""Text to standard output as it is committed, one summary line to standard error."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING

from specgen.decoding.events import Finished, FinishReason, Notice
from specgen.display.escape import printable
from specgen.display.renderer import Run, Streams
from specgen.display.status_line import StatusLine
from specgen.display.styles import Palette, Style
from specgen.display.summary import summary
from specgen.text import Narration, Spoken

if TYPE_CHECKING:
    from typing_extensions import Self

    from specgen.decoding.stats import Stats


class PlainRenderer:
    """Verbatim into a pipe or a file; on a terminal, control characters become visible and notices wait for the end."""

    def __init__(self, streams: Streams, run: Run) -> None:
        self._streams = streams
        self._run = run
        self._on_screen = streams.stdout_is_terminal
        self._palette = Palette(streams.colored(terminal=True)) if run.highlight and self._on_screen else None
        self._status = StatusLine(streams, run) if streams.status_wanted() else None
        self._last = ""
        self._notices: list[str] = []

    def __enter__(self) -> Self:
        if self._status:
            self._streams.set_aside(self._status.aside)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.close()
            self._streams.set_aside(nullcontext)
        # The reader of a closed pipe has gone, and a second failure would hide the first.
        if error is not None and not isinstance(error, OSError):
            self._end_line()

    def on(self, event: Narration, stats: Stats) -> None:
        """Show an event."""
        match event:
            case Spoken():
                self._hear(event)
            case Notice():
                self._notices.append(event.message)
                if not (self._on_screen and self._streams.stderr_is_terminal):
                    self._flush_notices()
            case Finished():
                self._end_line()
                if self._status:
                    self._status.close()
                conclude(self._streams, self._run, stats, event.reason, self._notices)
                return
        if self._status:
            self._status.show(stats)

    def _hear(self, spoken: Spoken) -> None:
        if self._palette is None:
            self._say(spoken.text)
            return
        for piece in spoken.pieces:
            if piece.text:
                style = Style.ACCEPTED if piece.accepted else Style.PLAIN
                self._streams.write(self._palette.paint([(printable(piece.text), style)]))
                self._last = piece.text[-1]

    def _say(self, text: str) -> None:
        if text:
            self._last = text[-1]
            self._streams.write(printable(text) if self._on_screen else text)

    def _end_line(self) -> None:
        if self._last not in ("", "\n"):
            self._say("\n")

    def _flush_notices(self) -> None:
        for message in self._notices:
            self._streams.notice(message)
        self._notices.clear()


def conclude(streams: Streams, run: Run, stats: Stats, reason: FinishReason, notices: Sequence[str]) -> None:
    """Say on standard error what is to be said about a finished run: its notices and the summary."""
    for message in notices:
        streams.notice(message)
    if streams.stdout_is_terminal and streams.stderr_is_terminal:
        streams.note("")
    rule = ", ".join(filter(None, (run.rule, run.translation, "strict" * run.strict)))
    streams.note(summary(stats, seed=run.seed, reason=reason, rule=rule, encoding=streams.stderr.encoding), dim=True)
