"""The text side of a run: tokens to whole characters, and stop strings found wherever they fall."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace

from specgen.decoding.events import Decided, Event, Finished, Notice, Prompted, Round
from specgen.decoding.halt import Halt
from specgen.prompt import Tokenizer, encode_prompt

__all__ = ["Detokenizer", "Narration", "Piece", "Speech", "Spoken", "encode_prompt", "narrate"]

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True, slots=True)
class Piece:
    """The text that one committed token completed.

    Attributes:
        text: whole characters; empty while a character or a possible stop string is incomplete, whose text then
            belongs to the token that completes it.
        token: the token.
        accepted: whether it was an accepted draft token; False for the target's own.
    """

    text: str
    token: int
    accepted: bool


@dataclass(frozen=True, slots=True)
class Spoken:
    """A round with its text.

    Attributes:
        round: the round, its tokens cut after the one that completed a stop string.
        pieces: one for every token of the round.
        dropped: the text of the drafts that the target did not keep, the rejected one first; empty where a round was
            cut before it.
    """

    round: Round
    pieces: tuple[Piece, ...]
    dropped: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of all pieces."""
        return "".join(piece.text for piece in self.pieces)


Narration = Prompted | Spoken | Notice | Decided | Finished


class Detokenizer:
    """Turns tokens into text one at a time, whole characters only.

    The text of a few tokens before the new one is decoded with it, because a token's text depends on its neighbours:
    a leading space, a character spread over several tokens. ``tokenizers``' own DecodeStream works alike, but raises
    for good once byte tokens form no character, which a sampled run can produce, and cannot say what it still holds.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._fast = getattr(tokenizer, "backend_tokenizer", None)
        self._window: list[int] = []  # the tokens of the last text given out, then those still waiting
        self._given = 0  # how many of them belong to text given out
        self._prefix = ""  # their text

    @property
    def holding(self) -> bool:
        """Whether tokens wait for the rest of a character."""
        return len(self._window) > self._given

    def step(self, token: int) -> str:
        """Return the text that the token completes."""
        self._window.append(token)
        text = self._decode(self._window)
        if text.endswith(_UNFINISHED):
            return ""
        new = self._new(text)
        if new:
            self._window = self._window[self._given :]
            self._given = len(self._window)
            self._prefix = self._decode(self._window)
        return new

    def preview(self, tokens: Iterable[int]) -> tuple[str, ...]:
        """Return the text that each token would complete if they came next, and stay as it is."""
        other = copy(self)
        other._window = list(self._window)
        return tuple(other.step(token) for token in tokens)

    def flush(self) -> str:
        """Return what is held, an incomplete character as U+FFFD."""
        waiting = self._window[self._given :]
        if not waiting:
            return ""
        names = self._tokenizer.convert_ids_to_tokens(waiting)
        octets = [_BYTE_TOKEN.fullmatch(name or "") for name in names]
        # Decoders with byte tokens write one U+FFFD for each byte of an incomplete character.
        text = (
            bytes(int(octet[1], 16) for octet in octets if octet).decode("utf-8", "replace")
            if all(octets)
            else self._new(self._decode(self._window))
        )
        self._window, self._given, self._prefix = [], 0, ""
        return text

    def _new(self, text: str) -> str:
        if text.startswith(self._prefix):
            return text[len(self._prefix) :]
        # The new tokens changed how the old ones read, as a wrong byte after byte tokens does. What is shown stands.
        return self._decode(self._window[self._given :])

    def _decode(self, ids: list[int]) -> str:
        if self._fast is not None:
            return str(self._fast.decode(ids, skip_special_tokens=False))
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


class Speech:
    """The text so far: hears tokens, holds back what may become a stop string, and says when one is complete.

    Args:
        tokenizer: the target's.
        stops: the text ends before the first of them.
        skip: tokens without text, such as end-of-sequence.
        preview: whether to say what refused drafts would have read.
    """

    def __init__(
        self, tokenizer: Tokenizer, stops: Sequence[str], skip: frozenset[int], *, preview: bool = True
    ) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = tuple(stop for stop in stops if stop)
        self._skip = skip
        self._held = ""
        self._preview = preview
        self.stopped = False

    @property
    def holding(self) -> bool:
        """Whether text is held back."""
        return bool(self._held) or self._detokenizer.holding

    def hear(self, round_: Round) -> Spoken:
        """Return a round with the text that is certain to stay."""
        pieces: list[Piece] = []
        dropped: tuple[str, ...] = ()
        for index, token in enumerate(round_.tokens):
            if self._preview and index == round_.accepted < len(round_.proposed):
                dropped = self._detokenizer.preview(round_.proposed[index:])
            text = "" if token in self._skip else self._detokenizer.step(token)
            pieces.append(Piece(self._release(text), token, accepted=index < round_.accepted))
            if self.stopped:
                round_ = replace(round_, tokens=round_.tokens[: index + 1])
                break
        return Spoken(round_, tuple(pieces), dropped)

    def finish(self) -> str:
        """Return what was held back: nothing can complete it any more."""
        text = self._release(self._detokenizer.flush()) + self._held
        self._held = ""
        return text

    def _release(self, text: str) -> str:
        """Return the text that is certain to stay, and keep the rest."""
        text = self._held + text
        starts = [start for stop in self._stops if (start := text.find(stop)) >= 0]
        if starts:
            self.stopped, self._held = True, ""
            return text[: min(starts)]
        certain = len(text) - max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[certain:]
        return text[:certain]


def _overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of the text are the beginning of the stop string."""
    longest = min(len(text), len(stop) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(stop[:length])), 0)


def narrate(
    events: Iterable[Event], tokenizer: Tokenizer, *, stops: Sequence[str], halt: Halt, skip: frozenset[int]
) -> Iterator[Narration]:
    """Give every round its text, and end the run when a stop string is complete.

    A round whose last characters are held back is passed on only with the next event, so that text which nothing
    completes has a round to belong to. Where the tokens are cut into rounds makes no difference to the text.

    Args:
        events: the engine's.
        tokenizer: the target's.
        stops: the text ends before the first of them; of several that one token completes, before the one that starts
            first.
        halt: its reason becomes ``stop`` when a stop string is complete.
        skip: tokens without text, such as end-of-sequence.

    Yields:
        The events, rounds as ``Spoken``. The text of all pieces together is the text of the run.
    """
    speech = Speech(tokenizer, stops, skip)
    waiting: Spoken | None = None
    source = iter(events)
    while True:
        try:
            event = next(source, None)
        except BaseException:
            if waiting:
                yield waiting
            raise
        match event:
            case Round():
                if waiting:
                    yield waiting
                spoken, waiting = speech.hear(event), None
                if speech.stopped:
                    halt.reason = halt.reason or "stop"
                    yield spoken
                    break
                if speech.holding:
                    waiting = spoken
                else:
                    yield spoken
            case Finished() | None:
                break
            case _:
                yield event
    if waiting:
        last = waiting.pieces[-1]
        yield replace(waiting, pieces=(*waiting.pieces[:-1], replace(last, text=last.text + speech.finish())))
    yield from _ending(event, source, stopped=speech.stopped)


def _ending(event: Event | None, source: Iterator[Event], *, stopped: bool) -> Iterator[Narration]:
    """Let the engine end the run; whatever it still computes after a stop string is not part of it."""
    if not isinstance(event, Finished):
        event = next((later for later in source if isinstance(later, Finished)), None)
    if event is not None:
        yield replace(event, reason="stop") if stopped else event
