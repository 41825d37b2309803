"""``specgen generate``: one prompt in, text out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from specgen.cli.batch import run_batch
from specgen.cli.batch_options import BATCH_OPTIONS, BatchSettings
from specgen.cli.environment import Environment
from specgen.cli.inputs import read_prompt
from specgen.cli.loading import load_models
from specgen.cli.logs import library_messages
from specgen.cli.options import common_options, option, pass_environment
from specgen.cli.output import choose_form, describe_decoding, describe_rule, describe_translation, play, report_on
from specgen.cli.settings import Settings, generation_options
from specgen.decoding.halt import Halt
from specgen.display.renderer import Run
from specgen.profile import Profile
from specgen.text import Narration

if TYPE_CHECKING:
    from specgen.api import Request
    from specgen.models.load import Pair


@click.command("generate")
@click.argument("prompt", nargs=-1)
@generation_options(
    option("--json", is_flag=True, help="Write one JSON object with the text and its statistics."),
    option("--trace", metavar="FILE", help="Write every round there, a JSON line each, for specgen replay."),
    option("--raw", is_flag=True, help="Give the prompt as it is, without the chat template."),
    option(
        "--strict",
        is_flag=True,
        help="Give every pass of the target one shape, so that rounding is the same with and without a draft.",
    ),
    *BATCH_OPTIONS,
)
@common_options
@pass_environment
def command(environment: Environment, /, prompt: tuple[str, ...], **options: Any) -> int:
    """Generate text with a target model, made faster by a draft.

    Text goes to standard output as it is accepted, everything else to standard error. With a PROMPT, standard input is
    not read; - stands for all of it. Without one, every line of standard input or of --file is a prompt, and every
    text a JSON line.

    \b
    Examples:
      specgen generate "Explain speculative decoding in one sentence."
      specgen generate -p qwen-coder-7b-0.5b -n 400 "Write a binary search."
      specgen generate -t 0.8 --seed 7 "Write a limerick about caches."
      specgen generate "Summarise this:" - < notes.txt > summary.txt
      specgen generate < prompts.txt > texts.jsonl
      specgen generate -f prompts.jsonl -o texts.jsonl --resume
      specgen generate --json "Name three rivers." | jq .tokens_per_second
      specgen generate --stats --trace run.jsonl "Count to twenty."
    """  # noqa: D301 - click wants the character
    batch = BatchSettings.take(options)
    settings = Settings(**options)
    if batch.wanted(prompt, environment):
        return run_batch(environment, settings, batch)
    return generate(environment, read_prompt(prompt, environment), settings)


def generate(environment: Environment, prompt: str, settings: Settings) -> int:
    """Load the pair, run the prompt, and return the exit code."""
    profile = settings.load_profile(environment)
    request = settings.request(profile, environment.draw_seed() if settings.seed is None else settings.seed)
    form = choose_form(environment, live=settings.live, json=settings.json)
    with library_messages(environment), ExitStack() as files:
        trace = _open_trace(settings.trace, files)
        pair = load_models(environment, profile, settings, prompt=prompt)
        return _run(environment, pair, prompt, request, settings, form=form, trace=trace)


def _run(
    environment: Environment, pair: Pair, prompt: str, request: Request, settings: Settings, *, form: str, trace: Any
) -> int:
    from specgen import api
    from specgen.learned import Learned

    profile, halt = pair.profile, Halt()
    run = Run(
        profile.name,
        request.seed,
        _fingerprint(prompt, profile, request),
        max_tokens=request.max_tokens,
        decoding=describe_decoding(request.sampling or profile.sampling),
        rule=describe_rule(profile, request),
        translation=describe_translation(pair),
        strict=request.strict,
        models=pair.describe(),
        drafts=api.lookahead_of(profile, request)[1] > 0,
        highlight=settings.highlight,
    )
    events: Iterable[Narration] = api.stream(pair, prompt, request, halt=halt, memory=Learned(pair))
    if trace is not None:
        from specgen.display.trace import recorded

        events = recorded(events, trace, run, environment.clock)
    played = play(environment, events, run, form=form, halt=halt)
    if settings.stats:
        report_on(environment, played)
    return played.exit_code


def _open_trace(path: str | None, files: ExitStack) -> Any:
    """Open the trace's file before anything is loaded, so that a wrong path costs no time."""
    if path is None:
        return None
    from specgen.display.trace import open_trace

    return files.enter_context(open_trace(path))


def _fingerprint(prompt: str, profile: Profile, request: Request) -> str:
    """Return a hash of everything that decides the text."""
    what = (prompt, replace(profile, source=None), request)
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]
