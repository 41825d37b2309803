"""``specgen plan-memory``: what it writes where, its exit codes, and the check before ``generate`` loads anything."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from specgen.cli.main import main
from specgen.memory import free
from tests.consoles import console

SEED = ["plan-memory", "-p", "llama-7b-1b", "--batch", "18", "--context", "4096", "--offline"]


def run(*arguments, **settings):
    where = console(**settings)
    return main(list(arguments), where), where


def test_a_pair_that_fits_is_a_table_and_0():
    code, where = run(*SEED, "--device-memory", "80GB", "--fast")

    assert code == 0
    assert "13.48 GB" in where.out
    assert "15.68 GB" in where.out
    assert "<- peak" in where.out
    assert "fits" in where.out
    assert where.out.isascii()
    assert "\x1b" not in where.out
    assert where.err == ""


def test_a_pair_that_does_not_fit_is_3_with_changes_that_are_true():
    code, where = run(*SEED, "--device-memory", "48GB", "--json")
    plan = json.loads(where.out)

    assert code == plan["exit_code"] == 3
    assert plan["verdict"] == "no"
    assert len(plan["suggestions"]) >= 3
    for suggestion in plan["suggestions"]:
        again, _ = run(*SEED, "--device-memory", "48GB", "--json", *suggestion["options"].split())
        assert again == 0, suggestion


def test_colour_and_blocks_on_a_terminal_only():
    code, where = run(*SEED, "--device-memory", "80GB", "--fast", terminals="out")
    _, plain = run(*SEED, "--device-memory", "80GB", "--fast", terminals="out", variables={"NO_COLOR": "1"})

    assert code == 0
    assert "\x1b[" in where.out
    assert "\x1b" not in plain.out
    assert plain.out.isascii()


def test_explain_names_the_largest_blocks():
    code, where = run("plan-memory", "-p", "starter", "--context", "256", "--device-memory", "8GB", "--explain")

    assert code == 0
    assert "the largest blocks then:" in where.out
    assert "new_zeros" in where.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--context", "-5"], 2, "--context"),
        (["--batch", "0"], 2, "--batch"),
        (["--device-memory", "-80GB"], 2, "is not an amount of memory"),
        (["--context", "1000000000"], 2, "is more than the 4,096 positions"),
        (["--draft", "small", "--target", "big", "-p", "starter"], 2, "exclude each other"),
        (["--device", "abacus", "--device-memory", "8GB"], 2, "no kind of device"),
    ],
)
def test_what_cannot_be_meant_is_a_line_a_hint_and_2(arguments, code, message):
    given = arguments if "-p" in arguments else ["-p", "llama-7b-1b", *arguments]
    given = given if "--device-memory" in given else [*given, "--device-memory", "80GB"]

    found, where = run("plan-memory", *given, "--offline", "--fast")

    assert found == code
    assert message in where.err.splitlines()[0]
    assert "hint:" in where.err
    assert where.out == ""


def folder(path, numbers, **files):
    path.mkdir()
    (path / "config.json").write_text(json.dumps(numbers))
    for name, content in files.items():
        (path / name.replace("__", ".")).write_bytes(content)
    return str(path)


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "head_dim": None,
}


@pytest.mark.parametrize(
    ("numbers", "files", "message"),
    [
        (LLAMA, {"model__safetensors": b"\x40\0\0\0\0\0\0\0{"}, "cut short inside its header"),
        (
            LLAMA,
            {"model__safetensors__index__json": b'{"weight_map": {"a": "one.safetensors"}}'},
            "lacks one.safetensors",
        ),
        ({**LLAMA, "model_type": "nonesuch"}, {}, "does not know model_type 'nonesuch'"),
        ({**LLAMA, "hidden_size": -1}, {}, "cannot plan"),
    ],
)
def test_what_nobody_can_tell_is_a_line_a_hint_and_4(tmp_path, numbers, files, message):
    model = folder(tmp_path / "model", numbers, **files)

    code, where = run("plan-memory", "--target", model, "--context", "64", "--device-memory", "8GB")

    assert code == 4
    assert message in where.err.splitlines()[0]
    assert "hint:" in where.err


def test_a_folder_with_a_config_alone_is_enough(tmp_path):
    model = folder(tmp_path / "model", LLAMA)

    code, where = run("plan-memory", "--target", model, "--context", "64", "--device-memory", "8GB", "--json")

    assert code == 0
    assert json.loads(where.out)["models"]["target"]["kv"]["per_token"] == 2 * 2 * 2 * 16 * 2


def test_a_model_that_is_nowhere_is_4_without_the_network():
    code, where = run("plan-memory", "--target", "no/where", "--offline", "--device-memory", "8GB")

    assert code == 4
    assert "neither its config nor its headers" in where.err


def test_the_formula_does_not_need_torch():
    code = (
        "import sys; from specgen.cli.main import main;"
        f"main({[*SEED, '--device-memory', '80GB', '--fast', '--json']!r});"
        "print([m for m in ('torch',) if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")


def test_generate_refuses_before_it_loads_anything(monkeypatch):
    monkeypatch.setattr(free, "cpu", lambda: free.Memory("cpu", 10**8, 10**8, "test"))

    code, where = run("generate", "--device", "cpu", "--offline", "-n", "8", "Hello")

    assert code == 3
    assert where.out == ""
    assert "0.1 GB are free" in where.err.splitlines()[0]
    assert "--skip-memory-check" in where.err
