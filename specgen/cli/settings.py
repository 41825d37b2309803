"""The options that decide what is generated, shared by the commands that generate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from specgen.cli.completion import profile_names
from specgen.cli.environment import Environment
from specgen.cli.options import Count, Decorated, Lookahead, Number, option
from specgen.errors import UsageError
from specgen.files import read_text
from specgen.profile import ACCEPTANCE_RULES, Profile, Sampling, load_profile

if TYPE_CHECKING:
    from specgen.api import Request

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options' values; None where the profile decides."""

    profile: str
    system: str | None
    max_tokens: int
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    seed: int | None
    stop: tuple[str, ...]
    lookahead: int | str | None
    drafts: str
    lookup_corpus: tuple[str, ...]
    acceptance: str | None
    baseline: str
    set: tuple[str, ...]
    device: str | None
    offline: bool
    threads: int | None
    trust_remote_code: bool
    live: bool | None
    highlight: bool
    stats: bool
    raw: bool = False
    json: bool = False
    strict: bool = False
    skip_memory_check: bool = False
    trace: str | None = None

    def __post_init__(self) -> None:
        if self.raw and self.system is not None:
            raise UsageError(
                "--raw leaves out the chat template, and with it the place for --system",
                "put the instructions into the prompt",
            )
        if "" in self.stop:
            raise UsageError("a stop string cannot be empty", '--stop "END"')

    def load_profile(self, environment: Environment) -> Profile:
        """Return the profile with what was given in its place, both models where ``--device`` says."""
        profile = load_profile(self.profile, self.set, env=environment.variables)
        profile = replace(profile, sampling=self.sampling(profile))
        return on_device(profile, self.device)

    def sampling(self, profile: Profile) -> Sampling:
        """Return the profile's sampling, with what was given in its place."""
        return replace(
            profile.sampling, **{name: value for name in SAMPLING if (value := getattr(self, name)) is not None}
        )

    def request(self, profile: Profile, seed: int) -> Request:
        """Return what to ask the engine for."""
        from specgen.api import Request

        return Request(
            max_tokens=self.max_tokens,
            sampling=profile.sampling,
            seed=seed,
            stops=self.stop,
            lookahead=self.lookahead,
            drafts=self.drafts,
            corpus=tuple(read_text(path, "give the path of a text file") for path in self.lookup_corpus),
            system=self.system,
            chat=False if self.raw else None,
            baseline=self.baseline == "auto",
            acceptance=self.acceptance,
            strict=self.strict,
        )


def on_device(profile: Profile, device: str | None) -> Profile:
    """Return a profile with both models on a device, if one is given."""
    if device is None:
        return profile
    draft = profile.draft and replace(profile.draft, device=device)
    return replace(profile, target=replace(profile.target, device=device), draft=draft)


def max_tokens_option(default: int, about: str = "Tokens to generate at most.") -> Callable[[Decorated], Decorated]:
    """Return the option for the length of a text."""
    return option("-n", "--max-tokens", type=Count(min=1), default=default, show_default=True, metavar="N", help=about)


def temperature_option(about: str, **settings: Any) -> Callable[[Decorated], Decorated]:
    """Return the option for the temperature."""
    names = ("-t", "--temperature", "--temp", "temperature")
    return option(*names, type=Number(min=0), metavar="X", help=about, **settings)


def lookaheads_option(default: tuple[int, ...], about: str, *, least: int = 1) -> Callable[[Decorated], Decorated]:
    """Return the option for several fixed lookaheads; SPECGEN_LOOKAHEAD, which may be auto, does not set it."""
    return option(
        "-k",
        "--lookahead",
        allow_from_autoenv=False,
        type=Count(min=least),
        multiple=True,
        default=default,
        metavar="N",
        help=about,
    )


profile_option = option(
    "-p",
    "--profile",
    default="starter",
    show_default=True,
    metavar="NAME|PATH",
    shell_complete=profile_names,
    help="The pair of models.",
)

_MODELS = (
    profile_option,
    option("-s", "--system", metavar="TEXT", help="System message."),
)
_TEXT = (
    max_tokens_option(256),
    temperature_option("0 takes the likeliest token; above, tokens are sampled.  [default: the profile's]"),
    option("--top-k", type=Count(min=0), metavar="N", help="Sample from the N likeliest tokens; 0 is off."),
    option(
        "--top-p",
        type=Number(min=0, max=1, min_open=True),
        metavar="X",
        help="Sample from the likeliest tokens that make up X; 1 is off.",
    ),
    option(
        "--min-p",
        type=Number(min=0, max=1),
        metavar="X",
        help="Sample from tokens at least X times as likely as the likeliest; 0 is off.",
    ),
    option(
        "--repetition-penalty",
        type=Number(min=0, min_open=True),
        metavar="X",
        help="Above 1, tokens that are already there become less likely.",
    ),
    option(
        "--seed",
        type=Count(min=0, max=2**63 - 1),
        metavar="N",
        help="One seed, one text, with any draft and lookahead.  [default: random, reported]",
    ),
    option("--stop", multiple=True, metavar="TEXT", help="End the text before TEXT; may be given several times."),
    option(
        "-k",
        "--lookahead",
        type=Lookahead(),
        metavar="N|auto",
        help="Tokens proposed a round; auto measures what pays; 0 is the target alone.  [default: the profile's]",
    ),
    option(
        "--drafts",
        type=click.Choice(["auto", "draft", "lookup", "both"]),
        default="auto",
        show_default=True,
        help="Who proposes: the draft model, a lookup in the text itself, or both; auto is both with -k auto.",
    ),
    option(
        "--lookup-corpus",
        multiple=True,
        metavar="FILE",
        help="Look in this text, too; may be given several times.",
    ),
    option(
        "--acceptance",
        type=click.Choice(ACCEPTANCE_RULES),
        metavar="RULE",
        help="How drafts are judged: coupled (one seed, one text), block or token.  [default: the profile's]",
    ),
    option(
        "--baseline",
        type=click.Choice(["auto", "off"]),
        default="auto",
        show_default=True,
        help="With a fixed lookahead, begin with rounds of the target alone, which measure it; their tokens are kept.",
    ),
)
_SHOWN = (
    option(
        "--live/--no-live",
        default=None,
        help="Show the panel while text comes.  [default: on a terminal]",
    ),
    option("--highlight", is_flag=True, help="On a terminal, keep accepted drafts marked in the text."),
    option("--stats", is_flag=True, help="Report afterwards where tokens and time went."),
)
set_option = option(
    "--set",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a profile's key, as in target.dtype=float16; may be given several times.",
)
device_option = option("--device", metavar="NAME", help="Where both models run: auto, cpu, cuda, cuda:1, mps, xpu.")
offline_option = option("--offline", is_flag=True, help="Use only what is on this machine.")
threads_option = option(
    "--threads",
    type=Count(min=1),
    metavar="N",
    help="Threads of the CPU's kernels.  [default: OMP_NUM_THREADS, or the cores that may be used]",
)
trust_option = option(
    "--trust-remote-code",
    is_flag=True,
    allow_from_autoenv=False,
    help="Run Python code that comes with a model. Never set by a profile or a variable.",
)
place_options = (set_option, device_option, threads_option, offline_option, trust_option)
"""Which profile, changed how, and where its models come from and run: what every command that loads them takes."""

_PLACES = (
    set_option,
    device_option,
    threads_option,
    offline_option,
    option("--skip-memory-check", is_flag=True, help="Load the models even if they are not expected to fit."),
    trust_option,
)


def generation_options(*more: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """Add the options of ``Settings``; a command's own ones come after those that decide the text."""

    def add(command: Decorated) -> Decorated:
        for one in reversed((*_MODELS, *_TEXT, *_SHOWN, *more, *_PLACES)):
            command = one(command)
        return command

    return add
