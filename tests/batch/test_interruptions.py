"""Killed, out of room, or with nobody reading: what was written is whole, and the rest comes with --resume."""

from __future__ import annotations

import json
import os
import random
import signal
import time

import pytest

from tests.batch.process import specgen_process
from tests.batch.tiny import tiny_profile

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and limits of POSIX")

PATIENCE = 300


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return tiny_profile(tmp_path_factory.mktemp("tiny"))


def write_prompts(path, count):
    rng = random.Random(count)
    with path.open("w") as file:
        for number in range(count):
            record = {"id": f"n{number}", "prompt": "x" + "".join(rng.choices("abcdef ", k=rng.randint(1, 20)))}
            record |= {"max_tokens": rng.randint(1, 12)} | ({"temperature": 1.0} if number % 2 else {})
            file.write(json.dumps(record) + "\n")
    return path


def arguments(profile, prompts, output, *more):
    return ["generate", "-p", str(profile), "-f", str(prompts), "-o", str(output), "--seed", "3",
            "--ordered", "--no-item-stats", "--batch-size", "16", *more]  # fmt: skip


def complete(process):
    process.join(PATIENCE)
    return process.exitcode


def uninterrupted(profile, prompts, tmp_path):
    output = tmp_path / "whole.jsonl"
    with specgen_process(arguments(profile, prompts, output), stderr=tmp_path / "err") as process:
        assert complete(process) == 0, (tmp_path / "err").read_text()
    return output.read_bytes()


@pytest.mark.parametrize(("count", "kills"), [(300, 3), pytest.param(5000, 10, marks=pytest.mark.slow)])
def test_killed_and_resumed(profile, tmp_path, count, kills):
    prompts = write_prompts(tmp_path / "prompts.jsonl", count)
    expected = uninterrupted(profile, prompts, tmp_path)
    assert [json.loads(line)["id"] for line in expected.splitlines()] == [f"n{n}" for n in range(count)]
    output, rng, killed = tmp_path / "out.jsonl", random.Random(1), 0
    output.touch()
    for number in range(kills):
        wanted = output.stat().st_size + rng.randint(
            1, max(2 * (len(expected) - output.stat().st_size) // (kills - number + 1), 2)
        )
        with specgen_process(arguments(profile, prompts, output, "--resume")) as process:
            while process.is_alive() and output.stat().st_size < wanted:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.02)
            killed += process.is_alive()
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        if number == 0:  # as a machine without power leaves it
            with output.open("ab") as file:
                file.write(b'{"id": "n1", "li')
    assert killed == kills
    with specgen_process(arguments(profile, prompts, output, "--resume"), stderr=tmp_path / "err") as process:
        assert complete(process) == 0
    assert output.read_bytes() == expected
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert manifest["finished"] is True
    assert manifest["seed"] == 3
    assert manifest["items"]["done"] + manifest["items"]["done_before"] == count


def test_a_full_disk(profile, tmp_path):
    prompts = write_prompts(tmp_path / "prompts.jsonl", 60)
    expected = uninterrupted(profile, prompts, tmp_path)
    output, err = tmp_path / "out.jsonl", tmp_path / "err"
    limit = len(expected) // 2
    with specgen_process(arguments(profile, prompts, output), stderr=err, largest=limit) as process:
        assert complete(process) == 1
    assert "Traceback" not in err.read_text()
    assert f"specgen: cannot write {output}" in err.read_text()
    assert "--resume" in err.read_text()
    kept = output.read_bytes()
    assert 0 < len(kept) <= limit
    assert kept.endswith(b"\n")
    assert all(json.loads(line)["error"] is None for line in kept.splitlines())
    with specgen_process(arguments(profile, prompts, output, "--resume")) as process:
        assert complete(process) == 0
    assert output.read_bytes() == expected


def test_a_reader_that_goes_away(profile, tmp_path):
    prompts = write_prompts(tmp_path / "prompts.jsonl", 300)
    fifo, err = tmp_path / "fifo", tmp_path / "err"
    os.mkfifo(fifo)
    command = ["generate", "-p", str(profile), "-f", str(prompts), "--batch-size", "8"]
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with specgen_process(command, stdout=fifo, stderr=err) as process:
        seen = b""
        while seen.count(b"\n") < 3:
            try:
                seen += os.read(reader, 100)
            except BlockingIOError:
                time.sleep(0.01)
            assert process.is_alive()
        os.close(reader)
        process.join(PATIENCE)
        code = process.exitcode
    assert code == 141
    assert "Traceback" not in err.read_text()
    for line in seen.splitlines()[:3]:
        assert json.loads(line)["error"] is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_the_round_and_says_how_to_go_on(profile, tmp_path, number, code):
    prompts = write_prompts(tmp_path / "prompts.jsonl", 2000)
    output, err = tmp_path / "out.jsonl", tmp_path / "err"
    output.touch()
    with specgen_process(arguments(profile, prompts, output), stderr=err) as process:
        while not output.stat().st_size:
            assert process.is_alive()
            time.sleep(0.01)
        os.kill(process.pid, number)
        assert complete(process) == code
    said = err.read_text().splitlines()
    assert said[-2].startswith("interrupted · ")
    assert said[-1] == "the same command with --resume goes on"
    lines = output.read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b"\n") and json.loads(line)["error"] is None for line in lines)
    numbers = [json.loads(line)["line"] for line in lines]
    assert numbers == sorted(numbers)
    assert 0 < len(lines) < 2000
