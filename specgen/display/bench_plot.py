"""The report of ``specgen bench`` as a picture: speedup by category, a bar an arm, with its interval."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specgen.bench.report import ALL, ArmResult, Gain, Report, Result
from specgen.display.bench_table import provenance_lines
from specgen.errors import SpecgenError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDE = 1.1  # inches a category
_HIGH = 3.6
_FORMATS = (".svg", ".png", ".pdf")
_BARS = 0.84  # of a category's width


def check(path: str) -> None:
    """Check that a picture can be drawn, before anything is measured for it.

    Raises:
        UsageError: matplotlib is missing, with the command that installs it, or the path is of no use.
    """
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib, which is not installed", 'python -m pip install "specgen[plot]"')
    if Path(path).suffix.lower() not in _FORMATS:
        raise UsageError(f"cannot tell in which format {path} is to be drawn", f"end it in {', '.join(_FORMATS)}")
    if not Path(path).absolute().parent.is_dir():
        raise UsageError(f"there is no folder {Path(path).parent}", "make it first")


def plot(report: Report, path: str) -> None:
    """Draw a report into a file, whose suffix says in which format.

    Raises:
        SpecgenError: the file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = max(len(report.results), 1)
    columns = max((len(result.categories) + 1 for result in report.results), default=1)
    # Text stays text, and one measurement gives one file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "specgen"}):
        figure = Figure(figsize=(max(_WIDE * columns, 6) + 2, _HIGH * rows), layout="constrained")
        axes = figure.subplots(rows, 1, squeeze=False)
        for (axis,), result in zip(axes, report.results, strict=False):
            _draw(axis, result)
        figure.suptitle("\n".join(provenance_lines(report)), fontsize=6)
        try:
            figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)
        except OSError as error:
            raise SpecgenError(f"cannot write {path}: {error.strerror or error}", "give another path") from None


def _draw(axis: Any, result: Result) -> None:
    names = [*result.categories, ALL]
    # Of others' settings the best ones only, which are those that something was found about.
    others = {finding.other for finding in result.findings if finding.whole}
    arms = [arm for arm in result.arms[1:] if arm.family == "specgen" or arm.name in others]
    foreign = bool(others)
    wide = _BARS / max(len(arms), 1)
    for number, arm in enumerate(arms):
        gains = _gains(arm, names, whole=foreign)
        places = [place - _BARS / 2 + (number + 0.5) * wide for place in range(len(names))]
        axis.bar(places, [gain.value for gain in gains], wide, label=arm.name, yerr=_errors(gains), capsize=1.5)
    axis.axhline(1.0, color="black", linewidth=0.8)
    axis.set_xticks(range(len(names)), names)
    axis.set_ylabel("times the target alone")
    how = "greedy" if result.temperature == 0 else f"temperature {result.temperature:g}"
    axis.set_title(f"{how}, {'the prompt included' if foreign else 'the prompt left out'}", fontsize=9)
    axis.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _gains(arm: ArmResult, names: Sequence[str], *, whole: bool) -> list[Gain]:
    speed = arm.whole if whole or arm.decode is None else arm.decode
    return [speed.gain if name == ALL else speed.categories[name][1] for name in names]


def _errors(gains: Sequence[Gain]) -> list[list[float]]:
    below = [max(gain.value - gain.low, 0.0) if gain.low is not None else 0.0 for gain in gains]
    above = [max(gain.high - gain.value, 0.0) if gain.high is not None else 0.0 for gain in gains]
    return [below, above]
