"""A conversation from the keyboard or a pipe; then with a real pair, whose caches are kept between turns."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import specgen.api
from specgen.cli.chat import converse
from specgen.cli.conversation import COMMANDS, Conversation, read_messages
from specgen.cli.main import main
from specgen.cli.readers import PipeReader, PlainReader, ToolkitReader, join_lines, reader_for
from specgen.errors import PromptError, UsageError
from specgen.profile import load_profile
from specgen.text import Spoken, encode_prompt
from tests.consoles import console
from tests.display.events import story
from tests.words import TURNS, letters


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text("target: some/target\ndraft: some/draft\nlookahead: 4\n")
    return str(path)


@pytest.fixture
def engine(monkeypatch):
    """A session that answers with the number of messages, and remembers what it was asked."""
    engine = SimpleNamespace(asked=[], error=None, reason="stop", during=lambda: None)

    class Session:
        def __init__(self, pair, memory=None):
            self.pair = pair

        def stream(self, messages, request, *, halt):
            engine.asked.append(([dict(message) for message in messages], request))
            if engine.error:
                raise engine.error
            engine.during()
            yield from story((f"answer {len(messages)}", "."), reason=halt.reason or engine.reason)

    monkeypatch.setattr(
        specgen.api,
        "load",
        lambda profile, **_: SimpleNamespace(profile=profile, describe=lambda: "a with b", draft=None, threads=0),
    )
    monkeypatch.setattr(specgen.api, "Session", Session)
    return engine


def chat(profile, lines, *arguments, code=0, **settings):
    terminal = console("\n".join(lines).encode() + b"\n", **settings)
    assert main(["chat", "-p", profile, *arguments], terminal) == code, terminal.err
    return terminal


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def test_every_turn_has_the_whole_conversation(engine, profile):
    terminal = chat(profile, ["Hi", "", "More"], "--system", "Be brief.", "--seed", "3")
    assert terminal.out == "answer 1.\nanswer 3.\n"
    (first, request), (second, _) = engine.asked
    assert first == [user("Hi")]
    assert second == [user("Hi"), assistant("answer 1."), user("More")]
    assert (request.system, request.seed) == ("Be brief.", 3)


def test_reset(engine, profile):
    chat(profile, ["Hi", "/reset", "More"])
    assert engine.asked[1][0] == [user("More")]


def test_exit(engine, profile):
    chat(profile, ["Hi", "/exit", "More"])
    assert len(engine.asked) == 1


def test_set(engine, profile):
    terminal = chat(
        profile, ["/set temperature 0.5", "/set max-tokens=9", "/set lookahead 2", "/set system Hm", "/set", "Hi"]
    )
    request = engine.asked[0][1]
    assert (request.sampling.temperature, request.max_tokens, request.lookahead) == (0.5, 9, 2)
    assert request.system == "Hm"
    assert "  temperature         0.5\n" in terminal.err
    chat(profile, ["/set lookahead 2", "/set lookahead", "Hi"])
    assert engine.asked[1][1].lookahead is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/dance", "there is no command /dance"),
        ("/set", None),
        ("/set colour red", "there is no setting colour"),
        ("/set temperature hot", "temperature: 'hot' is not a valid"),
        ("/set temperature -1", "temperature: -1"),
        ("/set seed", "seed needs a value"),
        ("/stats", "nothing was said yet"),
        ("/save", "/save needs a file"),
        ("/load", "/load needs a file"),
        ("/load /no/such/file", "cannot read /no/such/file"),
        ("/save /no/such/folder/file", "cannot write /no/such/folder/file"),
    ],
)
def test_what_a_command_cannot_do_ends_nothing(engine, profile, line, message):
    terminal = chat(profile, [line, "Hi"], code=1 if message else 0)
    assert terminal.out == "answer 1.\n"
    if message:
        assert terminal.err.startswith(f"specgen: {message}")


def test_help_and_stats(engine, profile):
    terminal = chat(profile, ["/help", "Hi", "/stats"])
    assert all(f"  {name}" in terminal.err for name in COMMANDS)
    assert "acceptance by position" in terminal.err
    assert "acceptance by position" in chat(profile, ["Hi"], "--stats").err


def test_save_and_load(engine, profile, tmp_path):
    path = tmp_path / "talk.json"
    chat(profile, ["Hi", f"/save {path}"], "--system", "S")
    assert read_messages(str(path)) == ("S", [user("Hi"), assistant("answer 1.")])
    chat(profile, [f"/load {path}", "More"])
    messages, request = engine.asked[-1]
    assert messages == [user("Hi"), assistant("answer 1."), user("More")]
    assert request.system == "S"
    path.write_text(json.dumps([{"role": "system", "content": "T"}, user("x")]))
    assert read_messages(str(path)) == ("T", [user("x")])


@pytest.mark.parametrize("text", ["nope", "3", "{}", '[{"role": "user"}]', '[{"role": "user", "content": 3}]'])
def test_what_is_no_conversation(tmp_path, text):
    path = tmp_path / "talk.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        read_messages(str(path))


def test_a_turn_that_fails_is_not_part_of_the_conversation(engine, profile):
    talk = Conversation(
        console(),
        specgen.api.Session(specgen.api.load(load_profile(profile))),
        specgen.api.Request(),
        "text",
        highlight=False,
        report=False,
        messages=[],
    )
    engine.error = PromptError("the prompt has 9,000 tokens", "shorten it")
    with pytest.raises(PromptError):
        talk.turn("long")
    assert talk.messages == []
    engine.error = None
    talk.turn("short")
    assert talk.messages == [user("short"), assistant("answer 1.")]


def test_ctrl_c_ends_the_answer_and_not_the_conversation(engine, profile):
    import os
    import signal

    engine.during = lambda: os.kill(os.getpid(), signal.SIGINT)
    terminal = chat(profile, ["Hi", "More"])
    assert terminal.err.count("interrupted · ") == 2
    assert len(engine.asked) == 2
    engine.during = lambda: os.kill(os.getpid(), signal.SIGTERM)
    chat(profile, ["Hi", "More"], code=143)


def test_ctrl_c_at_the_prompt(engine, profile):
    class Typed:
        def __init__(self):
            self.left = [KeyboardInterrupt, "Hi", EOFError]

        def read(self):
            item = self.left.pop(0)
            if isinstance(item, str):
                return item
            raise item

    terminal = console(terminals="in")
    session = specgen.api.Session(specgen.api.load(load_profile(profile)))
    talk = Conversation(terminal, session, specgen.api.Request(), "text", False, False, [])
    assert converse(terminal, talk, Typed()) == 0
    assert terminal.out == "answer 1.\n"


# What is typed


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["one"], "one"),
        (["one\\", "two\\", "three"], "one\ntwo\nthree"),
        (['"""one', "", 'two"""'], "one\n\ntwo"),
        (['"""', "one", '"""'], "one"),
        (['"""one"""'], "one"),
    ],
)
def test_several_lines(lines, text):
    left = list(lines)
    assert join_lines(lambda _prompt: left.pop(0)) == text
    assert left == []


def test_a_pipe_that_is_not_utf8():
    with pytest.raises(PromptError):
        PipeReader(console(b"\xff\n")).read()


def test_the_best_reader_there_is(monkeypatch, tmp_path):
    variables = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    assert isinstance(reader_for(console(), COMMANDS), PipeReader)
    dumb = console(terminals="in out err", variables={"TERM": "dumb"})
    assert isinstance(reader_for(dumb, COMMANDS), PlainReader)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    bare = console(terminals="in out err", variables=variables)
    assert isinstance(reader_for(bare, COMMANDS), PlainReader)
    assert 'pip install "specgen[chat]"' in bare.err


def test_prompt_toolkit(tmp_path):
    toolkit = pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.input import create_pipe_input

    variables = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    terminal = console(terminals="in out err", variables=variables)
    with create_pipe_input() as keys:
        reader = ToolkitReader(terminal, COMMANDS, source=keys, screen=toolkit.output.DummyOutput())
        keys.send_text("one\x1b\rtwo\r")
        assert reader.read() == "one\ntwo"
        keys.send_text("\x1b[200~pasted\nlines\x1b[201~\r")
        assert reader.read() == "pasted\nlines"
        keys.send_text("\x1b[A\r")  # the one before
        assert reader.read() == "pasted\nlines"
        keys.send_text("\x04")
        with pytest.raises(EOFError):
            reader.read()
    assert "+pasted" in next(tmp_path.rglob("chat-history")).read_text()


# A real pair


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A target and another draft that write ASCII only, so that a text is read as it was written."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = letters({*map(chr, range(33, 127)), "Ġ", "Ċ"}, turns=TURNS + " ")
    for name, seed in (("target", 0), ("draft", 1)):
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
        LlamaForCausalLM(config).eval().save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    path = folder / "tiny.yaml"
    path.write_text(
        "target: {model: ./target, dtype: float32, device: cpu}\n"
        "draft: {model: ./draft, dtype: float32, device: cpu}\nlookahead: 3\n"
    )
    return str(path)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_second_turn_feeds_only_what_is_new(tiny, temperature):
    pair = specgen.api.load(tiny, overrides=[f"sampling.temperature={temperature}"])
    request = specgen.api.Request(max_tokens=30, seed=5, baseline=False)
    talk = Conversation(console(), specgen.api.Session(pair), request, "text", False, False, [])
    talk.turn("Hello there")
    first = talk.last
    talk.turn("And now?")
    second = talk.last
    messages = talk.messages[:-1]
    prompt = encode_prompt(pair.tokenizer, messages, system=None, chat=True)
    # Of the first turn, the last token was never fed: nothing came after it.
    before = first.stats.prompt_tokens + first.stats.tokens - 1
    assert second.stats.prompt_tokens == len(prompt)
    assert second.stats.cached_tokens == before
    new = len(prompt) - before
    rounds, proposed = second.stats.rounds, second.stats.proposed
    # What a round computes besides: its proposal and the token before it, in each model.
    assert second.stats.fed["target"] <= new + rounds + proposed
    assert second.stats.fed["draft"] <= new + 4 + proposed + 2 * rounds
    assert second.stats.fed["target"] < len(prompt) + rounds + proposed

    fresh = specgen.api.load(tiny, overrides=[f"sampling.temperature={temperature}"])
    text = "".join(event.text for event in specgen.api.stream(fresh, messages, request) if isinstance(event, Spoken))
    assert second.text == text


def test_a_real_conversation_through_a_pipe(tiny):
    terminal = console(b"Hi\nMore\n")
    assert main(["chat", "-p", tiny, "-n", "8"], terminal) == 0
    assert terminal.err.count(" tok/s") == 2
