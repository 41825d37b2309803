"""``specgen replay``: a recorded run in the panel, without any model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from specgen.cli.environment import Environment
from specgen.cli.options import Number, common_options, option, pass_environment
from specgen.cli.output import choose_form, play, report_on
from specgen.decoding.events import Finished
from specgen.decoding.halt import Halt
from specgen.display.trace import TraceError, read_trace
from specgen.text import Narration

_GLANCE = 0.05  # how soon Ctrl-C is noticed


@click.command("replay")
@click.argument("trace", type=click.Path(dir_okay=False))
@option(
    "--speed",
    type=Number(min=0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="X",
    help="Play X times as fast as the run was.",
)
@option("--live/--no-live", default=None, help="Show the panel while text comes.  [default: on a terminal]")
@option("--highlight", is_flag=True, help="On a terminal, keep accepted drafts marked in the text.")
@option("--stats", is_flag=True, help="Report afterwards where tokens and time went.")
@option("--json", is_flag=True, help="Write one JSON object with the text and its statistics, at once.")
@common_options
@pass_environment
def command(
    environment: Environment,
    /,
    trace: str,
    *,
    speed: float,
    live: bool | None,
    highlight: bool,
    stats: bool,
    json: bool,
) -> int:
    """Play a run that was recorded with --trace, without any model.

    Numbers are those of the recorded run, whatever the speed.

    \b
    Examples:
      specgen generate --trace run.jsonl "Count to twenty."
      specgen replay run.jsonl
      specgen replay --speed 4 --stats run.jsonl
    """  # noqa: D301 - click wants the character
    form = choose_form(environment, live=live, json=json)
    try:
        file = Path(trace).open(encoding="utf-8", errors="replace")  # noqa: SIM115
    except OSError as error:
        raise TraceError(
            f"cannot read {trace}: {error.strerror}", "specgen generate --trace FILE writes one"
        ) from error
    with file:
        run, events = read_trace(trace, file)
        halt = Halt()
        paced = _paced(environment, events, halt, speed=float("inf") if json else speed)
        played = play(environment, paced, replace(run, highlight=highlight), form=form, halt=halt)
    if stats:
        report_on(environment, played)
    return played.exit_code


def _paced(
    environment: Environment, events: Iterator[tuple[float, Narration]], halt: Halt, *, speed: float
) -> Iterator[Narration]:
    """Let events through when their time has come; a halt ends them."""
    start = environment.clock()
    for at, event in events:
        while not halt.reason and (left := at / speed - (environment.clock() - start)) > 0:
            environment.sleep(min(left, _GLANCE))
        if halt.reason and not isinstance(event, Finished):
            yield Finished(halt.reason, {})
            return
        yield event
