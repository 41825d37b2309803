"""A batch needs no more memory for its last item than for its first ones."""

from __future__ import annotations

import json
import random
import sys

import pytest

from tests.batch.process import specgen_process
from tests.batch.tiny import tiny_profile

# oneDNN keeps up to 1,024 kernels, one a shape, which is a limit and not a leak; without it what specgen keeps is left.
NO_KERNELS_KEPT = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "0"}


def peak_of_a_run(items, folder, profile):
    """Run 200 prompts of random lengths over and over to the end, where fewer and fewer rows are left; in KiB."""
    prompts, output, status = (folder / f"{items}.{name}" for name in ("jsonl", "out.jsonl", "status"))
    rng = random.Random(0)
    lines = [json.dumps({"prompt": "".join(rng.choices("abcdef", k=rng.randint(1, 60)))}) + "\n" for _ in range(200)]
    output.unlink(missing_ok=True)
    prompts.write_text("".join(lines) * (items // 200))
    arguments = ["generate", "-p", profile, "-f", prompts, "-o", output, "-n", "16", "-t", "1", "--batch-size", "8"]
    with specgen_process(map(str, arguments), variables=NO_KERNELS_KEPT, status=status) as process:
        process.join()
        assert process.exitcode == 0
    assert output.read_bytes().count(b"\n") == items
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells the peak")
def test_memory_is_flat_over_two_thousand_items(tmp_path):
    profile = tiny_profile(tmp_path)
    # Peaks of equal runs differ by one in a hundred, with how the allocator's heaps came to lie.
    early = max(peak_of_a_run(200, tmp_path, profile) for _ in range(3))
    assert peak_of_a_run(2000, tmp_path, profile) <= 1.02 * early
