"""From lines to jobs: read, checked, told apart by their ids, and skipped when they are done already."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from specgen.batch.items import InputFormat, Item, detect, parse
from specgen.batch.lines import Line, LineReader
from specgen.batch.settings import BadLine
from specgen.decoding.noise import derive
from specgen.errors import PromptError
from specgen.profile import Profile, Sampling
from specgen.text import encode_prompt

if TYPE_CHECKING:
    from specgen.api import Request
    from specgen.decoding.engine import Task
    from specgen.models.load import Pair

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
_SEEDS = 2**63


@dataclass(frozen=True, slots=True)
class Job:
    """An item that is ready to run.

    Attributes:
        item: what was asked for.
        index: its place among the items, from 0.
        task: prompt and limits in tokens.
        stops: strings that end the text.
        fingerprint: of everything that decides the text.
    """

    item: Item
    index: int
    task: Task
    stops: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that has no text.

    Attributes:
        line: its number in the input.
        index: its place among the items, from 0.
        id: its id, if that could be read and is its own.
        code: ``bad_line``, ``duplicate_id``, ``prompt``, ``timeout``, ``out_of_memory``, or ``input`` when it cannot be
            read any further.
        message: what happened.
        fingerprint: of what was asked for, where that is known.
        kind: the item's, see ``Item``.
    """

    line: int
    index: int
    id: str | int | None
    code: str
    message: str
    fingerprint: str | None = None
    kind: str = "line"


def key_of(id_: str | int) -> bytes:
    """Eight bytes that stand for an id; 7 and "7" are one id."""
    return hashlib.blake2b(str(id_).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def row_seed(seed: int, id_: str | int) -> int:
    """The seed of an item: of the run's seed and its id, so that order and neighbours change nothing."""
    return derive(seed, int.from_bytes(key_of(id_), "big")) % _SEEDS


class Preparer:
    """Turns items into jobs.

    Args:
        pair: the models; its tokenizer and context are used.
        request: what the run asks for; an item's own settings win.
    """

    def __init__(self, pair: Pair, request: Request) -> None:
        self._pair, self._request = pair, request
        self._sampling = request.sampling or pair.profile.sampling
        self._base = _what_decides(pair.profile, request)
        self._longest: int | None = None

    def fingerprint(self, item: Item) -> str:
        """A hash of everything that decides the item's text; the seed does only where tokens are sampled."""
        sampling = self._sampling_of(item)
        seed = self._seed(item) if sampling.temperature else None
        settings = (self._system(item), self._max_tokens(item), self._stops(item), item.raw)
        what = (self._base, item.prompt, sampling, seed, settings)
        return hashlib.sha256(repr(what).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def job(self, item: Item, index: int, fingerprint: str) -> Job:
        """Encode an item's prompt.

        Raises:
            PromptError: it is empty, or cannot be said in the chat template, or leaves no room in the context.
        """
        from specgen.decoding.engine import Task

        pair = self._pair
        self._check_size(item)
        chat = not item.raw and (pair.profile.chat if self._request.chat is None else self._request.chat)
        task = Task(
            prompt=encode_prompt(pair.tokenizer, item.prompt, system=self._system(item), chat=chat),
            max_tokens=self._max_tokens(item),
            stop_ids=pair.stop_ids,
            sampling=self._sampling_of(item),
            seed=self._seed(item),
        )
        task.limit(pair.context)
        return Job(item, index, task, self._stops(item), fingerprint)

    def _check_size(self, item: Item) -> None:
        """Refuse what is too long whatever its tokens are, before a tokenizer spends minutes on it."""
        texts = [item.prompt] if isinstance(item.prompt, str) else [m["content"] for m in item.prompt]
        size = sum(map(len, texts))
        if size <= 16 * self._pair.context:
            return
        if self._longest is None:
            self._longest = max(map(len, self._pair.tokenizer.get_vocab()), default=1)
        if size > self._longest * self._pair.context:
            raise PromptError(f"the prompt has {size:,} characters, the context holds {self._pair.context:,} tokens")

    def _sampling_of(self, item: Item) -> Sampling:
        given = {name: item.settings[name] for name in _SAMPLING if name in item.settings}
        own: dict[str, Any] = {name: value if name == "top_k" else float(value) for name, value in given.items()}
        return replace(self._sampling, **own) if own else self._sampling

    def _seed(self, item: Item) -> int:
        own = item.settings.get("seed")
        return row_seed(self._request.seed, item.id) if own is None else int(own)

    def _max_tokens(self, item: Item) -> int:
        return int(item.settings.get("max_tokens", self._request.max_tokens))

    def _stops(self, item: Item) -> tuple[str, ...]:
        stops = item.settings.get("stop", self._request.stops)
        return (stops,) if isinstance(stops, str) else tuple(stops)

    def _system(self, item: Item) -> str | None:
        if item.raw:
            return None
        own = item.settings.get("system")
        if own is not None:
            return str(own)
        said = not isinstance(item.prompt, str) and any(m["role"] == "system" for m in item.prompt)
        return None if said else self._request.system


def _what_decides(profile: Profile, request: Request) -> tuple[object, ...]:
    """The run's part of a fingerprint. Under the coupled rule, drafts and lookahead do not decide anything."""
    rule = request.acceptance or profile.acceptance
    chat = profile.chat if request.chat is None else request.chat
    drafting = None
    if rule != "coupled":
        asked = (request.lookahead, request.drafts, request.corpus)
        drafting = (rule, profile.draft, profile.lookahead, *asked)
    return (profile.target, profile.context, chat, drafting, request.strict)


class Feed:
    """The jobs of a run, as their lines arrive.

    Args:
        reader: of the lines.
        format_: their format; None tells it from the first line.
        done: fingerprints by ``key_of`` their ids, of items that need not run again.
        limit: items to run at most.
    """

    def __init__(
        self,
        reader: LineReader,
        *,
        format_: InputFormat | None = None,
        done: Mapping[bytes, str] | None = None,
        limit: int | None = None,
    ) -> None:
        self.reader, self.format = reader, format_
        self._done = done or {}
        self._left = limit
        self._seen: set[bytes] = set()
        self._first: Line | None = None
        self.preparer: Preparer | None = None
        self._line = 0
        self.read = 0
        self.skipped = 0

    def begin(self, wait: float) -> bool:
        """Wait for the first line and tell the format; False while there is none."""
        self._first = self.reader.take(wait)
        if self._first is not None and self.format is None:
            self.format = detect(self._first)
        return self._first is not None

    @property
    def over(self) -> bool:
        """Whether there are no more jobs."""
        return self._left == 0 or (self._first is None and self.reader.over)

    def next(self, wait: float) -> Job | Failure | None:
        """Return the next job or failure; None when there is none yet, or no more (see ``over``)."""
        assert self.preparer is not None
        assert self.format is not None
        while self._left != 0:
            try:
                line, self._first = self._first or self.reader.take(wait), None
            except OSError as error:  # the items before it are still good
                return Failure(self._line + 1, self.read, None, "input", f"after line {self._line}: {error}")
            if line is None:
                return None
            index, self.read, self._line = self.read, self.read + 1, line.number
            found = self._prepare(line, index, self.preparer, self.format)
            if found is not None:
                if self._left is not None:
                    self._left -= 1
                return found
            self.skipped += 1
        return None

    def _prepare(self, line: Line, index: int, preparer: Preparer, format_: InputFormat) -> Job | Failure | None:
        try:
            item = parse(line, format_)
        except BadLine as error:
            own = error.id if error.id is not None and self._claim(error.id) else None
            return Failure(line.number, index, own, "bad_line", f"line {line.number}: {error.message}", kind=format_)
        if not self._claim(item.id):
            message = f"line {line.number}: the id {str(item.id)[:80]!r} was given before"
            return Failure(line.number, index, None, "duplicate_id", message, kind=item.kind)
        fingerprint = preparer.fingerprint(item)
        if self._done.get(key_of(item.id)) == fingerprint:
            return None
        try:
            return preparer.job(item, index, fingerprint)
        except PromptError as error:
            message = f"line {line.number}: {error.message}"
            return Failure(line.number, index, item.id, "prompt", message, fingerprint, item.kind)

    def _claim(self, id_: str | int) -> bool:
        key = key_of(id_)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def close(self) -> None:
        """Read no more."""
        self.reader.close()
