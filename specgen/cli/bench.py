"""``specgen bench``: how much faster a pair is than its target alone, and than others, on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import click

from specgen.cli.environment import Environment
from specgen.cli.loading import load_pair, progress_for
from specgen.cli.logs import library_messages
from specgen.cli.options import Count, Decorated, common_options, option, pass_environment
from specgen.cli.settings import (
    lookaheads_option,
    max_tokens_option,
    on_device,
    place_options,
    profile_option,
    temperature_option,
)
from specgen.errors import ExitCode, UsageError
from specgen.profile import Profile, load_profile

if TYPE_CHECKING:
    from specgen.bench.arms import Arm
    from specgen.bench.prompts import Prompt
    from specgen.bench.report import Report
    from specgen.bench.run import Dropped, Plan, Sample
    from specgen.models.load import Pair

OTHERS = ("transformers", "llama.cpp")
_PIPED = 80  # columns of a report that is not on a terminal


@dataclass(frozen=True, slots=True)
class Settings:
    """The command's options."""

    profile: str
    prompts: str | None
    categories: str | None
    per_category: int | None
    max_tokens: int
    temperature: tuple[float, ...]
    lookahead: tuple[int, ...]
    repeat: int
    seed: int
    against: tuple[str, ...]
    assistant_tokens: tuple[int, ...]
    llama_server: str | None
    llama_model: str | None
    llama_draft: str | None
    json: bool
    plot: str | None
    set: tuple[str, ...]
    device: str | None
    offline: bool
    threads: int | None
    trust_remote_code: bool

    def load_profile(self, environment: Environment) -> Profile:
        """Return the profile, both models where ``--device`` says."""
        return on_device(load_profile(self.profile, self.set, env=environment.variables), self.device)

    def plan(self) -> Plan:
        """Return what to measure."""
        from specgen.bench.run import Plan

        return Plan(
            prompts=read_prompts(self.prompts, self.categories, self.per_category),
            max_tokens=self.max_tokens,
            temperatures=tuple(dict.fromkeys(self.temperature)),
            repeats=self.repeat,
            seed=self.seed,
        )


@dataclass(slots=True)
class Measured:
    """What has been measured so far.

    Attributes:
        samples: the runs.
        dropped: what was left out.
        interrupted: whether more was wanted.
    """

    samples: list[Sample] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    interrupted: bool = False


def read_prompts(path: str | None, categories: str | None, each: int | None) -> tuple[Prompt, ...]:
    """Return the prompts of a file, or the built-in ones."""
    from specgen.bench.prompts import CATEGORIES, built_in, few, from_file

    names = tuple(part.strip() for part in (categories or "").split(",") if part.strip())
    return few(built_in(names or CATEGORIES) if path is None else from_file(path, names), each)


_PROMPTS = (
    option("--prompts", metavar="FILE", help="Prompts: one a line, JSON lines, or Spec-Bench's.  [default: built-in]"),
    option(
        "--categories",
        metavar="A,B",
        help="Only these. Built in are chat, code, summarise, translate, maths and retrieval.",
    ),
)


def measuring_options(*more: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """Add the options that ``bench`` and ``tune`` share; a command's own ones come between them."""

    def add(command: Decorated) -> Decorated:
        for one in reversed((profile_option, *_PROMPTS, *more, *place_options)):
            command = one(command)
        return command

    return add


@click.command("bench")
@measuring_options(
    option("--per-category", type=Count(min=1), metavar="N", help="Prompts a category at most.  [default: all]"),
    max_tokens_option(128, "Tokens to generate for each prompt at most."),
    temperature_option("Decode at X; may be given several times.  [default: 0]", multiple=True, default=(0.0,)),
    lookaheads_option((2, 4, 8), "A fixed lookahead to measure; may be given several times.  [default: 2, 4 and 8]"),
    option(
        "--repeat", type=Count(min=1), default=3, show_default=True, metavar="N", help="Measure everything N times."
    ),
    option(
        "--seed",
        type=Count(min=0, max=2**62),
        default=0,
        show_default=True,
        metavar="N",
        help="Seed of the first prompt; the next ones follow.",
    ),
    option(
        "--against",
        type=click.Choice(OTHERS),
        multiple=True,
        help="Measure this beside specgen; may be given several times.",
    ),
    option(
        "--assistant-tokens",
        type=Count(min=1),
        multiple=True,
        default=tuple(range(2, 9)),
        metavar="N",
        help="A constant number for transformers' assistant; may be given several times.  [default: 2 to 8]",
    ),
    option("--llama-server", metavar="PATH", help="llama.cpp's server program."),
    option("--llama-model", metavar="FILE", help="Its target, a .gguf file.  [default: the profile's]"),
    option("--llama-draft", metavar="FILE", help="Its draft, a .gguf file.  [default: the profile's]"),
    option("--json", is_flag=True, help="Write one JSON object, with every run."),
    option("--plot", metavar="FILE", help="Draw the speedups into an .svg, .png or .pdf file."),
)
@common_options
@pass_environment
def command(environment: Environment, /, **options: Any) -> int:
    """Measure how much faster a pair is than its target alone, and than others.

    On every prompt the target alone, fixed lookaheads, the adaptive one, lookup in the text and both together take
    turns, in an order that changes. Speedups are geometric means over the prompts, with intervals. Other programs tell
    their whole time only, so they are compared by that, the prompt included.

    Ctrl-C ends it with a report of what every arm has done.

    \b
    specgen bench
    specgen bench -p qwen-coder-1.5b-0.5b -t 0 -t 0.8 --plot speedup.svg
    specgen bench --categories code,maths --per-category 2 --against transformers
    """  # noqa: D301 - click wants the character
    settings = Settings(**options)
    with library_messages(environment):
        return bench(environment, settings)


def bench(environment: Environment, settings: Settings) -> int:
    """Measure, show the report, and return the exit code."""
    if settings.plot is not None:
        from specgen.display.bench_plot import check

        check(settings.plot)
    plan, profile = settings.plan(), settings.load_profile(environment)
    if "llama.cpp" in settings.against and settings.llama_server is None:
        raise UsageError("--against llama.cpp needs its server", "--llama-server PATH names the llama-server program")
    pair = load_pair(environment, profile, settings)
    with ExitStack() as stack:
        arms = _arms(environment, settings, pair, stack)
        measured = watch(environment, pair, arms, plan)
    report = report_on(environment, pair, plan, arms, measured, source=settings.prompts or "built-in")
    _show(environment, report, measured.samples, plan, settings)
    return ExitCode.INTERRUPTED if measured.interrupted else ExitCode.DONE


def _arms(environment: Environment, settings: Settings, pair: Pair, stack: ExitStack) -> Sequence[Arm]:
    from specgen.bench.arms import specgen_arms

    arms: list[Arm] = [*specgen_arms(pair, settings.lookahead)]
    if "transformers" in settings.against:
        from specgen.bench.against_transformers import transformers_arms

        arms += transformers_arms(
            pair,
            settings.assistant_tokens,
            progress=progress_for(environment),
            trust_remote_code=settings.trust_remote_code,
        )
    if "llama.cpp" in settings.against:
        import torch

        from specgen.bench.against_llama import find_files, llama_arms

        files = find_files(pair, settings.llama_server, settings.llama_model, settings.llama_draft)
        environment.detail(f"starting {files.server}")
        servers = llama_arms(pair, files, threads=torch.get_num_threads(), context=pair.context)
        arms += stack.enter_context(servers)
    return arms


def watch(environment: Environment, pair: Pair, arms: Sequence[Arm], plan: Plan) -> Measured:
    """Measure, saying on standard error how far it is; Ctrl-C keeps what there is."""
    from specgen.bench.run import Dropped, Sample, Started, measure
    from specgen.display.bench_progress import BenchLine

    measured = Measured()
    line = BenchLine(
        environment.stderr,
        lambda text: environment.note(text, dim=True),
        environment.clock,
        moving=environment.animated,
        columns=environment.size()[0],
    )
    environment.set_aside(line.aside)
    try:
        for event in measure(pair, arms, plan):
            match event:
                case Started():
                    line.started(event)
                case Sample():
                    measured.samples.append(event)
                case Dropped():
                    measured.dropped.append(event)
                    environment.notice(f"left out: {event.what}: {event.why}")
    except KeyboardInterrupt:
        measured.interrupted = True
    finally:
        line.close()
    return measured


def report_on(
    environment: Environment, pair: Pair, plan: Plan, arms: Sequence[Arm], measured: Measured, *, source: str
) -> Report:
    """Add up what was measured."""
    from specgen.bench.provenance import provenance
    from specgen.bench.report import summarise

    if measured.interrupted:
        environment.notice("interrupted; this is what every arm has done")
    return summarise(
        provenance(pair, plan, source),
        arms,
        measured.samples,
        rng=Random(plan.seed),  # noqa: S311 - draws samples, keeps no secrets
        dropped=measured.dropped,
        interrupted=measured.interrupted,
    )


def show_table(environment: Environment, report: Report) -> None:
    """Write the report for people."""
    from specgen.display.bench_table import render
    from specgen.display.look import Look

    on_terminal = environment.stdout_is_terminal
    width = environment.size()[0] if on_terminal else _PIPED
    look = Look(width, environment.colored(terminal=on_terminal), on_terminal and environment.unicode)
    environment.write(render(report, look))


def _show(environment: Environment, report: Report, samples: Sequence[Sample], plan: Plan, settings: Settings) -> None:
    if settings.json:
        from specgen.bench.as_json import as_data
        from specgen.display.json_lines import dump

        environment.write(dump(as_data(report, samples, plan.prompts)) + "\n")
    else:
        show_table(environment, report)
    if settings.plot is not None:
        from specgen.display.bench_plot import plot

        plot(report, settings.plot)
        environment.notice(f"drawn: {settings.plot}")
