"""The command as a whole: help without torch, and one line, one hint and one code for everything that goes wrong."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import click
import pytest

from specgen import __version__, errors
from specgen.cli import main as main_module
from specgen.cli.main import COMMANDS, main
from specgen.cli.options import Number, common_options, option, pass_environment
from tests.consoles import console


@pytest.fixture
def failing(monkeypatch):
    """Install a command ``boom`` that raises what it is given."""

    def install(error):
        @click.command("boom")
        @common_options
        def command():
            raise error

        module = ModuleType("boom")
        module.command = command
        monkeypatch.setitem(sys.modules, "boom", module)
        monkeypatch.setitem(main_module.COMMANDS, "boom", main_module.Entry("boom", "Fail."))

    return install


@pytest.fixture
def echo(monkeypatch):
    """Install a command ``echo`` that returns its options through a list."""
    seen = {}

    @click.command("echo")
    @option("--number", type=Number(min=0))
    @option("--many", multiple=True)
    @option("--flag", is_flag=True)
    @option("--secret", is_flag=True, allow_from_autoenv=False)
    @common_options
    @pass_environment
    def command(environment, /, **options):
        seen.update(options, environment=environment)

    module = ModuleType("echo")
    module.command = command
    monkeypatch.setitem(sys.modules, "echo", module)
    monkeypatch.setitem(main_module.COMMANDS, "echo", main_module.Entry("echo", "Echo."))
    return seen


HEAVY = (
    "import sys; print([name for name in ('torch', 'transformers', 'rich', 'numpy', 'yaml') if name in sys.modules])"
)


def test_help_imports_nothing_heavy():
    code = f"from specgen.cli.main import main; main(['--help']); {HEAVY}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")
    assert all(name in done.stdout for name in COMMANDS)


def test_help_is_quick():
    def seconds():
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "specgen", "--help"], capture_output=True, check=True)
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < 0.4


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_help_needs_neither_torch_nor_transformers(name):
    code = f"from specgen.cli.main import main; main(['{name}', '--help']); {HEAVY}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torch" not in done.stdout.splitlines()[-1]
    assert "transformers" not in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_fits_80_columns_and_has_examples(name, flag):
    terminal = console()
    assert main([name, flag], terminal) == 0
    assert f"specgen {name}" in terminal.out.partition("\n\n")[2]
    assert max(map(len, terminal.out.splitlines())) <= 80
    assert terminal.err == ""


def test_version():
    terminal = console()
    assert main(["--version"], terminal) == 0
    assert terminal.out == f"specgen {__version__}\n"


def test_without_arguments_help():
    terminal = console()
    assert main([], terminal) == 0
    assert terminal.out.startswith("Usage: specgen")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["genrate"], "there is no command 'genrate'", "did you mean specgen generate?"),
        (
            ["Why is the sky blue?"],
            "there is no command 'Why is the sky blue?'",
            'specgen generate "..." takes a prompt',
        ),
        (["--verbos"], "no such option '--verbos'", "did you mean --verbose?"),
        (["echo", "--numbr", "1"], "no such option '--numbr'", "did you mean --number?"),
        (
            ["echo", "--number", "x"],
            "invalid value for '--number': 'x' is not a valid number",
            "specgen echo --help",
        ),
        (
            ["echo", "--number", "-1"],
            "invalid value for '--number': -1.0 is not in the range x>=0",
            "specgen echo --help",
        ),
        (
            ["echo", "--number", "nan"],
            "invalid value for '--number': nan is not a finite number",
            "specgen echo --help",
        ),
        (
            ["echo", "--number", "inf"],
            "invalid value for '--number': inf is not a finite number",
            "specgen echo --help",
        ),
        (["echo", "--number"], "option '--number' requires an argument", "specgen echo --help"),
        (["echo", "more"], "got unexpected extra argument (more)", "specgen echo --help"),
    ],
)
def test_usage_errors(echo, arguments, message, hint):
    terminal = console()
    assert main(arguments, terminal) == 2
    lines = terminal.err.splitlines()
    assert lines[0] == f"specgen: {message}"
    assert lines[1].startswith(f"  hint: {hint}")
    assert terminal.out == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.SpecgenError("it broke", "mend it"), 1),
        (errors.ModelError("it broke", "mend it"), 1),
        (errors.MissingWeights("it broke", "mend it"), 1),
        (errors.UsageError("it broke", "mend it"), 2),
        (errors.ProfileError("it broke", "mend it"), 2),
        (errors.PromptError("it broke", "mend it"), 2),
    ],
)
def test_specgens_errors(failing, error, code):
    failing(error)
    terminal = console()
    assert main(["boom"], terminal) == code
    assert terminal.err == "specgen: it broke\n  hint: mend it\n"


OUT_OF_MEMORY = "specgen: out of memory\n  hint: specgen plan-memory says what would fit\n"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "specgen: interrupted\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
        (SystemExit(143), 143, ""),
        (SystemExit(), 0, ""),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            1,
            "specgen: no space left on the device while writing the output\n",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x/model"),
            1,
            "specgen: no space left on the device while writing /x/model\n",
        ),
        (MemoryError(), 3, OUT_OF_MEMORY),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 12 bytes"), 3, OUT_OF_MEMORY),
        (
            ZeroDivisionError("division\nby zero"),
            1,
            (
                "specgen: unexpected error: ZeroDivisionError: division by zero\n"
                "  hint: run again with SPECGEN_DEBUG=1 for the traceback\n"
            ),
        ),
    ],
)
def test_other_errors(failing, error, code, text):
    failing(error)
    terminal = console()
    assert main(["boom"], terminal) == code
    assert terminal.err == text


def test_an_error_without_a_hint(failing):
    failing(errors.ModelError("it broke"))
    terminal = console()
    main(["boom"], terminal)
    assert terminal.err == "specgen: it broke\n"


def test_a_hint_of_two_lines(failing):
    failing(errors.ModelError("it broke", "mend it\nor not"))
    terminal = console()
    main(["boom", "-q"], terminal)
    assert terminal.err == "specgen: it broke\n  hint: mend it\n        or not\n"


def test_an_error_cannot_act_on_the_terminal(failing):
    failing(errors.ProfileError("no profile \x1b]52;c;aGk=\x07 \u202e"))
    terminal = console(terminals="err")
    main(["boom"], terminal)
    assert terminal.err == "specgen: no profile \\x1b]52;c;aGk=\\x07 \\u202e\n"


def test_an_error_on_a_stream_that_cannot_show_it(failing):
    failing(errors.ProfileError("no profile é日"))
    terminal = console(encoding="latin-1")
    main(["boom"], terminal)
    assert terminal.err == "specgen: no profile é\\u65e5\n"


@pytest.mark.parametrize(
    ("flags", "variables"), [(["-v"], {}), ([], {"SPECGEN_DEBUG": "1"}), ([], {"SPECGEN_VERBOSE": "1"})]
)
def test_a_traceback_for_whoever_asks(failing, flags, variables):
    failing(ZeroDivisionError("division by zero"))
    terminal = console(variables=variables)
    assert main(["boom", *flags], terminal) == 1
    assert "Traceback (most recent call last)" in terminal.err


def test_no_traceback_with_debugging_off(failing):
    failing(ZeroDivisionError("division by zero"))
    terminal = console(variables={"SPECGEN_DEBUG": "0"})
    main(["boom"], terminal)
    assert "Traceback" not in terminal.err


def test_every_option_is_read_from_the_environment(echo):
    variables = {"SPECGEN_NUMBER": "2.5", "SPECGEN_MANY": "a b", "SPECGEN_FLAG": "1", "SPECGEN_QUIET": "yes"}
    assert main(["echo"], console(variables=variables)) == 0
    assert (echo["number"], echo["many"], echo["flag"]) == (2.5, ("a", "b"), True)
    assert echo["environment"].quiet


def test_an_option_beats_the_environment(echo):
    main(["echo", "--number", "1"], console(variables={"SPECGEN_NUMBER": "2.5"}))
    assert echo["number"] == 1


def test_an_empty_variable_counts_as_unset(echo):
    assert main(["echo"], console(variables={"SPECGEN_NUMBER": ""})) == 0
    assert echo["number"] is None


def test_a_bad_variable_is_named(echo):
    terminal = console(variables={"SPECGEN_NUMBER": "x"})
    assert main(["echo"], terminal) == 2
    assert "'x' is not a valid number (from SPECGEN_NUMBER)\n" in terminal.err


def test_some_options_are_not_for_the_environment(echo):
    main(["echo"], console(variables={"SPECGEN_SECRET": "1"}))
    assert echo["secret"] is False


@pytest.mark.parametrize("arguments", [["-q", "echo"], ["echo", "-q"]])
def test_common_options_before_and_after_the_command(echo, arguments):
    main(arguments, console())
    assert echo["environment"].quiet


@pytest.mark.parametrize(
    ("color", "variables", "terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "0"}, True, False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour(color, variables, terminal, expected):
    environment = console(variables=variables)
    environment.color = color
    assert environment.colored(terminal=terminal) is expected


def test_the_arguments_of_the_process(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["specgen", "--version"])
    terminal = console()
    assert main(environment=terminal) == 0
    assert terminal.out.startswith("specgen ")


def test_the_documentation_says_what_the_help_says():
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(root / "scripts" / "cli_docs.py"), "--check"],
        env={**os.environ, "PYTHONPATH": str(root), "COLUMNS": "40"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("before", [True, False])
def test_a_log_file_for_every_command(failing, tmp_path, before):
    failing(errors.ModelError("it broke"))
    log = tmp_path / "log"
    flags = ["--log-file", str(log)]
    arguments = [*flags, "boom"] if before else ["boom", *flags]
    main(arguments, console(variables={"SPECGEN_LOG_FILE": str(log)}))
    assert log.read_text().count("ended by ModelError") == 1
    assert "Traceback" in log.read_text()
