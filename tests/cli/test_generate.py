"""``specgen generate`` from arguments to output, with an engine that is a list, then with a real one."""

from __future__ import annotations

import json
import logging
import warnings
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import specgen.api
from specgen.cli.main import main
from specgen.decoding.events import Notice
from specgen.errors import ModelError
from specgen.profile import Sampling
from tests.consoles import console
from tests.display.events import story
from tests.words import letters

PROFILE = """
target: {model: some/target, dtype: float32}
draft: some/draft
lookahead: 4
sampling: {temperature: 0.5, top_p: 0.9}
"""


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(PROFILE)
    return str(path)


@pytest.fixture
def engine(monkeypatch):
    """An engine that says what it is told to and remembers what it was asked."""
    engine = SimpleNamespace(said=[("Hello", " world"), ("!",)], reason="stop", error=None, noise=lambda: None)

    def load(profile, **options):
        engine.profile, engine.options = profile, options
        with options["progress"].stage("loading some/target"):
            engine.noise()
        return SimpleNamespace(profile=profile, describe=lambda: "target (float32, cpu)", draft=None, threads=2)

    def stream(pair, prompt, request, *, halt, memory):
        engine.prompt, engine.request = prompt, request
        yield from story(*engine.said, reason=halt.reason or engine.reason)
        if engine.error:
            raise engine.error

    monkeypatch.setattr(specgen.api, "load", load)
    monkeypatch.setattr(specgen.api, "stream", stream)
    return engine


def run(profile, *arguments, code=0, **settings):
    terminal = console(**settings)
    assert main(["generate", "-p", profile, *arguments], terminal) == code, terminal.err
    return terminal


class NeverWritten:
    """Standard input that somebody holds open: whoever reads it waits for ever."""

    def read(self, *_):
        pytest.fail("standard input was read")


def test_text_on_standard_output_and_a_summary_on_standard_error(engine, profile):
    engine.said = [("Hello",), (" world", "!")]
    terminal = run(profile, "Hi")
    assert terminal.out == "Hello world!\n"
    assert terminal.err == (
        "3 tokens in 0.1 s · 37.5 tok/s · 1.5x target alone · accepted 1 of 1 drafts · 2.0 tokens/round · coupled"
        " · seed 7\n"
    )


def test_quiet(engine, profile):
    terminal = run(profile, "-q", "Hi")
    assert (terminal.out, terminal.err) == ("Hello world!\n", "")


def test_verbose_says_what_is_loaded_where(engine, profile):
    said = run(profile, "-v", "Hi").err.splitlines()
    wanted = [f"specgen: profile toy from {profile}", "specgen: loading some/target", "specgen: target (float32, cpu)"]
    wanted.append("specgen: 2 threads on the CPU")
    assert [line for line in said if line in wanted] == wanted


def test_no_color(engine, profile):
    assert "\x1b" in run(profile, "Hi", "--color", "always").err
    assert "\x1b" not in run(profile, "Hi", "--color", "never", terminals="out").err
    assert "\x1b" not in run(profile, "Hi", "--color", "always").out


def test_json(engine, profile):
    engine.said = [("a \x1b[2J\u202e", "\ud83d")]
    terminal = run(profile, "--json", "--seed", "3", "Hi", terminals="out")
    assert terminal.err == ""
    record = json.loads(terminal.out)
    assert record["text"] == "a \x1b[2J\u202e\ud83d"
    assert (record["profile"], record["seed"], record["finish_reason"]) == ("toy", 3, "stop")


def test_the_fingerprint_tells_runs_apart(engine, profile):
    def fingerprint(*arguments):
        return json.loads(run(profile, "--json", *arguments).out)["fingerprint"]

    assert fingerprint("Hi") == fingerprint("Hi")
    others = [
        fingerprint(*arguments)
        for arguments in (
            ["Hi"],
            ["Ho"],
            ["Hi", "--seed", "8"],
            ["Hi", "-t", "0"],
            ["Hi", "--set", "target.revision=x"],
        )
    ]
    assert len(set(others)) == len(others)


def test_a_notice(engine, profile):
    engine.said = [("a",), Notice("the draft's context is full")]
    assert run(profile, "Hi").err.startswith("specgen: the draft's context is full\n")


def test_an_engine_that_fails_keeps_the_text_so_far(engine, profile):
    engine.error = ModelError("out of memory", "use a smaller model")
    terminal = run(profile, "Hi", code=1)
    assert terminal.out == "Hello world!\n"
    assert terminal.err.endswith("specgen: out of memory\n  hint: use a smaller model\n")


# Input


@pytest.mark.parametrize(
    ("arguments", "stdin", "prompt"),
    [
        (["Hi"], b"not read", "Hi"),
        (["One", "two"], b"", "One\n\ntwo"),
        (["-"], b"All of\r\n\nit\n", "All of\r\n\nit\n"),
        (["Summarise:", "-"], "Böse\n".encode(), "Summarise:\n\nBöse\n"),
        (["-", "and", "-q"], b"it", "it\n\nand"),
    ],
)
def test_where_the_prompt_comes_from(engine, profile, arguments, stdin, prompt):
    run(profile, *arguments, stdin=stdin)
    assert engine.prompt == prompt


def test_an_argument_leaves_standard_input_alone(engine, profile):
    terminal = console()
    terminal.stdin = NeverWritten()
    assert main(["generate", "-p", profile, "Hi"], terminal) == 0


def test_a_dash_on_a_terminal_reads_what_is_typed(engine, profile):
    run(profile, "-", stdin=b"typed\n", terminals="in out err")
    assert engine.prompt == "typed\n"


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["-"], b"ab\xff", "standard input is not UTF-8: byte 0xff at offset 2"),
        ([], b"\n \n", "the prompt is empty: standard input holds no text"),
        (["-"], b"\n", "the prompt is empty"),
        (["  "], b"", "the prompt is empty"),
        ([""], b"", "the prompt is empty"),
        (["-", "-"], b"", "- stands for standard input and can be given only once"),
        (["caf\udce9"], b"", "the prompt is not valid UTF-8"),
    ],
)
def test_a_prompt_that_is_none(engine, profile, arguments, stdin, message):
    terminal = run(profile, *arguments, stdin=stdin, code=2)
    assert terminal.err.splitlines()[0] == f"specgen: {message}"
    assert terminal.err.splitlines()[1].startswith("  hint: ")
    assert not hasattr(engine, "profile"), "a model was loaded first"


def test_no_prompt_on_a_terminal(engine, profile):
    terminal = console(terminals="in out err")
    terminal.stdin = NeverWritten()
    assert main(["generate", "-p", profile], terminal) == 2
    first, *hints = terminal.err.splitlines()
    assert first == "specgen: there is no prompt"
    assert sum("specgen generate " in hint for hint in hints) == 2


# Options


def test_what_is_not_given_is_the_profiles(engine, profile):
    run(profile, "Hi")
    request = engine.request
    assert request.sampling == Sampling(temperature=0.5, top_p=0.9)
    assert (request.max_tokens, request.lookahead, request.system, request.chat) == (256, None, None, None)
    assert (request.baseline, request.stops, request.seed) == (True, (), 7)
    assert engine.profile.lookahead == 4
    assert (engine.options["offline"], engine.options["trust_remote_code"]) == (False, False)


def test_every_option_arrives(engine, profile):
    run(
        profile, "Hi", "-n", "9", "-t", "0.25", "--top-k", "40", "--top-p", "0.5", "--min-p", "0.1",
        "--repetition-penalty", "1.2", "--seed", "11", "--stop", "END", "--stop", "\n\n", "-k", "0", "-s", "Be brief",
        "--baseline", "off", "--offline", "--trust-remote-code", "--device", "cpu", "--set", "target.dtype=float16",
        "--set", "context=64",
    )  # fmt: skip
    request = engine.request
    assert request.sampling == Sampling(temperature=0.25, top_k=40, top_p=0.5, min_p=0.1, repetition_penalty=1.2)
    assert (request.max_tokens, request.lookahead, request.system, request.chat) == (9, 0, "Be brief", None)
    assert (request.baseline, request.stops, request.seed) == (False, ("END", "\n\n"), 11)
    assert (engine.options["offline"], engine.options["trust_remote_code"]) == (True, True)
    assert (engine.profile.target.dtype, engine.profile.context) == ("float16", 64)
    assert (engine.profile.target.device, engine.profile.draft.device) == ("cpu", "cpu")


def test_threads(engine, profile):
    run(profile, "Hi", "--threads", "3", "--skip-memory-check")  # which would set them for the whole process
    assert engine.options["threads"] == 3
    run(profile, "Hi")
    assert engine.options["threads"] is None


def test_zero_is_a_temperature(engine, profile):
    run(profile, "Hi", "--temp", "0")
    assert engine.request.sampling == Sampling(temperature=0.0, top_p=0.9)


def test_raw(engine, profile):
    run(profile, "Hi", "--raw")
    assert engine.request.chat is False


def test_the_environment_beats_the_profile(engine, profile):
    variables = {"SPECGEN_TEMPERATURE": "0.1", "SPECGEN_STOP": "a b", "SPECGEN_LOOKAHEAD": "2", "SPECGEN_JSON": "1"}
    terminal = run(profile, "Hi", "--temperature", "0.7", variables=variables)
    assert engine.request.sampling.temperature == 0.7
    assert (engine.request.stops, engine.request.lookahead) == (("a", "b"), 2)
    assert json.loads(terminal.out)


def test_the_profile_comes_from_the_environment_too(engine, profile):
    assert main(["generate", "Hi"], console(variables={"SPECGEN_PROFILE": profile})) == 0
    assert engine.profile.name == "toy"


def test_the_variables_that_are_no_options_do_no_harm(engine, profile, tmp_path):
    variables = {"SPECGEN_PROFILES": str(tmp_path), "SPECGEN_CACHE": str(tmp_path), "SPECGEN_DEBUG": "1"}
    assert main(["generate", "-p", "toy", "Hi"], console(variables=variables)) == 0


def test_code_is_not_trusted_because_of_a_variable(engine, profile):
    run(profile, "Hi", variables={"SPECGEN_TRUST_REMOTE_CODE": "1"})
    assert engine.options["trust_remote_code"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--raw", "-s", "x"], "--raw leaves out the chat template, and with it the place for --system"),
        (["-n", "0"], "invalid value for '-n' / '--max-tokens': 0 is not in the range x>=1"),
        (["-n", "many"], "invalid value for '-n' / '--max-tokens': 'many' is not a valid whole number"),
        (["-t", "-1"], "invalid value for '-t' / '--temperature' / '--temp': -1.0 is not in the range x>=0"),
        (["--top-p", "0"], "invalid value for '--top-p': 0.0 is not in the range 0<x<=1"),
        (["--stop", ""], "a stop string cannot be empty"),
        (["--color", "blue"], "invalid value for '--color': 'blue' is not one of 'auto', 'always', 'never'"),
        (["--lookahed", "3"], "no such option '--lookahed'"),
        (["--set", "target.dtyp=x"], None),
        (["-p", "no-such-profile"], None),
    ],
)
def test_a_wrong_option(engine, profile, arguments, message):
    terminal = run(profile, "Hi", *arguments, code=2)
    lines = terminal.err.splitlines()
    assert lines[0].startswith("specgen: ")
    assert message is None or lines[0] == f"specgen: {message}"
    assert lines[1].startswith("  hint: ")
    assert not hasattr(engine, "profile")


def test_a_random_seed_is_another_every_time(engine, profile):
    from specgen.cli.environment import SEEDS, Environment

    seeds = {Environment.system().draw_seed() for _ in range(5)}
    assert len(seeds) == 5
    assert all(0 <= seed < SEEDS for seed in seeds)


# What the libraries say


def noise():
    logging.getLogger("transformers.modeling_utils").warning("some \x1b[1mweights\x1b[0m")
    logging.getLogger("accelerate").error("on the meta device")
    logging.getLogger("huggingface_hub.file_download").warning("unauthenticated")
    warnings.warn("deprecated", UserWarning, stacklevel=1)


@pytest.mark.filterwarnings("default")
def test_the_libraries_are_silent(engine, profile, capfd):
    engine.noise = noise
    terminal = run(profile, "Hi", "--color", "never")
    assert terminal.err.count("\n") == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings("default")
def test_verbose_shows_what_they_say(engine, profile, capfd):
    engine.noise = noise
    err = run(profile, "Hi", "-v").err
    assert "transformers.modeling_utils: some \\x1b[1mweights\\x1b[0m\n" in err
    assert "accelerate: on the meta device\n" in err
    assert "huggingface_hub.file_download: unauthenticated\n" in err
    assert "deprecated" in err
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings("default")
def test_the_log_file_has_everything(engine, profile, tmp_path, capfd):
    engine.noise = noise
    engine.error = ModelError("out of memory")
    log = tmp_path / "specgen.log"
    terminal = run(profile, "Hi", "--log-file", str(log), code=1)
    text = log.read_text()
    assert "WARNING transformers.modeling_utils: some weights\n" in text
    assert "deprecated" in text
    assert "3 tokens in 0.1 s" in text
    assert "Traceback (most recent call last)" in text
    assert "\x1b" not in text
    assert "transformers" not in terminal.err
    assert capfd.readouterr() == ("", "")


def test_a_log_file_that_cannot_be(engine, profile, tmp_path):
    terminal = run(profile, "Hi", "--log-file", str(tmp_path / "no" / "log"), code=2)
    assert terminal.err.startswith("specgen: cannot write the log file")


def test_logging_is_left_as_it_was(engine, profile):
    before = (logging.getLogger().handlers[:], logging.getLogger().level, warnings.showwarning)
    run(profile, "Hi", "-v")
    assert (logging.getLogger().handlers, logging.getLogger().level, warnings.showwarning) == before


def test_a_bar_on_a_terminal_a_line_nowhere(engine, profile):
    terminal = run(profile, "Hi", terminals="err")
    assert "loading some/target" in terminal.err
    assert terminal.err.count("\x1b[?25l") == terminal.err.count("\x1b[?25h") == 1
    assert "loading" not in run(profile, "Hi").err
    assert "loading" not in run(profile, "Hi", terminals="err", variables={"TERM": "dumb"}).err
    assert "loading" not in run(profile, "-q", "Hi", terminals="err").err


# A real engine


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny random Llama with a byte-level tokenizer, and its profile."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = letters()
    tokenizer.save_pretrained(folder / "model")
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder / "model")
    path = folder / "tiny.yaml"
    path.write_text(
        "target: {model: ./model, dtype: float32, device: cpu}\n"
        "draft: {model: ./model, dtype: float32, device: cpu}\n"
        "lookahead: 3\n"
    )
    return SimpleNamespace(profile=str(path), tokenizer=tokenizer, model=model, config=config)


def expected(tiny, prompt, count):
    ids = tiny.tokenizer(prompt, return_tensors="pt").input_ids
    end = tiny.config.eos_token_id
    with torch.no_grad():
        for _ in range(count):
            token = tiny.model(ids).logits[0, -1].argmax()
            ids = torch.cat([ids, token.view(1, 1)], dim=1)
            if token == end:
                break
    return tiny.tokenizer.decode(ids[0, len(tiny.tokenizer(prompt).input_ids) :], skip_special_tokens=True)


def test_real_text(tiny):
    wanted = expected(tiny, "user: Hi\nassistant:", 24)
    for k in ("0", "3", "8"):
        terminal = run(tiny.profile, "-n", "24", "-k", k, "Hi")
        assert terminal.out == wanted + "\n" * (not wanted.endswith("\n"))
    assert run(tiny.profile, "-n", "24", "--raw", "user: Hi\nassistant:", "-q").out.rstrip("\n") == wanted.rstrip("\n")


def test_real_statistics(tiny):
    record = json.loads(run(tiny.profile, "-n", "40", "--json", "Hi").out)
    assert record["tokens"] == 40
    assert record["finish_reason"] == "length"
    assert record["prompt_tokens"] == len("user: Hi\nassistant:")
    assert record["accepted"] == record["proposed"] > 0  # the draft is the target
    assert record["speedup"] > 0
    assert record["seconds"]["decode"] > 0


def test_a_real_stop(tiny):
    whole = run(tiny.profile, "-n", "24", "--raw", "Hi", "-q").out.rstrip("\n")
    stop = whole[5:8]
    record = json.loads(run(tiny.profile, "-n", "24", "--raw", "Hi", "--json", "--stop", stop).out)
    assert record["text"] == whole[: whole.index(stop)]
    assert record["finish_reason"] == "stop"
    assert record["tokens"] <= 24


def test_one_seed_one_text(tiny):
    arguments = ["-n", "30", "-t", "1", "--seed", "5", "Hi"]
    texts = {run(tiny.profile, "-k", k, *arguments).out for k in ("0", "2", "5")}
    assert len(texts) == 1
    assert run(tiny.profile, "-n", "30", "-t", "1", "--seed", "6", "Hi").out not in texts


def test_a_prompt_longer_than_the_context(tiny):
    terminal = run(tiny.profile, "x" * 300, code=2)
    assert terminal.err.startswith("specgen: the prompt has ")
    assert terminal.err.count("\n") == 2
    assert terminal.out == ""


def test_the_summary_and_the_record_name_the_rule(tiny):
    assert " · coupled · seed" in run(tiny.profile, "-n", "8", "-t", "0.8", "Hi").err
    assert " · greedy · seed" in run(tiny.profile, "-n", "8", "-t", "0", "--acceptance", "block", "Hi").err
    assert (
        " · block, strict · seed"
        in run(tiny.profile, "-n", "8", "-t", "0.8", "--acceptance", "block", "--strict", "Hi").err
    )
    record = json.loads(run(tiny.profile, "-n", "8", "-t", "0.8", "--strict", "--json", "Hi").out)
    assert (record["acceptance"], record["strict"]) == ("coupled", True)
