"""A run from its events to its output: which renderer, with which signals, and the report afterwards."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specgen.cli.environment import Environment
from specgen.cli.signals import halting, repainting
from specgen.decoding.halt import Halt
from specgen.decoding.stats import Stats
from specgen.display.renderer import Renderer, Run
from specgen.display.tally import Tally
from specgen.errors import ExitCode
from specgen.profile import Profile, Sampling
from specgen.text import Narration, Spoken

if TYPE_CHECKING:
    from specgen.api import Request
    from specgen.models.load import Pair

RENDERERS: Mapping[str, tuple[str, str]] = {
    "text": ("specgen.display.plain", "PlainRenderer"),
    "json": ("specgen.display.json_lines", "JsonRenderer"),
    "panel": ("specgen.display.panel", "PanelRenderer"),
}


@dataclass(frozen=True, slots=True)
class Played:
    """A run that was shown.

    Attributes:
        stats: its counts and times.
        tally: more of them.
        text: what it said.
        exit_code: of a signal that ended it, or 0.
    """

    stats: Stats
    tally: Tally
    text: str
    exit_code: int


def choose_form(environment: Environment, *, live: bool | None, json: bool = False) -> str:
    """Return the name of the renderer that suits the streams and the options."""
    if json:
        return "json"
    if live and not environment.can_draw:
        environment.notice("the panel needs a terminal; the text comes without it")
    wanted = environment.panel_wanted if live is None else live and environment.can_draw
    return "panel" if wanted else "text"


def describe_decoding(sampling: Sampling) -> str:
    """Say in a few words how tokens are chosen."""
    return "greedy" if sampling.temperature == 0 else f"temperature {sampling.temperature:g}"


def describe_rule(profile: Profile, request: Request) -> str:
    """Name what decides about drafts."""
    sampling = request.sampling or profile.sampling
    return "greedy" if sampling.temperature == 0 else request.acceptance or profile.acceptance


def describe_translation(pair: Pair) -> str:
    """Say how drafts cross vocabularies, or nothing where both are one."""
    ways = {"intersection": "drafts through common tokens", "text": "drafts through text"}
    return ways.get(pair.relation.kind, "") if pair.draft is not None else ""


def play(environment: Environment, events: Iterable[Narration], run: Run, *, form: str, halt: Halt) -> Played:
    """Show a run as it goes."""
    module, name = RENDERERS[form]
    renderer: Renderer = getattr(importlib.import_module(module), name)(environment, run)
    stats, tally, text = Stats(), Tally(), []
    with halting(halt) as interruption, renderer, repainting(renderer):
        for event in events:
            if isinstance(event, Spoken):
                stats.add(event.round)
                tally.add(event.round)
                text.append(event.text)
            else:
                stats.add(event)
            renderer.on(event, stats)
    return Played(stats, tally, "".join(text), interruption.exit_code or ExitCode.DONE)


def report_on(environment: Environment, played: Played) -> None:
    """Write the report to standard error."""
    from specgen.display.report import report

    for line in report(played.stats, played.tally, encoding=environment.stderr.encoding):
        environment.note(line)
