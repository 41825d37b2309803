"""``specgen verify``: proof on the user's own pair that drafts change nothing."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from specgen.cli.environment import Environment
from specgen.cli.loading import load_pair
from specgen.cli.logs import library_messages
from specgen.cli.options import Count, common_options, option, pass_environment
from specgen.cli.settings import (
    device_option,
    lookaheads_option,
    max_tokens_option,
    offline_option,
    on_device,
    profile_option,
    set_option,
    temperature_option,
    threads_option,
    trust_option,
)
from specgen.errors import ExitCode, PromptError
from specgen.files import read_text
from specgen.profile import Profile, load_profile

if TYPE_CHECKING:
    from specgen.models.load import Pair
    from specgen.verify.report import Report
    from specgen.verify.run import Request


@dataclass(frozen=True, slots=True)
class Settings:
    """The command's options."""

    profile: str
    prompts: str | None
    max_tokens: int
    temperature: tuple[float, ...]
    lookahead: tuple[int, ...]
    rows: tuple[int, ...]
    seed: int
    strict: bool
    thorough: bool
    json: bool
    set: tuple[str, ...]
    device: str | None
    offline: bool
    threads: int | None
    trust_remote_code: bool

    def load_profile(self, environment: Environment) -> Profile:
        """Return the profile, both models where ``--device`` says."""
        return on_device(load_profile(self.profile, self.set, env=environment.variables), self.device)

    def request(self) -> Request:
        """Return what to verify."""
        from specgen.verify.run import PROMPTS, Request

        return Request(
            prompts=PROMPTS if self.prompts is None else _read_prompts(self.prompts),
            max_tokens=self.max_tokens,
            temperatures=self.temperature,
            lookaheads=self.lookahead,
            rows=self.rows,
            seed=self.seed,
            strict=self.strict,
            thorough=self.thorough,
        )


@click.command("verify")
@profile_option
@option("--prompts", metavar="FILE", help="Prompts to run, one a line.  [default: six short ones]")
@max_tokens_option(32, "Tokens to generate for each prompt at most.")
@temperature_option("Decode at X; may be given several times.  [default: 0 and 0.8]", multiple=True, default=(0.0, 0.8))
@lookaheads_option(
    (1, 2, 4, 8),
    "Propose N tokens a round; may be given several times; 0 is the reference.  [default: 1, 2, 4 and 8]",
    least=0,
)
@option(
    "--rows",
    type=Count(min=1),
    multiple=True,
    default=(1, 2, 4),
    metavar="N",
    help="Run N prompts side by side; may be given several times.  [default: 1, 2 and 4]",
)
@option(
    "--seed",
    type=Count(min=0, max=2**62),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed of the first prompt; the next ones follow.",
)
@option("--strict", is_flag=True, help="Give every pass of the target one shape, and expect equal bits.")
@option("--thorough", is_flag=True, help="Run every combination, not a few that meet every value once.")
@option("--json", is_flag=True, help="Write one JSON object.")
@set_option
@device_option
@offline_option
@threads_option
@trust_option
@common_options
@pass_environment
def command(environment: Environment, /, **options: Any) -> int:
    """Prove on your own pair that drafts do not change the text.

    The laws of the acceptance rules are enumerated. Then prompts are decoded with the draft, with the target as its
    own draft, with random drafts and in company, and compared with the target alone. Where rounding makes a difference,
    both tokens are listed with the gap between them, as a numeric tie or as a fault.

    Exits with 0 when there is no fault, 1 when there is one.

    \b
    specgen verify
    specgen verify -p qwen-coder-7b-0.5b --prompts prompts.txt -n 128
    specgen verify --strict --rows 1 --json
    """  # noqa: D301 - click wants the character
    settings = Settings(**options)
    with library_messages(environment):
        return verify(environment, settings)


def verify(environment: Environment, settings: Settings) -> int:
    """Load the pair, verify it, show the report, and return the exit code."""
    profile, request = settings.load_profile(environment), settings.request()
    pair = load_pair(environment, profile, settings)
    report = _watch(environment, pair, request)
    _show(environment, report, as_json=settings.json)
    return ExitCode.DONE if report.ok else ExitCode.FAILED


def _watch(environment: Environment, pair: Pair, request: Request) -> Report:
    """Run the checks, saying on standard error what is done."""
    from specgen.verify.report import CaseResult, Report
    from specgen.verify.run import Step, verify

    report: Report | None = None
    for event in verify(pair, request):
        if isinstance(event, Step):
            environment.note(f"specgen: {event.message}", dim=True)
        elif isinstance(event, CaseResult):
            found = f"{event.equal} of {event.texts} texts are equal, {event.ties} ties, {event.faults} faults"
            environment.note(f"  {found}", dim=True)
        elif isinstance(event, Report):
            report = event
    assert report is not None
    return report


def _show(environment: Environment, report: Report, *, as_json: bool) -> None:
    if as_json:
        from specgen.display.json_lines import dump

        data = asdict(report) | {"ok": report.ok, "faults": report.faults, "ties": report.ties}
        environment.write(dump(data) + "\n")
        return
    from specgen.display.verify_table import render

    on_terminal = environment.stdout_is_terminal
    width = shutil.get_terminal_size((100, 24)).columns if on_terminal else 100
    colored = environment.colored(terminal=on_terminal)
    environment.write(render(report, width=width, colored=colored, unicode=on_terminal))


def _read_prompts(path: str) -> tuple[str, ...]:
    prompts = tuple(line for line in read_text(path, "give a file with one prompt a line").splitlines() if line.strip())
    if not prompts:
        raise PromptError(f"{path} holds no prompts", "write one prompt a line")
    return prompts
