"""The report of ``specgen bench`` for people: arms by categories, then what each arm did, then who beats whom."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from specgen.bench.arms import REFERENCE
from specgen.bench.report import ALL, ArmResult, Finding, Gain, Report, Result, Speed
from specgen.display.escape import printable
from specgen.display.look import Look

if TYPE_CHECKING:
    from rich.console import Console

_NARROWEST = 50
_HEAD = 8  # letters of a category's name
_CELL = 2  # columns between two cells
_VALUE = 5  # columns of a number
_DASH = "-"
_PLAIN = "    \n    \n -- \n" + "    \n" * 5  # rich's simple box in ASCII


def render(report: Report, look: Look) -> str:
    """Draw a report."""
    from rich.console import Console

    out = io.StringIO()
    look = Look(max(look.width, _NARROWEST), look.colored, look.unicode)
    console = Console(
        file=out,
        width=look.width,
        force_terminal=look.colored,
        color_system="standard" if look.colored else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    page = _Page(console, look)
    for line in provenance_lines(report):
        page.say(line)
    for line in _legend(report):
        page.say(line)
    for result in report.results:
        _one(page, report, result)
    if not report.results:
        page.say("")
        page.say("no prompt was measured by every arm")
    _left_out(page, report)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def provenance_lines(report: Report) -> Iterator[str]:
    """What ran where: two lines."""
    of = report.provenance
    yield (
        f"{of.profile}: {of.models}; {of.prompts} prompts ({of.source}) x {of.max_tokens} tokens x {of.repeats}, "
        f"seed {of.seed}"
    )
    place = f"{of.device}, " if not of.device.startswith("cpu") else ""
    yield (
        f"{place}{of.cpu}, {of.threads} thread{'s' * (of.threads != 1)}, {of.system}, Python {of.python}, "
        f"torch {of.torch}, transformers {of.transformers}, specgen {of.specgen}"
    )


def _legend(report: Report) -> Iterator[str]:
    """What the arms are; those that differ in a setting only are one."""
    arms = {arm.name: arm for result in report.results for arm in result.arms}
    if arms:
        yield ""
    for about, names in _by_about(arms.values()).items():
        yield f"{', '.join(names)}: {about}"


def _by_about(arms: Iterable[ArmResult]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for arm in arms:
        found.setdefault(arm.about, []).append(arm.name)
    return found


class _Page:
    """Lines and tables within a width."""

    def __init__(self, console: Console, look: Look) -> None:
        self._console = console
        self._look = look
        self.width = look.width

    def say(self, line: str, style: str = "") -> None:
        from rich.text import Text

        for part in wrap(printable(line), self.width, subsequent_indent="  ") or [""]:
            self._console.print(Text(part, style=style), soft_wrap=True)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], strong: str) -> None:
        """Print a table whose first column names an arm; the one that is specgen's default stands out."""
        from rich import box
        from rich.table import Table

        lines = box.SIMPLE_HEAD if self._look.unicode else box.Box(_PLAIN, ascii=True)
        table = Table(box=lines, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for place, head in enumerate(heads):
            table.add_column(head, justify="right" if place else "left", no_wrap=True)
        for row in rows:
            table.add_row(*map(printable, row), style="bold" if row[0] == strong else "")
        self._console.print(table)

    def fitting(self, heads: Sequence[str], first: int) -> int:
        """How many columns fit beside the first one; one at least."""
        left, count = self.width - first, 0
        for head in heads:
            left -= max(len(head), _VALUE) + _CELL
            count += left >= 0
        return max(count, 1)


def _one(page: _Page, report: Report, result: Result) -> None:
    ours = [arm for arm in result.arms if arm.family == "specgen"]
    foreign = len(ours) < len(result.arms)
    how = "greedy" if result.temperature == 0 else f"temperature {result.temperature:g}"
    page.say("")
    page.say(f"{how}: speedup over the target alone, the prompt's time left out", "bold")
    _by_category(page, report, result, [(arm.name, arm.decode) for arm in ours])
    if foreign:
        page.say("")
        page.say(f"{how}: speedup over the target alone, from the prompt's text to the last token", "bold")
        _by_category(page, report, result, [(arm.name, arm.whole) for arm in result.arms])
    page.say("")
    page.say(
        "all prompts: tokens/s without and with the prompt, milliseconds to the first and to the next token", "bold"
    )
    page.table(
        ("arm", "speedup", "95 %", "tok/s", "with", "first", "next", "p95"),
        [_speeds(arm) for arm in result.arms],
        report.default,
    )
    page.say("")
    page.say("drafts, specgen's own share of the time, peak memory, same tokens as the target alone", "bold")
    page.table(
        ("arm", "accepted", "alpha", "/round", "own", "GB", "same"),
        [_drafts(arm) for arm in result.arms],
        report.default,
    )
    _positions(page, report, ours)
    page.say("")
    for finding in result.findings:
        page.say(_found(finding), "green" if finding.gain.value >= 1 else "yellow")


def _by_category(page: _Page, report: Report, result: Result, arms: Sequence[tuple[str, Speed | None]]) -> None:
    """Categories beside each other, in as many tables as the width needs."""
    columns = [(_short(name), name) for name in result.categories] + [(ALL, ALL), ("tok/s", "tok/s")]
    first = max(len(name) for name, _ in arms)
    while columns:
        count = page.fitting([head for head, _ in columns], first)
        here, columns = columns[:count], columns[count:]
        rows = [[name, *(_cell(speed, column) for _, column in here)] for name, speed in arms]
        page.table(["arm", *(head for head, _ in here)], rows, report.default)
        if columns:
            page.say("")


def _short(name: str) -> str:
    name = printable(name)
    return name if len(name) <= _HEAD else name[: _HEAD - 1] + "."


def _cell(speed: Speed | None, column: str) -> str:
    if speed is None:
        return _DASH
    if column == "tok/s":
        return f"{speed.rate:.1f}"
    gain = speed.gain if column == ALL else speed.categories[column][1]
    return f"{gain.value:.2f}x"


def _speeds(arm: ArmResult) -> list[str]:
    best = arm.decode if arm.decode and arm.family == "specgen" else arm.whole
    return [
        arm.name,
        f"{best.gain.value:.2f}x",
        "" if arm.name == REFERENCE else _interval(best.gain),
        _number(arm.decode.rate if arm.decode else None, 1),
        _number(arm.whole.rate, 1),
        _number(arm.ttft, 0, 1e3),
        _number(arm.gap, 1, 1e3),
        _number(arm.gap_95, 1, 1e3),
    ]


def _drafts(arm: ArmResult) -> list[str]:
    same = f"{arm.same_text}/{arm.compared_text}" if arm.compared_text else _DASH
    return [
        arm.name,
        _percent(arm.acceptance_rate),
        _number(arm.alpha, 2),
        _number(arm.mean_accepted_length, 2),
        _percent(arm.own_share, 1),
        _number(arm.memory, 2, 1e-9),
        "" if arm.name == REFERENCE else same,
    ]


def _positions(page: _Page, report: Report, arms: Sequence[ArmResult]) -> None:
    arms = [arm for arm in arms if arm.positions]
    if not arms:
        return
    heads = [str(place) for place in range(1, max(len(arm.positions) for arm in arms) + 1)]
    heads = heads[: page.fitting(heads, max(len(arm.name) for arm in arms))]
    page.say("")
    page.say("acceptance by position: accepted of those tested", "bold")
    rows = []
    for arm in arms:
        shares = [_percent(one.accepted / one.tested) for one in arm.positions[: len(heads)]]
        rows.append([arm.name, *shares, *[""] * (len(heads) - len(shares))])
    page.table(["arm", *heads], rows, report.default)


def _found(finding: Finding) -> str:
    gain = f"{finding.gain.value:.2f}x"
    ends = _interval(finding.gain)
    said = f"{gain} [{ends}]" if ends != _DASH else gain
    match finding.kind:
        case "best_fixed":
            return f"{finding.arm} over {finding.other}, the best fixed lookahead: {said}"
        case "worst_fixed":
            return f"  at worst, in {finding.category}, over {finding.other}, which is best there: {said}"
        case "worst_plain":
            return f"{finding.arm} over the target alone at worst, in {finding.category}: {said}"
        case "foreign_best":
            return f"{finding.arm} over {finding.other}, the best of its kind, the prompt included: {said}"
        case _:
            return f"{finding.arm} over {finding.other}, the prompt included: {said}"


def _left_out(page: _Page, report: Report) -> None:
    if report.dropped or report.interrupted:
        page.say("")
    for one in report.dropped:
        when = "" if one.temperature is None else f" at temperature {one.temperature:g}"
        page.say(f"left out: {one.what}{when}: {one.why}", "yellow")
    if report.interrupted:
        page.say("interrupted: only what every arm had done is shown", "yellow")


def _interval(gain: Gain) -> str:
    return _DASH if gain.low is None or gain.high is None else f"{gain.low:.2f}-{gain.high:.2f}"


def _number(value: float | None, decimals: int, scale: float = 1.0) -> str:
    return _DASH if value is None else f"{value * scale:.{decimals}f}"


def _percent(value: float | None, decimals: int = 0) -> str:
    return _DASH if value is None else f"{value * 100:.{decimals}f}%"
