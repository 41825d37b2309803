"""A batch needs no more memory for its last item than for its first ones."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import pytest

from tests.batch.process import specgen_process
from tests.batch.tiny import tiny_profile


def peak(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells the peak")
def test_memory_is_flat_over_two_thousand_items(tmp_path):
    profile = tiny_profile(tmp_path)
    prompts, output, rng = tmp_path / "prompts.jsonl", tmp_path / "out.jsonl", random.Random(0)
    with prompts.open("w") as file:
        for _ in range(2000):
            file.write(json.dumps({"prompt": "".join(rng.choices("abcdef", k=rng.randint(1, 60)))}) + "\n")
    output.touch()
    arguments = ["generate", "-p", profile, "-f", prompts, "-o", output, "-n", "40", "-t", "1", "--batch-size", "8"]
    early = late = 0
    with specgen_process(map(str, arguments)) as process:
        while process.is_alive():
            done = output.read_bytes().count(b"\n")
            if done >= 200:
                late = peak(process.pid) or late
                early = early or late
            time.sleep(0.05)
        assert process.exitcode == 0
    assert early > 0
    assert late <= 1.02 * early
