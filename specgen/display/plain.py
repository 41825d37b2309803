"""Text to standard output as it is committed, one summary line to standard error."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from specgen.decoding.events import Finished, Notice
from specgen.display.escape import printable
from specgen.display.renderer import Run, Streams
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
        self._last = ""
        self._notices: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The reader of a closed pipe has gone, and a second failure would hide the first.
        if error is not None and not isinstance(error, OSError):
            self._end_line()

    def on(self, event: Narration, stats: Stats) -> None:
        """Show an event."""
        match event:
            case Spoken():
                self._say(event.text)
            case Notice():
                self._notices.append(event.message)
                if not (self._on_screen and self._streams.stderr_is_terminal):
                    self._flush_notices()
            case Finished():
                self._end_line()
                self._flush_notices()
                if self._on_screen and self._streams.stderr_is_terminal:
                    self._streams.note("")
                line = summary(stats, seed=self._run.seed, reason=event.reason, encoding=self._streams.stderr.encoding)
                self._streams.note(line, dim=True)

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
