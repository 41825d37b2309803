"""What was measured, added up: frozen records, one for each temperature and arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median

from specgen.bench.arms import REFERENCE, Arm, Family, default_arm
from specgen.bench.provenance import Provenance
from specgen.bench.run import Dropped, Sample, complete
from specgen.bench.statistics import Pairs, geometric_mean, interval, quantile, speedup
from specgen.decoding.events import Round

Measure = Callable[[Sample], float | None]
ALL = "all"
FIXED = "fixed"


def decode_speed(sample: Sample) -> float | None:
    """Tokens a second without the prompt's time, where the arm tells it."""
    seconds = sample.outcome.decode_seconds
    return sample.outcome.count / seconds if seconds else None


def whole_speed(sample: Sample) -> float | None:
    """Tokens a second, the prompt's time and all else included."""
    return sample.outcome.count / sample.outcome.seconds if sample.outcome.seconds else None


@dataclass(frozen=True, slots=True)
class Gain:
    """A speedup with its error.

    Attributes:
        value: the geometric mean over the prompts.
        low: the lower end of its 95 % interval; None where there is too little to tell.
        high: the upper end.
    """

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast an arm was.

    Attributes:
        rate: tokens a second, the geometric mean over prompts of their median.
        gain: over the target alone.
        categories: both for every category.
    """

    rate: float
    gain: Gain
    categories: Mapping[str, tuple[float, Gain]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Position:
    """One position of a proposal: how often it was tested, and accepted."""

    tested: int
    accepted: int


@dataclass(frozen=True, slots=True)
class ArmResult:
    """Everything about one arm at one temperature.

    Attributes:
        name: what the tables call it.
        about: what it is.
        family: whose it is.
        group: arms of one group differ in a setting.
        runs: how many were counted.
        tokens: in all of them.
        decode: speed without the prompt; None where the arm gives whole times only.
        whole: speed with everything.
        ttft: median seconds to the first token.
        gap: median seconds between tokens; the tokens of a round share its time.
        gap_95: the 95th percentile of these.
        proposed: draft tokens.
        accepted: of these.
        alpha: accepted of tested.
        mean_accepted_length: tokens a round that had a proposal, the target's own included.
        positions: acceptance by position.
        sources: rounds by where their proposal came from; the empty name is no proposal.
        own_share: of the decoding time outside draft and target.
        memory: the most that was in use, bytes.
        same_text: runs with the same tokens as the target alone.
        compared_text: runs that could be compared.
    """

    name: str
    about: str
    family: Family
    group: str
    runs: int
    tokens: int
    decode: Speed | None
    whole: Speed
    ttft: float | None
    gap: float | None
    gap_95: float | None
    proposed: int | None
    accepted: int | None
    alpha: float | None
    mean_accepted_length: float | None
    positions: tuple[Position, ...]
    sources: Mapping[str, int]
    own_share: float | None
    memory: int | None
    same_text: int
    compared_text: int

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted of proposed."""
        return self.accepted / self.proposed if self.proposed and self.accepted is not None else None


@dataclass(frozen=True, slots=True)
class Finding:
    """One arm beside another.

    Attributes:
        kind: ``best_fixed``, ``worst_fixed`` (the category where it is least against the fixed lookahead that was
            best there), ``worst_plain`` (against the target alone), ``foreign``, or ``foreign_best`` (the best of a
            group).
        arm: the one.
        other: the other.
        category: in which one, or all.
        gain: the one over the other.
        whole: whether whole times were compared, the prompt included.
    """

    kind: str
    arm: str
    other: str
    category: str
    gain: Gain
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """One temperature.

    Attributes:
        temperature: of the sampling; 0 is greedy.
        prompts: how many were measured, at least once by every arm.
        repeats: the most that one of them was.
        categories: in the order of the prompts.
        arms: the target alone first.
        findings: who beats whom.
    """

    temperature: float
    prompts: int
    repeats: int
    categories: tuple[str, ...]
    arms: tuple[ArmResult, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A measurement.

    Attributes:
        provenance: of what, and where.
        results: one a temperature.
        dropped: what was left out, and why.
        interrupted: whether more was wanted.
        default: the arm that is specgen without options.
    """

    provenance: Provenance
    results: tuple[Result, ...]
    dropped: tuple[Dropped, ...]
    interrupted: bool
    default: str


def summarise(
    provenance: Provenance,
    arms: Sequence[Arm],
    samples: Iterable[Sample],
    *,
    rng: Random,
    dropped: Sequence[Dropped] = (),
    interrupted: bool = False,
) -> Report:
    """Add up what was measured; prompts that not every arm has had are left out.

    Args:
        provenance: of what, and where.
        arms: all arms, the target alone among them.
        samples: the runs.
        rng: for the intervals.
        dropped: what was left out.
        interrupted: whether more was wanted.
    """
    kept = complete(samples, (arm.name for arm in arms), dropped)
    results = []
    for temperature in dict.fromkeys(sample.temperature for sample in kept):
        table = Table([sample for sample in kept if sample.temperature == temperature], rng)
        # Above temperature 0 the noise is specgen's own, and only the coupled rule gives one text to one seed.
        coupled = provenance.rule == "coupled"
        one_text = {arm.name for arm in arms if not temperature or (coupled and arm.family == "specgen")}
        results.append(_result(temperature, table, arms, one_text))
    return Report(provenance, tuple(results), tuple(dropped), interrupted, default_arm(arms))


def _result(temperature: float, table: Table, arms: Sequence[Arm], one_text: Collection[str]) -> Result:
    there = [arm for arm in arms if arm.name in table.names]
    return Result(
        temperature=temperature,
        prompts=len(table.prompts),
        repeats=max(sample.repeat for sample in table.samples),
        categories=table.categories,
        arms=tuple(_arm(arm, table, one_text=arm.name in one_text) for arm in there),
        findings=tuple(_findings(table, there, default_arm(there))),
    )


class Table:
    """The samples of one temperature, by arm, prompt and repeat."""

    def __init__(self, samples: Sequence[Sample], rng: Random) -> None:
        self.samples = samples
        self.rng = rng
        self.names = {sample.arm for sample in samples}
        self.prompts = {sample.prompt: sample.category for sample in sorted(samples, key=lambda one: one.prompt)}
        self.categories = tuple(dict.fromkeys(self.prompts.values()))
        self._by_place = {(one.arm, one.prompt, one.repeat): one for one in samples}
        self._repeats = {
            prompt: sorted({sample.repeat for sample in samples if sample.prompt == prompt}) for prompt in self.prompts
        }

    def of(self, arm: str) -> list[Sample]:
        """All runs of an arm."""
        return [sample for sample in self.samples if sample.arm == arm]

    def reference(self, sample: Sample) -> Sample:
        """The target alone on the same prompt in the same repeat."""
        return self._by_place[REFERENCE, sample.prompt, sample.repeat]

    def rate(self, arm: str, measure: Measure, category: str = ALL) -> float:
        """Tokens a second: the geometric mean over prompts of the median over repeats."""
        medians = []
        for prompt, its_category in self.prompts.items():
            if category in (ALL, its_category):
                medians.append(median(one for one in self._speeds(arm, prompt, measure) if one is not None))
        return geometric_mean(medians)

    def gain(self, arm: str, other: str, measure: Measure, category: str = ALL) -> Gain:
        """One arm over another, with its interval."""
        pairs = self.pairs(arm, other, measure, category)
        ends = interval(pairs, self.rng)
        return Gain(speedup(pairs), *ends) if ends else Gain(speedup(pairs))

    def pairs(self, arm: str, other: str, measure: Measure, category: str = ALL) -> list[Pairs]:
        """The speeds of two arms for every prompt and repeat."""
        found: list[Pairs] = []
        for prompt, its_category in self.prompts.items():
            if category in (ALL, its_category):
                both = zip(self._speeds(arm, prompt, measure), self._speeds(other, prompt, measure), strict=True)
                found.append([(one, two) for one, two in both if one is not None and two is not None])
        return found

    def _speeds(self, arm: str, prompt: int, measure: Measure) -> list[float | None]:
        return [measure(self._by_place[arm, prompt, repeat]) for repeat in self._repeats[prompt]]

    def speed(self, arm: str, measure: Measure) -> Speed | None:
        """An arm's speed in all and by category; None if it does not tell."""
        if any(measure(sample) is None for sample in self.of(arm)):
            return None
        return Speed(
            self.rate(arm, measure),
            self.gain(arm, REFERENCE, measure),
            {
                category: (self.rate(arm, measure, category), self.gain(arm, REFERENCE, measure, category))
                for category in self.categories
            },
        )


def _arm(arm: Arm, table: Table, *, one_text: bool) -> ArmResult:
    samples = table.of(arm.name)
    outcomes = [sample.outcome for sample in samples]
    rounds = [played for outcome in outcomes for played in outcome.rounds]
    gaps = [played.seconds / len(played.tokens) for played in rounds for _ in played.tokens]
    first = [outcome.ttft for outcome in outcomes if outcome.ttft is not None]
    memory = [sample.memory for sample in samples if sample.memory is not None]
    compared = [
        outcome.tokens == table.reference(sample).outcome.tokens
        for sample, outcome in zip(samples, outcomes, strict=True)
        if one_text and outcome.tokens is not None
    ]
    whole = table.speed(arm.name, whole_speed)
    assert whole is not None
    positions = _positions(rounds)
    tested = sum(one.tested for one in positions)
    speculative = [played for played in rounds if not played.plain]
    return ArmResult(
        name=arm.name,
        about=arm.about,
        family=arm.family,
        group=arm.group,
        runs=len(samples),
        tokens=sum(outcome.count for outcome in outcomes),
        decode=table.speed(arm.name, decode_speed),
        whole=whole,
        ttft=median(first) if first else None,
        gap=median(gaps) if gaps else None,
        gap_95=quantile(gaps, 0.95) if gaps else None,
        proposed=_sum(outcome.proposed for outcome in outcomes),
        accepted=_sum(outcome.accepted for outcome in outcomes),
        alpha=sum(one.accepted for one in positions) / tested if tested else None,
        mean_accepted_length=1 + sum(p.accepted for p in speculative) / len(speculative) if speculative else None,
        positions=positions,
        sources=Counter(played.source for played in rounds),
        own_share=_own_share(rounds),
        memory=max(memory, default=None),
        same_text=sum(compared),
        compared_text=len(compared),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _positions(rounds: Sequence[Round]) -> tuple[Position, ...]:
    tested: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    for played in rounds:
        for place in range(min(played.accepted + 1, len(played.proposed))):
            tested[place] += 1
            accepted[place] += place < played.accepted
    return tuple(Position(tested[place], accepted[place]) for place in sorted(tested))


def _own_share(rounds: Sequence[Round]) -> float | None:
    seconds = sum(played.seconds for played in rounds)
    models = sum(played.draft_seconds + played.verify_seconds for played in rounds)
    return (seconds - models) / seconds if seconds else None


def _findings(table: Table, arms: Sequence[Arm], default: str) -> Iterable[Finding]:
    fixed = [arm.name for arm in arms if arm.group == FIXED]
    if fixed:
        best = _best(table, fixed, decode_speed)
        yield Finding("best_fixed", default, best, ALL, table.gain(default, best, decode_speed))
        yield min(
            (
                Finding("worst_fixed", default, there, category, table.gain(default, there, decode_speed, category))
                for category in table.categories
                for there in [_best(table, fixed, decode_speed, category)]
            ),
            key=lambda finding: finding.gain.value,
        )
    yield min(
        (
            Finding("worst_plain", default, REFERENCE, category, table.gain(default, REFERENCE, decode_speed, category))
            for category in table.categories
        ),
        key=lambda finding: finding.gain.value,
    )
    for kind, other in _foreign(table, arms):
        yield Finding(kind, default, other, ALL, table.gain(default, other, whole_speed), whole=True)


def _best(table: Table, names: Sequence[str], measure: Measure, category: str = ALL) -> str:
    return max(names, key=lambda name: table.rate(name, measure, category))


def _foreign(table: Table, arms: Sequence[Arm]) -> Iterator[tuple[str, str]]:
    """Arms of others to compare with: those that stand alone, and the best of each group."""
    foreign = [arm for arm in arms if arm.family != "specgen"]
    yield from (("foreign", arm.name) for arm in foreign if not arm.group)
    for group in dict.fromkeys(arm.group for arm in foreign if arm.group):
        names = [arm.name for arm in foreign if arm.group == group]
        yield "foreign_best", _best(table, names, whole_speed)
