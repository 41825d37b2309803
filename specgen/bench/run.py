"""The measurement: arms take turns on every prompt, in an order that changes, in one process."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from specgen.bench.arms import Arm, Job, Outcome
from specgen.bench.peak import Peak
from specgen.bench.prompts import Prompt
from specgen.errors import PromptError, SpecgenError
from specgen.models.load import Pair
from specgen.text import encode_prompt

_WARM_UP = 32  # tokens


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Attributes:
        prompts: texts to continue.
        max_tokens: tokens for each at most.
        temperatures: to decode at; 0 is greedy.
        repeats: of everything.
        seed: of the first prompt; the next ones follow, and all arms and repeats have the same.
    """

    prompts: Sequence[Prompt]
    max_tokens: int = 128
    temperatures: Sequence[float] = (0.0,)
    repeats: int = 3
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Started:
    """A run begins.

    Attributes:
        arm: whose.
        temperature: of its sampling.
        prompt: of which prompt.
        repeat: from 1; 0 is the warm-up.
        number: of this run, from 1; 0 in the warm-up.
        total: of all runs.
    """

    arm: str
    temperature: float
    prompt: Prompt
    repeat: int
    number: int
    total: int


@dataclass(frozen=True, slots=True)
class Sample:
    """A run that was measured.

    Attributes:
        arm: whose it is.
        temperature: of its sampling.
        prompt: which one, counted from 0 in the plan.
        category: the prompt's.
        repeat: from 1.
        outcome: what came of it.
        memory: the most that was in use, bytes; None where nobody can tell.
    """

    arm: str
    temperature: float
    prompt: int
    category: str
    repeat: int
    outcome: Outcome
    memory: int | None


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something is left out of the measurement.

    Attributes:
        what: the arm, or the prompt.
        why: the reason, in a line.
        temperature: at which, for an arm.
    """

    what: str
    why: str
    temperature: float | None = None


Event = Started | Sample | Dropped


def order(arms: Sequence[Arm], prompt: int, repeat: int) -> list[Arm]:
    """The arms in the order of their turns.

    It begins with another arm on each prompt and is reversed every other repeat, so that a machine that warms up or
    slows down favours nobody.
    """
    shift = prompt % len(arms)
    turned = [*arms[shift:], *arms[:shift]]
    return turned if repeat % 2 else turned[::-1]


def measure(pair: Pair, arms: Sequence[Arm], plan: Plan) -> Iterator[Event]:
    """Run every arm on every prompt, saying what begins and what was measured.

    A foreign arm that fails is dropped with its reason; a failure of specgen's own ends the measurement.

    Raises:
        PromptError: no prompt fits.
    """
    prompts = []
    for number, prompt in enumerate(plan.prompts):
        count = len(encode_prompt(pair.tokenizer, prompt.content, system=None, chat=pair.profile.chat))
        if count < pair.context:
            prompts.append((number, prompt))
        else:
            yield Dropped(str(prompt), f"it has {count:,} tokens, the context holds {pair.context:,}")
    if not prompts:
        raise PromptError(f"no prompt fits into the context of {pair.context:,} tokens", "give shorter ones: --prompts")
    yield from _Measurement(pair, arms, plan, prompts).run()


@dataclass(slots=True)
class _Measurement:
    pair: Pair
    arms: Sequence[Arm]
    plan: Plan
    prompts: Sequence[tuple[int, Prompt]]
    number: int = 0
    dropped: set[str] = field(default_factory=set)

    def run(self) -> Iterator[Event]:
        for temperature in self.plan.temperatures:
            self.dropped = set()
            yield from self._warm_up(temperature)
            for repeat in range(1, self.plan.repeats + 1):
                for turn, (number, prompt) in enumerate(self.prompts):
                    for arm in order(self.arms, turn, repeat):
                        self.number += 1
                        yield from self._one(arm, self._job(number, prompt, temperature), number, repeat)

    def _job(self, number: int, prompt: Prompt, temperature: float) -> Job:
        sampling = replace(self.pair.profile.sampling, temperature=temperature)
        return Job(prompt, self.plan.max_tokens, sampling, self.plan.seed + number)

    def _warm_up(self, temperature: float) -> Iterator[Event]:
        """Run every arm once: kernels are chosen, files are read, an adaptive lookahead begins to learn."""
        number, prompt = self.prompts[0]
        job = self._job(number, prompt, temperature)
        job = replace(job, max_tokens=min(job.max_tokens, _WARM_UP))
        for arm in self.arms:
            arm.begin()
            yield self._started(arm, job, 0)
            result = self._try(arm, job)
            if isinstance(result, Dropped):
                yield result

    def _one(self, arm: Arm, job: Job, number: int, repeat: int) -> Iterator[Event]:
        if arm.name in self.dropped:
            return
        yield self._started(arm, job, repeat)
        peak = Peak(self.pair.target.device)
        peak.reset()
        result = self._try(arm, job)
        if isinstance(result, Dropped):
            yield result
            return
        category = job.prompt.category
        yield Sample(arm.name, job.sampling.temperature, number, category, repeat, result, peak.read())

    def _started(self, arm: Arm, job: Job, repeat: int) -> Started:
        total = len(self.plan.temperatures) * self.plan.repeats * len(self.prompts) * len(self.arms)
        return Started(arm.name, job.sampling.temperature, job.prompt, repeat, self.number if repeat else 0, total)

    def _try(self, arm: Arm, job: Job) -> Outcome | Dropped:
        if arm.family == "specgen":
            return arm.run(job)
        try:
            return arm.run(job)
        except SpecgenError as error:
            reason = error.message
        except Exception as error:
            logging.getLogger("specgen").info("%s failed", arm.name, exc_info=error)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
        self.dropped.add(arm.name)
        return Dropped(arm.name, reason, job.sampling.temperature)


def complete(samples: Iterable[Sample], arms: Iterable[str], dropped: Iterable[Dropped] = ()) -> list[Sample]:
    """The samples of those prompts and repeats on which every arm was measured, so that all have done the same.

    Args:
        samples: what was measured.
        arms: the names of all arms.
        dropped: those that are left out at their temperature.
    """
    gone = {(one.temperature, one.what) for one in dropped}
    names = set(arms)
    turns: dict[tuple[float, int, int], list[Sample]] = {}
    for sample in samples:
        if (sample.temperature, sample.arm) not in gone:
            turns.setdefault((sample.temperature, sample.prompt, sample.repeat), []).append(sample)
    return [
        sample
        for (temperature, *_), turn in turns.items()
        for sample in turn
        if len(turn) == sum((temperature, name) not in gone for name in names)
    ]
