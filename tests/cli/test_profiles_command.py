"""``specgen profiles``: what each command prints, and that a mistake reaches ``main`` as a ProfileError."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specgen.cli.profiles import command
from specgen.errors import ProfileError
from specgen.profile import load_profile, read_profile
from specgen.profile.lookup import shipped_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in SPECGEN_PROFILES with two profiles; nothing else is the user's."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "aa.yaml").write_text("target: some/target\ndraft: some/draft\ndescription: größer\n")
    (own / "starter.yaml").write_text("target: {model: other/target, gated: true}\n")
    monkeypatch.setenv("SPECGEN_PROFILES", str(own))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return own


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=True)


def printed(*arguments: str) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def failure(*arguments: str) -> ProfileError:
    result = run(*arguments)
    assert isinstance(result.exception, ProfileError)
    assert result.stdout == ""
    return result.exception


def test_the_list_is_a_table_in_lookup_order(folder: Path) -> None:
    lines = printed("list").splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["NAME", "TARGET", "DRAFT", "FROM"],
        ["aa", "some/target", "some/draft", str(folder)],
        ["starter", "other/target", "-", str(folder)],
    ]
    assert lines[-1].split() == ["starter", "HuggingFaceTB/SmolLM2-135M-Instruct", "-", "shipped", "(shadowed)"]
    starts = {tuple(line.index(cell) for cell in line.split()[:4]) for line in lines[:3]}
    assert len(starts) == 1
    assert not any(line.endswith(" ") for line in lines)


def test_the_list_as_json_says_more(folder: Path) -> None:
    entries = json.loads(printed("list", "--json"))
    assert entries[0] == {
        "name": "aa",
        "path": str(folder / "aa.yaml"),
        "from": str(folder),
        "shadowed": False,
        "description": "größer",
        "target": "some/target",
        "draft": "some/draft",
        "gated": False,
    }
    assert [entry["gated"] for entry in entries if entry["name"] == "starter"] == [True, False]
    assert [entry["shadowed"] for entry in entries if entry["name"] == "starter"] == [False, True]
    assert len(entries) == 2 + len(list(shipped_folder().glob("*.yaml")))


def test_one_broken_profile_does_not_hide_the_others(folder: Path) -> None:
    (folder / "bad.yaml").write_text('target: m\n"\x1b[2J": 3\n'.replace("\x1b", "\\e"))
    result = run("list")
    assert result.exit_code == 0
    assert ["bad", "(not", "valid)", "-", str(folder)] in [line.split() for line in result.stdout.splitlines()]
    assert result.stderr == f"specgen: {folder / 'bad.yaml'}: '\\x1b[2J': unknown key\n"
    broken = [entry for entry in json.loads(printed("list", "--json")) if "error" in entry]
    assert [(entry["name"], "target" in entry) for entry in broken] == [("bad", False)]


def test_show_prints_the_path_and_yaml_that_is_the_profile(folder: Path) -> None:
    text = printed("show", "aa")
    assert text.splitlines()[:2] == [f"# {folder / 'aa.yaml'}", "description: größer"]
    copy = folder / "copy" / "aa.yaml"
    copy.parent.mkdir()
    copy.write_text(text, encoding="utf-8")
    original, again = load_profile("aa"), read_profile(copy)
    assert (again.target, again.draft, again.sampling, again.description) == (
        original.target,
        original.draft,
        original.sampling,
        original.description,
    )


def test_show_with_settings_prints_what_they_make_of_it(folder: Path) -> None:
    text = printed("show", "aa", "--set", "lookahead=9", "--set", "draft=null")
    assert "lookahead: 9\n" in text
    assert "draft" not in text


def test_path_prints_the_path_and_nothing_else(folder: Path) -> None:
    assert printed("path", "aa") == f"{folder / 'aa.yaml'}\n"
    assert printed("path", "own/aa.yaml") == f"{folder / 'aa.yaml'}\n"


def test_check_says_ok(folder: Path) -> None:
    assert printed("check", "own/aa.yaml") == "own/aa.yaml: ok\n"
    Path("plain-name").write_text("target: m")
    assert printed("check", "plain-name") == "plain-name: ok\n"


def test_check_says_what_is_wrong(folder: Path) -> None:
    (folder / "bad.yaml").write_text("target: m\nlookahed: 3\n")
    error = failure("check", "own/bad.yaml")
    assert (error.message, error.hint) == ("own/bad.yaml: lookahed: unknown key", "did you mean lookahead?")
    assert failure("check", "aa").message == "aa: no such file"


@pytest.mark.parametrize("verb", ["show", "path"])
def test_an_unknown_name_is_a_profile_error(folder: Path, verb: str) -> None:
    error = failure(verb, "stater")
    assert error.message.startswith("no profile named 'stater' (looked in ")
    assert error.hint == "did you mean starter?"


def test_without_a_command_the_help_is_shown(folder: Path) -> None:
    text = printed()
    assert text.startswith("Usage: profiles" if "Usage: profiles" in text else "Usage: ")
    assert all(f"  {verb} " in text for verb in ("list", "show", "path", "check"))


def test_no_heavy_import() -> None:
    program = (
        "import sys; from specgen.cli.profiles import command; command(['list'], standalone_mode=False);"
        "sys.stderr.write(str([m for m in ('torch', 'transformers', 'rich', 'numpy') if m in sys.modules]))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stderr == "[]"
