"""What is measured against what: an arm is a way of generating, and gives what it did with one prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal, Protocol

from specgen.api import Request, Session
from specgen.bench.prompts import Prompt
from specgen.decoding.events import FinishReason, Round
from specgen.decoding.stats import Stats
from specgen.models.load import Pair
from specgen.profile import Sampling
from specgen.text import Spoken

Family = Literal["specgen", "transformers", "llama.cpp"]
REFERENCE = "target alone"


@dataclass(frozen=True, slots=True)
class Job:
    """What every arm is asked for.

    Attributes:
        prompt: the prompt.
        max_tokens: tokens at most.
        sampling: the numbers of the warper chain.
        seed: of the noise.
    """

    prompt: Prompt
    max_tokens: int
    sampling: Sampling
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an arm did.

    Attributes:
        prompt_tokens: tokens in the prompt.
        count: tokens generated.
        seconds: from the prompt's text to the last token, whatever comes between them.
        tokens: the ids, where the arm tells them.
        ttft: seconds to the first token, likewise.
        decode_seconds: without the prompt, likewise.
        rounds: of a specgen arm.
        proposed: draft tokens, where the arm counts them.
        accepted: how many of them were kept.
    """

    prompt_tokens: int
    count: int
    seconds: float
    tokens: tuple[int, ...] | None = None
    ttft: float | None = None
    decode_seconds: float | None = None
    rounds: tuple[Round, ...] = ()
    proposed: int | None = None
    accepted: int | None = None
    finish_reason: FinishReason | None = None


class Arm(Protocol):
    """A way of generating."""

    @property
    def name(self) -> str:
        """What the tables call it."""

    @property
    def about(self) -> str:
        """What it is, in a few words."""

    @property
    def family(self) -> Family:
        """Whose it is."""

    @property
    def group(self) -> str:
        """Arms of one group differ in a setting; the best of them is named."""

    def begin(self) -> None:
        """Forget what was learned; a new temperature begins."""

    def run(self, job: Job) -> Outcome:
        """Generate."""


@dataclass(slots=True)
class SpecgenArm:
    """specgen with one request.

    A session is kept from prompt to prompt, with what an adaptive lookahead has learned, as a user's later runs have.

    Attributes:
        pair: the models.
        name: what the tables call it.
        about: what it is.
        request: how it generates.
        group: arms that differ in a setting have one.
        clock: seconds, monotonic.
    """

    pair: Pair
    name: str
    about: str
    request: Request
    group: str = ""
    clock: Callable[[], float] = perf_counter
    family: Family = "specgen"
    _session: Session | None = None

    def begin(self) -> None:
        """Start with a session that has learned nothing."""
        self._session = None

    def run(self, job: Job) -> Outcome:
        """Generate from a cold cache."""
        session = self._session = self._session or Session(self.pair)
        # The arms take turns with one pair of models, whose caches no session may believe to be as it left them.
        session.forget()
        request = replace(self.request, max_tokens=job.max_tokens, sampling=job.sampling, seed=job.seed)
        stats, rounds = Stats(), []
        start = self.clock()
        for event in session.stream(job.prompt.content, request):
            if isinstance(event, Spoken):
                rounds.append(event.round)
                stats.add(event.round)
            else:
                stats.add(event)
        seconds = self.clock() - start
        tokens = tuple(token for played in rounds for token in played.tokens)
        return Outcome(
            prompt_tokens=stats.prompt_tokens,
            count=len(tokens),
            seconds=seconds,
            tokens=tokens,
            ttft=stats.ttft,
            decode_seconds=stats.seconds,
            rounds=tuple(rounds),
            proposed=stats.proposed,
            accepted=stats.accepted,
            finish_reason=stats.finish_reason,
        )


def specgen_arms(
    pair: Pair, lookaheads: Sequence[int], *, clock: Callable[[], float] = perf_counter
) -> Iterator[SpecgenArm]:
    """The target alone, the fixed lookaheads, and the adaptive ones; each is a line here.

    Without a draft all adaptive ones are one, a lookup in the text.

    Args:
        pair: the models.
        lookaheads: the fixed ones.
        clock: seconds, monotonic.
    """
    plain = Request(baseline=False)
    drafted = pair.draft is not None
    fixed = replace(plain, drafts="draft" if drafted else "lookup")
    auto = replace(plain, lookahead="auto", baseline=True)
    source = "draft model" if drafted else "lookup in the text"
    yield SpecgenArm(pair, REFERENCE, "specgen, k = 0", replace(plain, lookahead=0), clock=clock)
    for k in dict.fromkeys(lookaheads):
        if k:
            yield SpecgenArm(
                pair, f"k {k}", f"so many tokens a round, {source}", replace(fixed, lookahead=k), "fixed", clock
            )
    if not drafted:
        yield SpecgenArm(pair, "adaptive", "lookahead auto, lookup in the text: the default", auto, clock=clock)
        return
    yield SpecgenArm(pair, "adaptive", "lookahead auto, draft model", replace(auto, drafts="draft"), clock=clock)
    yield SpecgenArm(pair, "lookup", "lookahead auto, lookup in the text", replace(auto, drafts="lookup"), clock=clock)
    yield SpecgenArm(pair, "combined", "lookahead auto, both: the default", replace(auto, drafts="both"), clock=clock)


def default_arm(arms: Sequence[Arm]) -> str:
    """The arm that is specgen without options."""
    names = [arm.name for arm in arms if arm.family == "specgen"]
    return next((name for name in ("combined", "adaptive") if name in names), names[-1])
