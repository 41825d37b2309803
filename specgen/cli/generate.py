"""``specgen generate``: one prompt in, text out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from specgen.cli.environment import Environment
from specgen.cli.inputs import read_prompt
from specgen.cli.logs import library_messages
from specgen.cli.options import Count, Number, common_options, option, pass_environment
from specgen.cli.signals import halting
from specgen.decoding.halt import Halt
from specgen.display.json_lines import JsonRenderer
from specgen.display.loading import BarProgress, LineProgress
from specgen.display.plain import PlainRenderer
from specgen.display.renderer import Renderer, Run, Streams
from specgen.errors import UsageError
from specgen.profile import Profile, Sampling, load_profile
from specgen.text import Spoken

if TYPE_CHECKING:
    from specgen.api import Request
    from specgen.models.load import Pair

RENDERERS: Mapping[str, Callable[[Streams, Run], Renderer]] = {
    "text": PlainRenderer,
    "json": JsonRenderer,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The command's options; None where the profile decides."""

    profile: str
    system: str | None
    raw: bool
    max_tokens: int
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    seed: int | None
    stop: tuple[str, ...]
    lookahead: int | None
    baseline: str
    json: bool
    set: tuple[str, ...]
    device: str | None
    offline: bool
    trust_remote_code: bool

    def __post_init__(self) -> None:
        if self.raw and self.system is not None:
            raise UsageError(
                "--raw leaves out the chat template, and with it the place for --system",
                "put the instructions into the prompt",
            )
        if "" in self.stop:
            raise UsageError("a stop string cannot be empty", '--stop "END"')

    def on_device(self, profile: Profile) -> Profile:
        """Return the profile with both models where ``--device`` says."""
        if self.device is None:
            return profile
        draft = profile.draft and replace(profile.draft, device=self.device)
        return replace(profile, target=replace(profile.target, device=self.device), draft=draft)

    def sampling(self, profile: Profile) -> Sampling:
        """Return the profile's sampling, with what was given in its place."""
        names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
        return replace(
            profile.sampling, **{name: value for name in names if (value := getattr(self, name)) is not None}
        )


@click.command("generate")
@click.argument("prompt", nargs=-1)
@option("-p", "--profile", default="starter", show_default=True, metavar="NAME|PATH", help="The pair of models.")
@option("-s", "--system", metavar="TEXT", help="System message.")
@option("--raw", is_flag=True, help="Give the prompt as it is, without the chat template.")
@option(
    "-n",
    "--max-tokens",
    type=Count(min=1),
    default=256,
    show_default=True,
    metavar="N",
    help="Tokens to generate at most.",
)
@option(
    "-t",
    "--temperature",
    "--temp",
    "temperature",
    type=Number(min=0),
    metavar="X",
    help="0 takes the likeliest token; above, tokens are sampled.  [default: the profile's]",
)
@option("--top-k", type=Count(min=0), metavar="N", help="Sample from the N likeliest tokens; 0 is off.")
@option(
    "--top-p",
    type=Number(min=0, max=1, min_open=True),
    metavar="X",
    help="Sample from the likeliest tokens that make up X; 1 is off.",
)
@option(
    "--min-p",
    type=Number(min=0, max=1),
    metavar="X",
    help="Sample from tokens at least X times as likely as the likeliest; 0 is off.",
)
@option(
    "--repetition-penalty",
    type=Number(min=0, min_open=True),
    metavar="X",
    help="Above 1, tokens that are already there become less likely.",
)
@option(
    "--seed",
    type=Count(min=0, max=2**63 - 1),
    metavar="N",
    help="One seed, one text, with any draft and lookahead.  [default: random, reported]",
)
@option("--stop", multiple=True, metavar="TEXT", help="End the text before TEXT; may be given several times.")
@option(
    "-k",
    "--lookahead",
    type=Count(min=0),
    metavar="N",
    help="Draft tokens proposed a round; 0 is the target alone.  [default: the profile's]",
)
@option(
    "--baseline",
    type=click.Choice(["auto", "off"]),
    default="auto",
    show_default=True,
    help="Begin with rounds of the target alone, so that the speedup is measured; their tokens are kept.",
)
@option("--json", is_flag=True, help="Write one JSON object with the text and its statistics.")
@option(
    "--set",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a profile's key, as in target.dtype=float16; may be given several times.",
)
@option("--device", metavar="NAME", help="Where both models run: auto, cpu, cuda, cuda:1, mps, xpu.")
@option("--offline", is_flag=True, help="Use only what is on this machine.")
@option(
    "--trust-remote-code",
    is_flag=True,
    allow_from_autoenv=False,
    help="Run Python code that comes with a model. Never set by a profile or a variable.",
)
@common_options
@pass_environment
def command(environment: Environment, /, prompt: tuple[str, ...], **options: Any) -> int:
    """Generate text with a target model, made faster by a draft.

    Text goes to standard output as it is accepted, everything else to standard error. With a PROMPT, standard input is
    not read; - stands for all of it.

    \b
    Examples:
      specgen generate "Explain speculative decoding in one sentence."
      specgen generate -p qwen-coder-7b-0.5b -n 400 "Write a binary search."
      specgen generate -t 0.8 --seed 7 "Write a limerick about caches."
      specgen generate "Summarise this:" - < notes.txt > summary.txt
      specgen generate --json "Name three rivers." | jq .tokens_per_second
    """  # noqa: D301 - click wants the character
    settings = Settings(**options)
    return generate(environment, read_prompt(prompt, environment), settings)


def generate(environment: Environment, prompt: str, settings: Settings) -> int:
    """Load the pair, run the prompt, and return the exit code."""
    from specgen.api import Request

    profile = settings.on_device(load_profile(settings.profile, settings.set, env=environment.variables))
    request = Request(
        max_tokens=settings.max_tokens,
        sampling=settings.sampling(profile),
        seed=environment.draw_seed() if settings.seed is None else settings.seed,
        stops=settings.stop,
        lookahead=settings.lookahead,
        system=settings.system,
        chat=False if settings.raw else None,
        baseline=settings.baseline == "auto",
    )
    with library_messages(environment):
        pair = _load(environment, profile, settings)
        return _run(environment, pair, prompt, request, form="json" if settings.json else "text")


def _load(environment: Environment, profile: Profile, settings: Settings) -> Pair:
    from specgen import api

    progress = (
        BarProgress(environment.stderr, colored=environment.colored(terminal=True))
        if environment.animated
        else LineProgress(environment.detail)
    )
    environment.detail(f"profile {profile.name}" + (f" from {profile.source}" if profile.source else ""))
    pair = api.load(
        profile,
        offline=settings.offline,
        trust_remote_code=settings.trust_remote_code,
        progress=progress,
    )
    environment.detail(pair.describe())
    return pair


def _run(environment: Environment, pair: Pair, prompt: str, request: Request, *, form: str) -> int:
    from specgen import api
    from specgen.decoding.stats import Stats

    run = Run(pair.profile.name, request.seed, _fingerprint(prompt, pair.profile, request))
    halt, stats = Halt(), Stats()
    with halting(halt) as interruption, RENDERERS[form](environment, run) as renderer:
        for event in api.stream(pair, prompt, request, halt=halt):
            stats.add(event.round if isinstance(event, Spoken) else event)
            renderer.on(event, stats)
    return interruption.exit_code or 0


def _fingerprint(prompt: str, profile: Profile, request: Request) -> str:
    """Return a hash of everything that decides the text."""
    what = (prompt, replace(profile, source=None), request)
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]
