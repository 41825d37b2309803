"""What a command has checked before it loads anything."""

from __future__ import annotations

import pytest

from specgen.cli.main import main
from specgen.memory import preflight
from specgen.memory.errors import DoesNotFit
from specgen.models.strict import COLUMNS
from tests.consoles import console


@pytest.mark.parametrize(("options", "columns"), [([], None), (["--strict"], COLUMNS)])
def test_the_check_knows_of_strict_mode(monkeypatch, options, columns):
    asked = []

    def check_fits(profile, **question):
        asked.append(question)
        raise DoesNotFit("it does not fit")

    monkeypatch.setattr(preflight, "check_fits", check_fits)

    assert main(["generate", "-n", "40", "-k", "3", *options, "Hi"], console()) == 3
    (question,) = asked
    assert (question["columns"], question["lookahead"], question["batch"]) == (columns, 3, 1)
    assert question["context"] == question["prompt"] + 40
