"""``specgen tune``: what it decides, and the profile that it writes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from specgen.bench import arms as bench_arms
from specgen.bench.tuning import decide
from specgen.cli import tune
from specgen.cli.main import main
from specgen.profile import load_profile
from tests.bench.pairs import sample, write_pair
from tests.consoles import console

QUICK = ("-n", "4", "--categories", "chat,maths", "--per-category", "1", "--repeat", "1", "-k", "2")


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def home(tmp_path):
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "APPDATA": str(tmp_path / "config")}


@pytest.fixture
def times(monkeypatch):
    """Make decoding take as long as the test says, whatever it really takes."""
    seconds = {}
    run = bench_arms.SpecgenArm.run

    def timed(arm, job):
        from dataclasses import replace

        outcome = run(arm, job)
        return replace(outcome, decode_seconds=seconds[arm.name] * outcome.count)

    monkeypatch.setattr(bench_arms.SpecgenArm, "run", timed)
    return seconds


def call(profile, *arguments, home, code=0):
    terminal = console(variables=home)
    assert main(["tune", "-p", profile, *QUICK, *arguments], terminal) == code, terminal.out + terminal.err
    return terminal


def written(home, name="tiny"):
    return load_profile(name, env=home)


def test_auto_is_kept_where_no_fixed_lookahead_is_faster(profile, home, times):
    times |= {"target alone": 2.0, "k 2": 1.5, "auto": 1.5}
    terminal = call(profile, home=home)
    lines = terminal.out.splitlines()
    assert "lookahead: auto" in lines
    path = Path(home["XDG_CONFIG_HOME"]) / "specgen" / "profiles" / "tiny.yaml"
    assert lines[-1] == f"written: {path}"
    assert terminal.err.splitlines()[-1] == "specgen: specgen generate -p tiny uses it"
    assert written(home).lookahead == "auto"
    text = path.read_text()
    assert text.startswith("# Written by specgen tune ")
    assert "lookahead auto, 1.33x the target alone." in text.splitlines()[0]


def test_a_fixed_lookahead_that_is_faster_is_written_with_everything_else(profile, home, times):
    times |= {"target alone": 2.0, "k 2": 1.0, "auto": 1.5}
    terminal = call(profile, "--set", "sampling.top_p=0.9", "-t", "0.5", home=home)
    assert "k = 2 had 1.50x the speed of auto (95 %: 1.50 to 1.50)" in terminal.out
    found, before = written(home), load_profile(profile)
    assert found.lookahead == 2
    assert found.sampling.top_p == 0.9
    assert found.sampling.temperature == 0  # measured at another one, which is no setting that was found
    assert (found.target, found.draft) == (before.target, before.draft)


def test_the_target_alone_can_win(profile, home, times):
    times |= {"target alone": 1.0, "k 2": 2.0, "auto": 1.2}
    assert "the target alone had 1.20x the speed of auto" in call(profile, home=home).out
    assert written(home).lookahead == 0


def test_nothing_is_overwritten_without_force(profile, home, times):
    times |= {"target alone": 2.0, "k 2": 1.0, "auto": 1.5}
    call(profile, home=home)
    path = tune._destination("tiny", home)
    path.write_text("target: mine\n")
    times["auto"] = 0.5
    terminal = call(profile, home=home, code=2)
    assert terminal.err == (
        f"specgen: {path} is there already\n  hint: --force replaces it, --name NAME writes another one\n"
    )
    assert path.read_text() == "target: mine\n"
    call(profile, "--dry-run", home=home)
    assert path.read_text() == "target: mine\n"
    call(profile, "--name", "other", home=home)
    assert (written(home, "other").lookahead, path.read_text()) == ("auto", "target: mine\n")
    call(profile, "--force", home=home)
    assert written(home).lookahead == "auto"
    assert sorted(file.name for file in path.parent.iterdir()) == ["other.yaml", "tiny.yaml"]


def test_a_file_that_appears_meanwhile_is_kept(home):
    path = tune._destination("tiny", home)
    path.parent.mkdir(parents=True)
    path.write_text("target: mine\n")
    from specgen.errors import UsageError
    from specgen.profile import ModelSpec, Profile

    with pytest.raises(UsageError, match="is there already"):
        tune.write(path, Profile("tiny", ModelSpec("m")), [], replace_it=False)
    assert path.read_text() == "target: mine\n"
    assert [file.name for file in path.parent.iterdir()] == ["tiny.yaml"]


def test_a_folder_that_cannot_be_written(profile, home, times, tmp_path):
    times |= {"target alone": 2.0, "k 2": 1.0, "auto": 1.5}
    (tmp_path / "config").write_text("a file")
    terminal = call(profile, home=home, code=1)
    assert "specgen: cannot write " in terminal.err
    assert "lookahead: 2" in terminal.out


@pytest.mark.parametrize("name", ["a/b", ".hidden", "tiny.yaml"])
def test_names_that_are_none(profile, home, name):
    assert f"{name!r} is no name for a profile" in call(profile, "--name", name, home=home, code=2).err


def test_ctrl_c_writes_nothing(profile, home, monkeypatch):
    def interrupted(arm, job):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_arms.SpecgenArm, "run", interrupted)
    call(profile, home=home, code=130)
    assert not tune._destination("tiny", home).exists()


def runs(table, repeats=3):
    return [
        sample(arm, prompt, repeat, seconds[prompt] if isinstance(seconds, list) else seconds)
        for repeat in range(1, repeats + 1)
        for prompt in range(4)
        for arm, seconds in table.items()
    ]


@pytest.mark.parametrize(
    ("table", "lookahead"),
    [
        ({"target alone": 2.0, "k 4": 1.0, "k 8": 1.2, "auto": 1.1}, 4),
        ({"target alone": 2.0, "k 4": 1.0, "k 8": 1.2, "auto": 1.01}, "auto"),  # not worth it
        ({"target alone": 2.0, "k 4": [1.0, 1.0, 1.0, 2.5], "k 8": 3.0, "auto": 1.4}, "auto"),  # not sure
        ({"target alone": 1.0, "k 4": 1.1, "k 8": 1.2, "auto": 1.1}, 0),
    ],
)
def test_decisions(table, lookahead):
    decision = decide(runs(table), (4, 8), rng=Random(0))
    assert decision.lookahead == lookahead
    assert decision.prompts == 4


def test_nothing_measured_is_no_decision():
    assert decide([], (4,), rng=Random(0)) is None
