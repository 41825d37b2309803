"""llama.cpp's server from its start to its end, with a stand-in for the program."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from specgen.bench.against_llama import Files, find_files, llama_arms
from specgen.bench.arms import Job
from specgen.bench.prompts import Prompt
from specgen.errors import ModelError, UsageError
from specgen.profile import ModelSpec, Profile, Sampling
from tests.words import byte_level

JOB = Job(Prompt("a", "1", "the quick"), 4, Sampling(temperature=0.0), 5)


def pair(target="t", draft="d"):
    profile = Profile("toy", ModelSpec(target), ModelSpec(draft) if draft else None, chat=False)
    target = SimpleNamespace(device=torch.device("cpu"))
    return SimpleNamespace(profile=profile, tokenizer=byte_level(300), target=target, context=64)


@pytest.fixture
def server(tmp_path):
    """The stand-in as a program, which systems without a shebang line need not run."""
    program = tmp_path / "llama-server"
    source = Path(__file__).with_name("llama_server.py")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {source} "$@"\n')
    program.chmod(0o755)
    return str(program)


def files(server, tmp_path, *, model="model.gguf", draft="draft.gguf"):
    (tmp_path / model).touch()
    return Files(server, str(tmp_path / model), draft and str(tmp_path / draft))


def is_free(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def test_both_servers_answer_and_are_stopped(server, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with llama_arms(pair(), files(server, tmp_path), threads=3, context=64) as arms:
        plain, drafted = arms
        outcomes = [arm.run(JOB) for arm in arms]
        ports = [int(path.name.removeprefix("port")) for path in tmp_path.glob("port*")]
        assert len(ports) == 2
        assert not any(is_free(port) for port in ports)
    assert all(is_free(port) for port in ports)
    assert (plain.name, drafted.name) == ("llama.cpp", "llama.cpp d")
    for outcome in outcomes:
        assert (outcome.count, outcome.decode_seconds) == (4, pytest.approx(0.08))
        assert outcome.seconds > 0
    assert [(one.proposed, one.accepted) for one in outcomes] == [(None, None), (8, 4)]


def test_the_server_is_asked_for_the_same_tokens_and_sampling(server, tmp_path):
    with llama_arms(pair(), files(server, tmp_path), threads=3, context=64) as (plain, _):
        plain.run(JOB)
    ((arguments, question),) = [json.loads(line) for line in (tmp_path / "asked.jsonl").read_text().splitlines()]
    assert question == {
        "prompt": byte_level(300).encode("the quick"),
        "n_predict": 4,
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "repeat_penalty": 1.0,
        "seed": 5,
        "cache_prompt": False,
    }
    assert arguments[arguments.index("-t") :] == ["-t", "3", "-c", "64", "-ngl", "0"]


def test_a_server_that_fails_says_so(server, tmp_path):
    servers = llama_arms(pair(), files(server, tmp_path, draft=None), threads=1, context=64)
    with servers as (plain,), pytest.raises(ModelError, match="llama-server did not answer: HTTP Error 500"):
        plain.run(Job(JOB.prompt, 3, JOB.sampling, 0))
    broken = llama_arms(pair(), files(server, tmp_path, model="broken.gguf"), threads=1, context=64)
    with pytest.raises(ModelError, match="ended with code 1: error: failed to load model") as error, broken:
        pass
    assert error.value.hint.startswith(f"run it by hand: {server} --host 127.0.0.1")


def test_it_is_stopped_when_the_measurement_is_interrupted(server, tmp_path):
    with pytest.raises(KeyboardInterrupt), llama_arms(pair(), files(server, tmp_path), threads=1, context=64):
        raise KeyboardInterrupt
    ports = [int(path.name.removeprefix("port")) for path in tmp_path.glob("port*")]
    assert len(ports) == 2
    assert all(is_free(port) for port in ports)


def test_files_are_the_profiles_or_those_that_are_named(server, tmp_path):
    target, draft, other = (tmp_path / f"{name}.gguf" for name in ("target", "draft", "other"))
    for file in (target, draft, other):
        file.touch()
    profiled = pair(str(target), str(draft))
    assert find_files(profiled, server, None, None) == Files(server, str(target), str(draft))
    assert find_files(profiled, server, str(other), None) == Files(server, str(other), None)
    assert find_files(pair("org/name", None), server, str(target), str(draft)) == Files(server, str(target), str(draft))


@pytest.mark.parametrize(
    ("program", "model", "message", "hint"),
    [
        (None, None, "--against llama.cpp needs its server", "--llama-server PATH names the llama-server program"),
        ("/no/such", None, "there is no program /no/such", "--llama-server PATH names the llama-server program"),
        ("server", None, "llama.cpp reads .gguf files, and org/name is none", "--llama-model FILE names one"),
        ("server", "x.gguf", "llama.cpp reads .gguf files, and x.gguf is none", "--llama-model FILE names one"),
    ],
)
def test_what_is_missing_is_named(server, program, model, message, hint):
    with pytest.raises(UsageError) as error:
        find_files(pair("org/name", None), server if program == "server" else program, model, None)
    assert (error.value.message, error.value.hint) == (message, hint)
