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
from specgen.profile import AUTO, Profile, Sampling, load_profile, most_proposed, override
from specgen.text import Narration, Piece, Spoken, encode_prompt, narrate

if TYPE_CHECKING:
    from specgen.decoding.engine import Engine, Task
    from specgen.decoding.lookahead import Lookahead
    from specgen.decoding.proposers import Proposer
    from specgen.decoding.stats import Stats
    from specgen.learned import Learned
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
        lookahead: tokens proposed a round, or ``auto`` for what measuring makes of it; 0 is the target alone.
        drafts: where proposals come from: ``draft``, ``lookup`` (the text itself), ``both``, or ``auto``, which is both
            when the lookahead is ``auto`` and the draft otherwise; without a draft it is the lookup.
        corpus: texts in which the lookup looks besides prompt and output.
        system: text of a system message.
        chat: whether to use the tokenizer's chat template.
        baseline: whether a fixed lookahead spends a few plain rounds on measuring the target alone.
        acceptance: ``coupled``, ``block`` or ``token``.
        strict: give every pass of the target one constant shape, so that low precision rounds alike with and without a
            draft.
    """

    max_tokens: int = 256
    sampling: Sampling | None = None
    seed: int = 0
    stops: tuple[str, ...] = ()
    lookahead: int | str | None = None
    drafts: str = "auto"
    corpus: tuple[str, ...] = ()
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
    threads: int | None = None,
    progress: Progress | None = None,
) -> Pair:
    """Load the models of a profile.

    Args:
        profile: a name, a path to a YAML file, or a profile.
        overrides: settings such as ``target.dtype=float16`` that replace the profile's.
        offline: look on this machine only.
        trust_remote_code: run code that comes with a model.
        threads: threads of the CPU's kernels, for the whole process; None leaves it to ``OMP_NUM_THREADS``, or else to
            the cores that this process may use.
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
    return load_pair(
        profile,
        offline=offline,
        trust_remote_code=trust_remote_code,
        threads=threads,
        progress=progress or silent,
    )


class Session:
    """A conversation that keeps both caches, so that a turn feeds only its new tokens.

    Args:
        pair: the models; a pair serves one session at a time.
        memory: where what adaptive lookahead learns is kept for later runs; without one, it lasts for the session.
    """

    def __init__(self, pair: Pair, memory: Learned | None = None) -> None:
        self.pair = pair
        self._memory = memory
        self._engine: Engine | None = None
        self._kind: tuple[object, ...] | None = None
        self._said: set[str] = set()
        self._learned: Mapping[str, Any] | None = memory.load() if memory is not None else None

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
        if request.strict and pair.target.row_invariant is None:
            self._engine = None  # the test uses its cache
        for caution in cautions(pair, request):
            if caution not in self._said:
                self._said.add(caution)
                yield Notice(caution)
        wanted, most = lookahead_of(pair.profile, request)
        lookahead = lookahead_for(pair, wanted, baseline=request.baseline, most=most, learned=self._learned)
        engine = self._ready(task, request, most)
        events = converse(engine, task, lookahead=lookahead, halt=halt)
        try:
            yield from narrate(events, pair.tokenizer, stops=request.stops, halt=halt, skip=pair.stop_ids)
        finally:
            self._learn(lookahead)

    def forget(self) -> None:
        """Drop the caches, as when another session has used the pair; what was learned stays."""
        self._engine = None

    def _learn(self, lookahead: Lookahead) -> None:
        from specgen.decoding.adaptive import AdaptiveLookahead

        if isinstance(lookahead, AdaptiveLookahead):
            self._learned = lookahead.as_data()
            if self._memory is not None:
                self._memory.save(self._learned)

    def _ready(self, task: Task, request: Request, most: int) -> Engine:
        """An engine that suits the request: the one at hand, made larger if need be, or a new one."""
        from specgen.decoding.engine import Engine
        from specgen.decoding.rounds import slots_for
        from specgen.models.strict import COLUMNS

        pair, columns = self.pair, COLUMNS if request.strict else None
        slots = slots_for(task, pair.context, most=most, columns=columns)
        rule = request.acceptance or pair.profile.acceptance
        kind = (rule, columns, most > 0, drafts_of(pair, request), request.corpus)
        if self._engine is None or kind != self._kind:
            self._engine = Engine(
                pair.target,
                proposer_for(pair, request) if most else None,
                rows=1,
                slots=slots,
                rule=rule,
                columns=columns,
            )
            self._kind = kind
        elif slots > self._engine.rows.slots:
            # Twice as much each time, so that a long conversation copies its caches a few times only.
            self._engine.grow(max(slots, min(2 * self._engine.rows.slots, pair.context + slots - len(task.prompt))))
        return self._engine


def cautions(pair: Pair, request: Request) -> Iterator[str]:
    """Yield what to know of a run before it begins; a strict one tests the kernels in the target's cache."""
    if pair.relation.difference and pair.draft is not None:
        yield _translation(pair)
    if request.strict and not _is_row_invariant(pair.target):
        yield "this machine's kernels do not treat all rows alike; --strict cannot promise equal bits here"


def _translation(pair: Pair) -> str:
    way = (
        f"drafting with the {len(pair.relation.pairs):,} tokens that both have"
        if pair.relation.kind == "intersection"
        else "drafts are read again as text"
    )
    return f"draft and target do not share a vocabulary ({pair.relation.difference}); {way}"


def lookahead_of(profile: Profile, request: Request) -> tuple[int | str, int]:
    """The lookahead that a request asks for, and the most tokens that a round then proposes.

    Raises:
        UsageError: it is too long for a strict run.
    """
    wanted = profile.lookahead if request.lookahead is None else request.lookahead
    most = most_proposed(wanted)
    if not request.strict:
        return wanted, most
    from specgen.models.strict import COLUMNS

    if wanted == AUTO:
        most = COLUMNS - 1
    if most >= COLUMNS:
        raise UsageError(
            f"--strict has room for a lookahead of {COLUMNS - 1}, not {most}", f"use -k {COLUMNS - 1} or less"
        )
    return wanted, most


def drafts_of(pair: Pair, request: Request) -> str:
    """Where a request's proposals come from: ``draft``, ``lookup`` or ``both``.

    Raises:
        UsageError: the pair has no draft, or a corpus is given and nothing looks into it.
    """
    if pair.draft is None and request.drafts in ("draft", "both"):
        raise UsageError(f"{pair.profile.name} has no draft model", "--drafts lookup, or a profile with a draft")
    if pair.draft is None:
        return "lookup"
    drafts = request.drafts
    if drafts == AUTO:
        drafts = "both" if lookahead_of(pair.profile, request)[0] == AUTO else "draft"
    if request.corpus and drafts == "draft":
        raise UsageError("only a lookup reads --lookup-corpus, and the draft model proposes alone", "--drafts both")
    return drafts


def proposer_for(pair: Pair, request: Request) -> Proposer:
    """What proposes tokens for a request."""
    from specgen.decoding.drafting import drafter

    corpus = [pair.tokenizer(text, add_special_tokens=False)["input_ids"] for text in request.corpus]
    return drafter(pair, drafts_of(pair, request), corpus)


def _is_row_invariant(target: CachedModel) -> bool:
    from specgen.models.strict import is_row_invariant

    if target.row_invariant is None:
        target.row_invariant = is_row_invariant(target)
    return target.row_invariant


def stream(
    pair: Pair,
    prompt: str | Sequence[Message],
    request: Request | None = None,
    *,
    halt: Halt | None = None,
    memory: Learned | None = None,
) -> Iterator[Narration]:
    """Generate from one prompt, round by round.

    Args:
        pair: the models; one run at a time.
        prompt: a text, or chat messages.
        request: what to generate.
        halt: ends the run after the round in progress.
        memory: where what adaptive lookahead learns is kept for later runs.

    Raises:
        PromptError: the prompt is empty or does not fit.
        UsageError: the lookahead is too long for a strict run.
    """
    return Session(pair, memory).stream(prompt, request, halt=halt)


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
