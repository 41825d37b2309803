"""``specgen tune``: measure which settings suit a pair on this machine, and write them into a profile of the user's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click

from specgen.cli.bench import measuring_options, read_prompts, report_on, show_table, watch
from specgen.cli.environment import Environment
from specgen.cli.loading import load_pair
from specgen.cli.logs import library_messages
from specgen.cli.options import Count, common_options, option, pass_environment
from specgen.cli.settings import lookaheads_option, max_tokens_option, on_device, temperature_option
from specgen.display.escape import one_line
from specgen.errors import ExitCode, ProfileError, SpecgenError, UsageError
from specgen.files import beside
from specgen.profile import Profile, as_data, config_folder, find, load_profile, to_yaml

if TYPE_CHECKING:
    from specgen.bench.provenance import Provenance
    from specgen.bench.tuning import Decision


@dataclass(frozen=True, slots=True)
class Settings:
    """The command's options."""

    profile: str
    prompts: str | None
    categories: str | None
    per_category: int
    max_tokens: int
    temperature: float | None
    lookahead: tuple[int, ...]
    repeat: int
    name: str | None
    force: bool
    dry_run: bool
    set: tuple[str, ...]
    device: str | None
    offline: bool
    threads: int | None
    trust_remote_code: bool


@click.command("tune")
@measuring_options(
    option(
        "--per-category",
        type=Count(min=1),
        default=2,
        show_default=True,
        metavar="N",
        help="Prompts a category at most.",
    ),
    max_tokens_option(64, "Tokens to generate for each prompt at most."),
    temperature_option("Decode at X.  [default: the profile's]"),
    lookaheads_option((2, 4, 8), "A fixed lookahead to try; may be given several times.  [default: 2, 4 and 8]"),
    option(
        "--repeat", type=Count(min=1), default=2, show_default=True, metavar="N", help="Measure everything N times."
    ),
    option("--name", metavar="NAME", help="Name of the profile to write.  [default: that of the one measured]"),
    option("--force", is_flag=True, help="Replace a profile that is there."),
    option("--dry-run", is_flag=True, help="Measure and decide, but write nothing."),
)
@common_options
@pass_environment
def command(environment: Environment, /, **options: Any) -> int:
    """Measure which lookahead suits a pair on this machine, and write a profile that has it.

    The adaptive lookahead is kept unless a fixed one, or the target alone, was faster beyond the error of the
    measurement. The profile goes into your own folder, where its name is found before the shipped one.

    \b
    specgen tune
    specgen tune -p qwen-coder-1.5b-0.5b --categories code --name my-coder
    """  # noqa: D301 - click wants the character
    settings = Settings(**options)
    with library_messages(environment):
        return tune(environment, settings)


def tune(environment: Environment, settings: Settings) -> int:
    """Measure, decide, write, and return the exit code."""
    from specgen.bench.run import Plan
    from specgen.bench.tuning import candidates, decide

    profile = on_device(load_profile(settings.profile, settings.set, env=environment.variables), settings.device)
    path = _destination(settings.name or profile.name, environment.variables)
    if path.exists() and not (settings.force or settings.dry_run):
        raise UsageError(f"{path} is there already", "--force replaces it, --name NAME writes another one")
    temperature = profile.sampling.temperature if settings.temperature is None else settings.temperature
    prompts = read_prompts(settings.prompts, settings.categories, settings.per_category)
    plan = Plan(prompts, settings.max_tokens, (temperature,), settings.repeat)
    pair = load_pair(environment, profile, settings)
    arms = list(candidates(pair, settings.lookahead))
    measured = watch(environment, pair, arms, plan)
    report = report_on(environment, pair, plan, arms, measured, source=settings.prompts or "built-in")
    show_table(environment, report)
    if measured.interrupted:
        return ExitCode.INTERRUPTED
    decision = decide(measured.samples, settings.lookahead, rng=Random(plan.seed))  # noqa: S311 - no secrets
    assert decision is not None  # a measurement that came to its end has all arms on every prompt
    environment.write(f"\nlookahead: {decision.lookahead}\n  {decision.why()}\n")
    if not settings.dry_run:
        write(path, tuned(profile, decision), comment(report.provenance, decision), replace_it=settings.force)
        environment.write(f"written: {path}\n")
        _mention(environment, path)
    return ExitCode.DONE


def tuned(profile: Profile, decision: Decision) -> Profile:
    """Return the profile with what was found."""
    return replace(profile, lookahead=decision.lookahead)


def comment(of: Provenance, decision: Decision) -> list[str]:
    """Return what the file says of itself."""
    gain = f", {decision.over_alone.value:.2f}x the target alone" if decision.lookahead else ", the target alone"
    what = f"{decision.prompts} prompts ({of.source}) x {of.max_tokens} tokens x {of.repeats}"
    where = f"{of.models}; {of.device}, {of.cpu}, threads: {of.threads}"
    lines = (
        f"Written by specgen tune {of.specgen}: lookahead {decision.lookahead}{gain}.",
        f"{decision.why()}.",
        f"{what}; {where}; torch {of.torch}, transformers {of.transformers}.",
    )
    return [one_line(line) for line in lines]


def _destination(name: str, variables: Mapping[str, str]) -> Path:
    """Where a profile of this name goes.

    Raises:
        UsageError: it is no name of a file.
    """
    if not name or name.startswith(".") or any(char in name for char in "/\\:") or name.endswith((".yaml", ".yml")):
        raise UsageError(f"{name!r} is no name for a profile", "--name my-pair")
    folder = config_folder(variables) / "profiles"
    other = folder / f"{name}.yml"
    return other if other.exists() else folder / f"{name}.yaml"


def write(path: Path, profile: Profile, comments: list[str], *, replace_it: bool) -> None:
    """Write a profile so that the file is there whole or not at all.

    Raises:
        UsageError: it has appeared meanwhile.
        SpecgenError: it cannot be written.
    """
    text = "".join(f"# {line}\n" for line in comments) + to_yaml(as_data(profile))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside(path) as made:
            made.write_text(text, encoding="utf-8")
            _move(made, path, replace_it=replace_it)
    except FileExistsError:
        raise UsageError(f"{path} is there already", "--force replaces it, --name NAME writes another one") from None
    except OSError as error:
        raise SpecgenError(f"cannot write {path}: {error.strerror}", "--dry-run only measures") from None


def _move(made: Path, path: Path, *, replace_it: bool) -> None:
    """Rename; where nothing may be replaced by a link, which fails if the name is taken."""
    if replace_it:
        made.replace(path)
        return
    try:
        os.link(made, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(str(path)) from None
        made.replace(path)


def _mention(environment: Environment, path: Path) -> None:
    """Say how to use the profile, or that another one hides it."""
    with contextlib.suppress(ProfileError):
        first = find(path.stem, env=environment.variables)
        if first.resolve() != path.resolve():
            environment.notice(f"the name {path.stem} still means {first}, which is looked up first")
            return
    environment.notice(f"specgen generate -p {path.stem} uses it")
