"""Completion: shells get scripts, scripts get answers, and nobody waits for torch."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specgen.cli.main import main
from tests.consoles import console

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script(shell):
    terminal = console()
    assert main(["completion", shell], terminal) == 0
    assert f"_SPECGEN_COMPLETE={shell}_complete" in terminal.out
    assert terminal.err == ""


def test_another_shell():
    assert main(["completion", "ksh"], console()) == 2


def ask(words, index, *, shell="bash", cwd=None, flags=()):
    variables = {
        **os.environ,
        "_SPECGEN_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(index),
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        [sys.executable, *flags, "-m", "specgen"], env=variables, cwd=cwd, capture_output=True, text=True, check=True
    )


def test_commands_options_and_profiles(tmp_path):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "my-pair.yaml").write_text("target: some/target\n")
    assert "plain,generate" in ask("specgen gen", 1).stdout
    assert "plain,--temperature" in ask("specgen generate --temp", 2).stdout
    found = ask("specgen generate --profile ", 3, cwd=tmp_path).stdout.split()
    assert {"plain,my-pair", "plain,starter"} <= set(found)
    assert ask("specgen chat -p my", 3, cwd=tmp_path).stdout.split() == ["plain,my-pair"]
    assert ask("specgen chat -p ./pro", 3, cwd=tmp_path).stdout.split() == ["file,./pro"]


def test_arguments_that_are_profiles(tmp_path):
    (tmp_path / "my-pair.yaml").write_text("target: some/target\n")
    for command in ("pull", "profiles show", "profiles path"):
        words = f"specgen {command} star"
        assert ask(words, len(words.split()) - 1, cwd=tmp_path).stdout.split() == ["plain,starter"]
        words = f"specgen {command} ./my"
        assert ask(words, len(words.split()) - 1, cwd=tmp_path).stdout.split() == ["file,./my"]


def test_profiles_are_completed_without_torch():
    done = ask("specgen generate --profile ", 3, flags=["-X", "importtime"])
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "specgen.profile" in imported
    assert not imported & {"torch", "transformers", "rich", "numpy"}


def test_it_is_quick():
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        ask("specgen generate --profile ", 3)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 2.0
