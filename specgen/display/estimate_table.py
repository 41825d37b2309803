"""The answer of ``specgen estimate`` for people: a curve, what the number can mean, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.bench.estimate import Estimate, Point, Reading
from specgen.display.report import bar
from specgen.display.styles import ASCII, UNICODE

_HARDLY = 1.05  # below it a run's own noise decides
_DRAWN = {*range(9), 10, 12, 16, 20, 24, 32, 40, 48, 64}  # of a long curve
_NAMES = {
    "alpha": "accepted of tested (alpha)",
    "rate": "accepted of proposed",
    "no_bonus": "... without the target's own token",
    "nothing": "nothing accepted, one token a round",
}


def render(found: Estimate, *, unicode: bool) -> str:
    """Draw an estimate.

    Args:
        found: the answer.
        unicode: whether more than ASCII can be shown.
    """
    lines = [*_costs(found), "", *_curve(found, unicode=unicode), "", *_readings(found), "", *_break_even(found), ""]
    return "\n".join([*lines, *_verdict(found)]) + "\n"


def _costs(found: Estimate) -> Iterator[str]:
    costs = found.costs
    overhead = f", {costs.overhead:g} ms besides" if costs.overhead else ""
    yield f"draft {costs.draft:g} ms a token, verify {costs.verify:g} ms{overhead}; target alone {costs.plain:g} ms"
    spent = costs.round_ms(costs.lookahead)
    yield f"a round with k = {costs.lookahead} takes {spent:g} ms, as long as {spent / costs.plain:.2f} plain steps"
    if costs.verify > costs.plain:
        yield f"(verify is taken to grow evenly from {costs.plain:g} ms at k = 0)"


def _curve(found: Estimate, *, unicode: bool) -> Iterator[str]:
    yield f"speedup by lookahead k, alpha {found.alpha:g}"
    most = max(point.speedup for point in found.curve)
    for point in found.curve:
        if point.k not in _DRAWN | {found.best.k, found.asked.k}:
            continue
        mark = _mark(point, found)
        drawn = bar(point.speedup / most, UNICODE if unicode else ASCII)
        yield f"  {point.k:>3}  {drawn}  {point.speedup:5.2f}x{mark}"


def _mark(point: Point, found: Estimate) -> str:
    marks = ["target alone"] if point.k == 0 else []
    marks += ["best"] if point.k == found.best.k else []
    marks += ["asked about"] if point.k == found.asked.k else []
    return f"  {'<- ' if found.best.k == point.k else ''}{', '.join(marks)}" if marks else ""


def _readings(found: Estimate) -> Iterator[str]:
    k = found.costs.lookahead
    head = f"what {found.alpha:g} can mean at k = {k}"
    yield f"{head:<38}{'accepted':>9}{'tokens/round':>14}{'speedup':>9}"
    for one in found.readings:
        yield _reading(one)


def _reading(one: Reading) -> str:
    loss = "  a loss" if one.speedup < 1 else ""
    return f"  {_NAMES[one.name]:<36}{one.accepted:>9.3f}{one.tokens:>14.3f}{one.speedup:>8.3f}x{loss}"


def _break_even(found: Estimate) -> Iterator[str]:
    k = found.costs.lookahead
    if found.break_even_alpha is None:
        yield f"break-even at k = {k}: none, a round takes as long as {k + 1} plain steps or longer"
    else:
        yield (
            f"break-even at k = {k}: alpha {found.break_even_alpha:.3f}, "
            f"or {found.break_even_rate:.1%} of the proposed on average"
        )
    if found.lowest_alpha is not None and found.lowest_k != k:
        yield f"lowest break-even: alpha {found.lowest_alpha:.3f}, at k = {found.lowest_k}"


def _verdict(found: Estimate) -> Iterator[str]:
    best, asked = found.best, found.asked
    if not found.pays:
        yield "no, this pair will not pay: the target alone is faster than every lookahead"
        if found.lowest_alpha is not None:
            yield f"it would take an alpha above {found.lowest_alpha:.3f}, or a faster draft"
        else:
            yield "no acceptance would do: the draft and the target's pass are too slow"
    elif best.speedup < _HARDLY:
        yield f"hardly: {best.speedup:.2f}x at best, with k = {best.k}"
    elif asked.speedup <= 1:
        yield (
            f"yes, but not with k = {asked.k}, which is a loss ({asked.speedup:.2f}x): "
            f"{best.speedup:.2f}x with k = {best.k}"
        )
    elif asked.k == best.k:
        yield f"yes, this pair will pay: {best.speedup:.2f}x with k = {best.k}, the best lookahead"
    else:
        yield f"yes, this pair will pay: {asked.speedup:.2f}x with k = {asked.k}, {best.speedup:.2f}x with k = {best.k}"
