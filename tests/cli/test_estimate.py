"""``specgen estimate``: the textbook's numbers, the verdicts, and nothing heavy behind them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from specgen.cli.main import main
from tests.consoles import console
from tests.display.terminals import Terminal

TEXTBOOK = ("--draft-ms", "5", "--plain-ms", "80", "--verify-ms", "80", "-k", "4")


def call(*arguments, code=0, **settings):
    terminal = console(**settings)
    assert main(["estimate", *arguments], terminal) == code, terminal.out + terminal.err
    return terminal


def row(text, name):
    """Accepted, tokens a round and speedup of what the number can mean."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(name)]
    return line.strip().removeprefix(name).split()


def test_sixty_percent_is_2_72_or_1_92_or_1_84():
    out = call(*TEXTBOOK, "--alpha", "0.6").out
    assert row(out, "accepted of tested (alpha)") == ["1.306", "2.306", "1.844x"]
    assert row(out, "accepted of proposed") == ["2.400", "3.400", "2.720x"]
    assert row(out, "... without the target's own token") == ["2.400", "2.400", "1.920x"]
    assert "a round with k = 4 takes 100 ms, as long as 1.25 plain steps" in out
    assert "break-even at k = 4: alpha 0.200, or 6.2% of the proposed on average" in out
    assert out.splitlines()[-1] == "yes, this pair will pay: 1.84x with k = 4, the best lookahead"


def test_one_token_in_a_round_of_100_ms_is_a_loss():
    out = call(*TEXTBOOK, "--alpha", "0").out
    assert row(out, "nothing accepted, one token a round") == ["0.000", "1.000", "0.800x", "a", "loss"]
    assert "no, this pair will not pay: the target alone is faster than every lookahead" in out
    assert out.splitlines()[-1] == "it would take an alpha above 0.062, or a faster draft"


def test_the_curve_marks_the_best():
    lines = call(*TEXTBOOK, "--alpha", "0.6").out.splitlines()
    curve = [line for line in lines if "x" in line and "#" in line]
    assert [line.split()[0] for line in curve] == [str(k) for k in range(9)]
    assert [line for line in curve if "best" in line] == [curve[4]]
    longest = max(curve, key=lambda line: line.count("#"))
    assert longest.count("#") == curve[4].count("#") == 28
    assert curve[0].split()[-2:] == ["target", "alone"]


def test_a_long_curve_is_thinned():
    out = call("--draft-ms", "1", "--plain-ms", "400", "--alpha", "0.99", "-k", "33").out
    shown = [int(line.split()[0]) for line in out.splitlines() if "#" in line]
    assert len(shown) <= 20
    assert {0, 33, 64} <= set(shown)


@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        (("--draft-ms", "90", "--plain-ms", "80", "--alpha", "1"), "no acceptance would do"),
        (("--draft-ms", "40", "--plain-ms", "80", "-k", "8", "--alpha", "0.55"), "hardly: 1.03x at best, with k = 1"),
        (
            ("--draft-ms", "24", "--plain-ms", "80", "-k", "8", "--alpha", "0.6"),
            "yes, but not with k = 8, which is a loss (0.73x): 1.23x with k = 1",
        ),
        (
            ("--draft-ms", "5", "--plain-ms", "80", "-k", "1", "--alpha", "0.6"),
            "yes, this pair will pay: 1.51x with k = 1, 1.84x with k = 4",
        ),
    ],
)
def test_verdicts(arguments, verdict):
    assert verdict in call(*arguments).out.splitlines()[-1]


def test_verify_is_a_plain_step_unless_it_is_given():
    assert call(*TEXTBOOK, "--alpha", "0.6").out == call("--draft-ms", "5", "--plain-ms", "80", "--alpha", ".6").out
    slower = json.loads(call(*TEXTBOOK, "--verify-ms", "100", "--overhead-ms", "2", "--alpha", "0.6", "--json").out)
    assert slower["round_ms"] == 122
    assert slower["speedup"] == pytest.approx(2.3056 * 80 / 122)


def test_json():
    terminal = call(*TEXTBOOK, "--alpha", "0.6", "--json")
    found = json.loads(terminal.out)
    assert terminal.err == ""
    assert found["pays"] is True
    assert found["best"]["lookahead"] == found["lookahead"] == 4
    speedups = {name: one["speedup"] for name, one in found["readings"].items()}
    assert speedups == pytest.approx({"alpha": 1.84448, "rate": 2.72, "no_bonus": 1.92, "nothing": 0.8})
    assert [point["lookahead"] for point in found["curve"]] == list(range(9))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--plain-ms", "80", "--alpha", "0.6"), "missing option '--draft-ms'"),
        ((*TEXTBOOK, "--alpha", "1.2"), "1.2 is not in the range 0<=x<=1"),
        (("--draft-ms", "0", "--plain-ms", "80", "--alpha", "0.6"), "0.0 is not in the range x>0"),
        (("--draft-ms", "nan", "--plain-ms", "80", "--alpha", "0.6"), "nan"),
    ],
)
def test_wrong_numbers(arguments, message):
    terminal = call(*arguments, code=2)
    assert message in terminal.err
    assert terminal.out == ""


def test_piped_text_is_ascii_and_a_terminal_gets_blocks():
    assert call(*TEXTBOOK, "--alpha", "0.6").out.isascii()
    terminal = Terminal(80)
    assert main(["estimate", *TEXTBOOK, "--alpha", "0.6"], terminal) == 0
    assert "█" in terminal.text
    assert max(map(len, terminal.written.splitlines())) <= 80


def test_it_needs_nothing_heavy():
    code = (
        "import sys; from specgen.cli.main import main; "
        f"main(['estimate', *{TEXTBOOK!r}, '--alpha', '0.6']); "
        "print([name for name in ('torch', 'transformers', 'numpy', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
