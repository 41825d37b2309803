"""The report of ``specgen verify`` for people: two tables, the divergences, the verdict."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from specgen.display.escape import printable
from specgen.verify.report import CaseResult, Divergence, Report, Token

if TYPE_CHECKING:
    from rich.table import Table

_WHO = {
    "draft": "draft",
    "lookup": "lookup in the text",
    "self": "target itself",
    "random": "random ids",
    "none": "nobody",
}
_WAYS = {
    "same": "",
    "intersection": ", through the tokens that both vocabularies have (TLI)",
    "text": ", through text (SLEM)",
}


def render(report: Report, *, width: int, colored: bool, unicode: bool) -> str:
    """Draw a report.

    Args:
        report: what was found.
        width: columns of the terminal.
        colored: whether to use colour.
        unicode: whether box-drawing characters can be shown.
    """
    from rich import box
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width, 72),
        force_terminal=colored,
        color_system="standard" if colored else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    lines = box.SIMPLE_HEAD if unicode else box.ASCII

    def say(line: str, style: str = "") -> None:
        console.print(Text(printable(line), style=style), soft_wrap=True)

    for line in _about(report):
        say(line)
    say("\n(D) output laws of the acceptance rules, enumerated", "bold")
    console.print(_laws(report, lines))
    say("\n(P) the same seed with and without a draft", "bold")
    console.print(_cases(report, lines))
    say(f"\n(N) where rounding decided; {report.tolerance}", "bold")
    for line, style in _divergences(report):
        say(line, style)
    say("")
    say(_verdict(report), "green" if report.ok else "red")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _about(report: Report) -> Iterator[str]:
    yield f"{report.profile}: {report.models}{_WAYS.get(report.translation or 'same', '')}"
    yield (
        f"{report.prompts} prompts, {report.max_tokens} tokens each at most, seed {report.seed}; "
        f"the profile's rule is {report.rule}, paths are compared under coupled"
    )
    if report.strict:
        held = "equal bits are expected" if report.row_invariant else "they do not, so equal bits cannot be promised"
        yield f"strict: one shape for every pass; do this machine's kernels treat all rows alike: {held}"


def _table(lines: object, *columns: tuple[str, bool]) -> Table:
    from rich.table import Table

    table = Table(box=lines, pad_edge=False, show_edge=False)  # type: ignore[arg-type]
    for name, right in columns:
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    return table


def _laws(report: Report, lines: object) -> Table:
    table = _table(lines, ("rule", False), ("laws", True), ("largest distance", True), ("", False))
    for law in report.laws:
        table.add_row(law.rule, str(law.laws), f"{law.worst:.1e}", "exact" if law.ok else "FAULT")
    return table


def _cases(report: Report, lines: object) -> Table:
    names = ("drafts from", "temp", "k", "rows", "equal texts", "tokens", "accepted of tested", "ties", "faults")
    table = _table(lines, *((name, name != "drafts from") for name in names))
    for result in report.cases:
        table.add_row(*_cells(result))
    return table


def _cells(result: CaseResult) -> tuple[str, ...]:
    case = result.case
    accepted = f"{result.accepted} of {result.tested}" if result.proposed else ""
    return (
        _WHO[case.source],
        f"{case.temperature:g}",
        str(case.lookahead),
        str(case.rows),
        f"{result.equal} of {result.texts}",
        str(result.tokens),
        accepted,
        str(result.ties),
        str(result.faults),
    )


def _divergences(report: Report) -> Iterator[tuple[str, str]]:
    if not any(result.divergences for result in report.cases):
        yield "nowhere", ""
    for result in report.cases:
        if result.divergences:
            yield str(result.case), ""
        for one in result.divergences:
            yield f"  {_one(one)}", "red" if one.kind == "fault" else ""


def _one(one: Divergence) -> str:
    did = "emitted" if one.what == "emitted" else "drafted for itself"
    return (
        f"{one.kind}: prompt {one.prompt}, token {one.position}: {did} {_shown(one.token)}, "
        f"alone {_shown(one.reference)}; gap {one.gap:.3g}, top two {one.top_two:.3g}, margin {one.margin:.3g}"
    )


def _shown(token: Token) -> str:
    return f"{token.text!r} ({token.id})"


def _verdict(report: Report) -> str:
    runs = len(report.cases)
    time = f"{report.seconds:.0f} s"
    if not report.ok:
        wrong = [law.rule for law in report.laws if not law.ok]
        wrong += [str(result.case) for result in report.cases if result.faults]
        return f"FAULT: {report.faults} in {'; '.join(wrong)} ({time})"
    equal = "every text is the target's own, token by token"
    if report.ties:
        equal = f"every token is the target's own, or a numeric tie ({report.ties})"
    return f"no fault: the laws are exact, and in {runs} runs {equal} ({time})"
