"""The Python API: load a pair, then generate or stream.

>>> from specgen import load, generate
>>> pair = load("starter")
>>> generate(pair, "Why is the sky blue?", max_tokens=40).text
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from specgen.decoding.events import FinishReason, Notice
from specgen.decoding.halt import Halt
from specgen.errors import UsageError
from specgen.profile import Profile, Sampling, load_profile, override
from specgen.text import Narration, Piece, Spoken, encode_prompt, narrate

if TYPE_CHECKING:
    from specgen.decoding.engine import Engine, Task
    from specgen.decoding.stats import Stats
    from specgen.models.cached import CachedModel
    from specgen.models.load import Pair
    from specgen.models.progress import Progress

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Request:
    """What to generate; None takes the profile's value.

    Attributes:
        max_tokens: tokens at most.
        sampling: temperature and its companions.
        seed: of the noise; one seed, one text.
        stops: strings that end the text, which is cut before them.
        lookahead: tokens proposed a round; 0 is the target alone.
        system: text of a system message.
        chat: whether to use the tokenizer's chat template.
        baseline: whether to spend a few plain rounds on measuring the target alone.
        acceptance: ``coupled``, ``block`` or ``token``.
        strict: give every pass of the target one constant shape, so that low precision rounds alike with and without a
            draft.
    """

    max_tokens: int = 256
    sampling: Sampling | None = None
    seed: int = 0
    stops: tuple[str, ...] = ()
    lookahead: int | None = None
    system: str | None = None
    chat: bool | None = None
    baseline: bool = True
    acceptance: str | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished text.

    Attributes:
        text: what the target wrote.
        tokens: its ids.
        finish_reason: why it ended.
        stats: counts and times.
        seed: of the noise.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    stats: Stats
    seed: int


def load(
    profile: str | Profile = "starter",
    *,
    overrides: Sequence[str] = (),
    offline: bool = False,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Pair:
    """Load the models of a profile.

    Args:
        profile: a name, a path to a YAML file, or a profile.
        overrides: settings such as ``target.dtype=float16`` that replace the profile's.
        offline: look on this machine only.
        trust_remote_code: run code that comes with a model.
        progress: told what is being loaded.

    Raises:
        SpecgenError: whatever stands in the way, with a hint.
    """
    from specgen.models.load import load_pair
    from specgen.models.progress import silent

    if isinstance(profile, str):
        profile = load_profile(profile, overrides)
    elif overrides:
        profile = override(profile, overrides)
    return load_pair(profile, offline=offline, trust_remote_code=trust_remote_code, progress=progress or silent)


class Session:
    """A conversation that keeps both caches, so that a turn feeds only its new tokens.

    Args:
        pair: the models; a pair serves one session at a time.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._engine: Engine | None = None
        self._kind: tuple[str, int | None, bool] | None = None

    def stream(
        self, prompt: str | Sequence[Message], request: Request | None = None, *, halt: Halt | None = None
    ) -> Iterator[Narration]:
        """Generate from one prompt, round by round; what it shares with the text so far is not computed again.

        Args:
            prompt: a text, or the messages of the whole conversation.
            request: what to generate.
            halt: ends the run after the round in progress.

        Raises:
            PromptError: the prompt is empty or does not fit.
            UsageError: the lookahead is too long for a strict run.
        """
        from specgen.decoding.drafting import lookahead_for
        from specgen.decoding.engine import Task
        from specgen.decoding.rounds import converse

        request, halt, pair = request or Request(), halt or Halt(), self.pair
        chat = pair.profile.chat if request.chat is None else request.chat
        task = Task(
            prompt=encode_prompt(pair.tokenizer, prompt, system=request.system, chat=chat),
            max_tokens=request.max_tokens,
            stop_ids=pair.stop_ids,
            sampling=request.sampling or pair.profile.sampling,
            seed=request.seed,
        )
        if pair.relation.difference and not self._engine and pair.draft is not None:
            yield Notice(_translation(pair))
        if request.strict and not _is_row_invariant(pair.target):
            self._engine = None  # the test used its cache
            yield Notice("this machine's kernels do not treat all rows alike; --strict cannot promise equal bits here")
        engine = self._ready(task, request)
        lookahead = lookahead_for(pair, _lookahead(pair, request), baseline=request.baseline)
        events = converse(engine, task, lookahead=lookahead, halt=halt)
        yield from narrate(events, pair.tokenizer, stops=request.stops, halt=halt, skip=pair.stop_ids)

    def _ready(self, task: Task, request: Request) -> Engine:
        """An engine that suits the request: the one at hand, made larger if need be, or a new one."""
        from specgen.decoding.drafting import drafter
        from specgen.decoding.engine import Engine
        from specgen.decoding.rounds import slots_for
        from specgen.models.strict import COLUMNS

        pair, k = self.pair, _lookahead(self.pair, request)
        columns = COLUMNS if request.strict else None
        slots = slots_for(task, pair.context, most=k, columns=columns)
        drafting = k > 0
        kind = (request.acceptance or pair.profile.acceptance, columns, drafting)
        if self._engine is None or kind != self._kind:
            self._engine = Engine(
                pair.target, drafter(pair) if drafting else None, rows=1, slots=slots, rule=kind[0], columns=columns
            )
            self._kind = kind
        elif slots > self._engine.rows.slots:
            # Twice as much each time, so that a long conversation copies its caches a few times only.
            self._engine.grow(max(slots, min(2 * self._engine.rows.slots, pair.context + slots - len(task.prompt))))
        return self._engine


def _translation(pair: Pair) -> str:
    way = (
        f"drafting with the {len(pair.relation.pairs):,} tokens that both have"
        if pair.relation.kind == "intersection"
        else "drafts are read again as text"
    )
    return f"draft and target do not share a vocabulary ({pair.relation.difference}); {way}"


def _lookahead(pair: Pair, request: Request) -> int:
    from specgen.models.strict import COLUMNS

    k = pair.profile.lookahead if request.lookahead is None else request.lookahead
    if request.strict and k >= COLUMNS:
        raise UsageError(
            f"--strict has room for a lookahead of {COLUMNS - 1}, not {k}", f"use -k {COLUMNS - 1} or less"
        )
    return k


def _is_row_invariant(target: CachedModel) -> bool:
    from specgen.models.strict import is_row_invariant

    if target.row_invariant is None:
        target.row_invariant = is_row_invariant(target)
    return target.row_invariant


def stream(
    pair: Pair, prompt: str | Sequence[Message], request: Request | None = None, *, halt: Halt | None = None
) -> Iterator[Narration]:
    """Generate from one prompt, round by round.

    Args:
        pair: the models; one run at a time.
        prompt: a text, or chat messages.
        request: what to generate.
        halt: ends the run after the round in progress.

    Raises:
        PromptError: the prompt is empty or does not fit.
        UsageError: the lookahead is too long for a strict run.
    """
    return Session(pair).stream(prompt, request, halt=halt)


def generate(pair: Pair, prompt: str | Sequence[Message], request: Request | None = None, **options: Any) -> Generation:
    """Generate from one prompt and return the whole text.

    Args:
        pair: the models.
        prompt: a text, or chat messages.
        request: what to generate.
        **options: fields of ``Request`` that replace the request's.

    Raises:
        PromptError: the prompt is empty or does not fit.
        UsageError: the lookahead is too long for a strict run.
    """
    from specgen.decoding.stats import Stats

    request = replace(request or Request(), **options)
    stats = Stats()
    pieces: list[Piece] = []
    for event in stream(pair, prompt, request):
        if isinstance(event, Spoken):
            pieces += event.pieces
            stats.add(event.round)
        else:
            stats.add(event)
    assert stats.finish_reason is not None
    return Generation(
        text="".join(piece.text for piece in pieces),
        tokens=tuple(piece.token for piece in pieces),
        finish_reason=stats.finish_reason,
        stats=stats,
        seed=request.seed,
    )
