"""``verify``: the rules' laws, then every case against the target alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from time import perf_counter

from specgen.decoding.engine import Task
from specgen.errors import UsageError
from specgen.models.load import Pair
from specgen.models.strict import COLUMNS, is_row_invariant
from specgen.profile import Sampling
from specgen.text import encode_prompt
from specgen.verify.distribution import check_laws
from specgen.verify.numeric import Opinion, explain, opinions
from specgen.verify.path import Decoder, Text
from specgen.verify.report import Case, CaseResult, Divergence, LawCheck, Report, Source, Token

PROMPTS = (
    "Explain how a bicycle stays upright while it is moving.",
    "Write a Python function that merges two sorted lists.",
    "List the planets of the solar system with one fact about each.",
    "Tell a short story about a lighthouse keeper and a lost boat.",
    "Translate into French: The train to Lyon leaves at nine, and we are late.",
    "Why do leaves change their colour in autumn?",
)
"""Prose, code, lists and another language: short, so that most of the time goes into what is compared."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to verify.

    Attributes:
        prompts: texts to continue.
        max_tokens: tokens for each at most.
        temperatures: to decode at; 0 is greedy.
        lookaheads: tokens proposed a round.
        rows: prompts side by side.
        seed: of the first prompt; the next ones follow.
        strict: give every pass of the target one shape, and expect equal bits.
        thorough: every combination, instead of a few that meet every value once.
    """

    prompts: Sequence[str] = PROMPTS
    max_tokens: int = 32
    temperatures: Sequence[float] = (0.0, 0.8)
    lookaheads: Sequence[int] = (1, 2, 4, 8)
    rows: Sequence[int] = (1, 2, 4)
    seed: int = 0
    strict: bool = False
    thorough: bool = False

    def __post_init__(self) -> None:
        if self.strict and max(self.lookaheads) >= COLUMNS:
            raise UsageError(
                f"--strict has room for a lookahead of {COLUMNS - 1}, not {max(self.lookaheads)}",
                f"use -k {COLUMNS - 1} or less",
            )


@dataclass(frozen=True, slots=True)
class Step:
    """What is done next."""

    message: str


def cases(request: Request, temperature: float, *, drafted: bool) -> list[Case]:
    """The ways of decoding at one temperature.

    Args:
        request: lookaheads and rows.
        temperature: of all of them.
        drafted: whether the pair has a draft; without one tokens are looked up in the text.
    """
    lookaheads, rows = [k for k in request.lookaheads if k], list(request.rows)
    alone = [Case("none", temperature, 0, count) for count in rows if count > 1]
    first: Source = "draft" if drafted else "lookup"
    controls: tuple[Source, ...] = ("self", "random")
    if request.thorough:
        every = list(product(lookaheads, rows))
        return [Case(source, temperature, k, count) for source in (first, *controls) for k, count in every] + alone
    chosen = [Case(first, temperature, k, rows[i % len(rows)]) for i, k in enumerate(lookaheads)]
    if lookaheads:
        middle = lookaheads[len(lookaheads) // 2]
        chosen += [Case(source, temperature, middle, rows[(i + 1) % len(rows)]) for i, source in enumerate(controls)]
    return chosen + alone[-1:]


def verify(pair: Pair, request: Request) -> Iterator[Step | LawCheck | CaseResult | Report]:
    """Verify a pair, saying what is done and what was found as it goes; the last thing is the report.

    Raises:
        PromptError: a prompt is empty or does not fit.
    """
    start = perf_counter()
    yield Step("output laws of the acceptance rules, enumerated")
    laws = []
    for law in check_laws():
        laws.append(law)
        yield law
    invariant = None
    if request.strict:
        yield Step("whether this machine's kernels treat all rows alike")
        invariant = is_row_invariant(pair.target)
    comparison = _Comparison(pair, request, exact=bool(invariant))
    results = []
    for temperature in request.temperatures:
        yield Step(f"target alone, temperature {temperature:g}: the reference")
        comparison.refer(temperature)
        for case in cases(request, temperature, drafted=pair.draft is not None):
            yield Step(str(case))
            result = comparison.run(case)
            results.append(result)
            yield result
    yield Report(
        profile=pair.profile.name,
        models=pair.describe(),
        rule=pair.profile.acceptance,
        dtype=str(pair.target.model.dtype).removeprefix("torch."),
        translation=pair.relation.kind if pair.draft is not None else None,
        prompts=len(request.prompts),
        max_tokens=request.max_tokens,
        seed=request.seed,
        strict=request.strict,
        row_invariant=invariant,
        tolerance=explain(pair.target.model.dtype),
        laws=tuple(laws),
        cases=tuple(results),
        seconds=perf_counter() - start,
    )


@dataclass(slots=True)
class _Comparison:
    """Runs of a pair against its target alone.

    Attributes:
        pair: the models.
        request: what to verify.
        exact: whether passes of one shape give equal bits here, so that nothing is excused in a strict run of one row.
    """

    pair: Pair
    request: Request
    exact: bool
    _prompts: list[tuple[int, ...]] = field(init=False)
    _decoder: Decoder = field(init=False)
    _references: list[Text] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        profile = self.pair.profile
        self._prompts = [
            encode_prompt(self.pair.tokenizer, prompt, system=None, chat=profile.chat)
            for prompt in self.request.prompts
        ]
        self._decoder = Decoder(
            self.pair, self._tasks(0.0), most=max(self.request.lookaheads), strict=self.request.strict
        )

    def _tasks(self, temperature: float) -> list[Task]:
        # No cut such as top-p: a token at its edge comes and goes by rounding, at any gap.
        return [
            Task(
                prompt=prompt,
                max_tokens=self.request.max_tokens,
                stop_ids=self.pair.stop_ids,
                sampling=Sampling(temperature=temperature),
                seed=self.request.seed + i,
            )
            for i, prompt in enumerate(self._prompts)
        ]

    def refer(self, temperature: float) -> None:
        """Decode with the target alone, one row at a time."""
        self._references = list(self._decoder.decode(Case("none", temperature, 0, 1), self._tasks(temperature)))

    def run(self, case: Case) -> CaseResult:
        """Decode in one way, and account for every difference from the reference."""
        tasks = self._tasks(case.temperature)
        texts = list(self._decoder.decode(case, tasks))
        divergences: list[Divergence] = []
        for number, (task, text, reference) in enumerate(zip(tasks, texts, self._references, strict=True), 1):
            refused = text.refused if case.source == "self" else {}
            if text.tokens != reference.tokens or refused:
                found = opinions(
                    self.pair.target,
                    task,
                    text.tokens,
                    refused=refused,
                    slots=self._decoder.slots,
                    columns=self._decoder.columns,
                )
                divergences += [self._divergence(number, opinion, text, case) for opinion in found]
        return CaseResult(
            case=case,
            texts=len(texts),
            equal=sum(a.tokens == b.tokens for a, b in zip(texts, self._references, strict=True)),
            tokens=sum(len(text.tokens) for text in texts),
            proposed=sum(text.proposed for text in texts),
            tested=sum(text.tested for text in texts),
            accepted=sum(text.accepted for text in texts),
            divergences=tuple(divergences),
        )

    def _divergence(self, prompt: int, opinion: Opinion, text: Text, case: Case) -> Divergence:
        emitted = text.tokens[opinion.position] == opinion.token
        margin = 0.0 if self.exact and case.rows == 1 else opinion.margin
        return Divergence(
            prompt=prompt,
            position=opinion.position,
            what="emitted" if emitted else "refused",
            token=self._token(opinion.token),
            reference=self._token(opinion.choice),
            gap=opinion.gap,
            top_two=opinion.top_two,
            margin=margin,
            kind="tie" if opinion.gap <= margin else "fault",
        )

    def _token(self, token: int) -> Token:
        return Token(token, self.pair.tokenizer.decode([token]))
