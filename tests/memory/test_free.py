"""Free memory: sizes, containers, limits, and systems that do not say."""

from __future__ import annotations

import pytest

from specgen.errors import UsageError
from specgen.memory import free
from specgen.memory.errors import CannotTell

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "size"),
    [("80GB", 80 * 10**9), ("46.5GiB", int(46.5 * GIB)), ("512mb", 512 * 10**6), ("1024", 1024), (" 8 g ", 8 * 10**9)],
)
def test_sizes(text, size):
    assert free.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-80GB", "0", "80XB", "GB", "nan", "1e9"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError) as caught:
        free.parse_size(text)
    assert caught.value.exit_code == 2
    assert "80GB" in caught.value.hint


def host(tmp_path, *, cgroup="0::/a/b\n", available=8 * GIB, anonymous=0):
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: {16 * GIB // 1024} kB\nMemAvailable: {available // 1024} kB\n")
    (proc / "self" / "status").write_text(f"VmSize: 5000 kB\nRssAnon: {anonymous // 1024} kB\n")
    (proc / "self" / "cgroup").write_text(cgroup)
    return proc


def group(folder, limit, used, cache, names=("memory.max", "memory.current", "inactive_file")):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {cache}\n")


def test_the_host_alone(tmp_path):
    found = free.cpu(host(tmp_path), tmp_path / "none")

    assert (found.total, found.free, found.source) == (16 * GIB, 8 * GIB, "MemAvailable")


def test_the_tightest_group_above_counts_and_its_cache_is_free(tmp_path):
    root = tmp_path / "cg"
    group(root / "a" / "b", "max", GIB, 0)
    group(root / "a", 4 * GIB, 3 * GIB, GIB // 2)

    found = free.cpu(host(tmp_path), root)

    assert (found.free, found.source) == (3 * GIB // 2, "cgroup")


def test_version_1_and_its_word_for_no_limit(tmp_path):
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    root = tmp_path / "cg"
    group(root / "memory" / "a", 2**63 - 4096, GIB, 0, names)
    group(root / "memory", 2 * GIB, GIB, 0, names)

    found = free.cpu(host(tmp_path, cgroup="4:memory:/a\n0::/\n"), root)

    assert found.free == GIB


def test_what_this_process_holds_is_given_back(tmp_path):
    assert free.cpu(host(tmp_path, anonymous=GIB), tmp_path / "none").free == 9 * GIB


def test_a_system_that_does_not_say(tmp_path, monkeypatch):
    import psutil

    def broken():
        raise OSError("no")

    monkeypatch.setattr(psutil, "virtual_memory", broken)
    with pytest.raises(CannotTell, match="cannot read how much memory is free") as caught:
        free.cpu(tmp_path, tmp_path)
    assert caught.value.exit_code == 4
    assert "--device-memory" in caught.value.hint


def test_assumed_devices():
    assert [(m.id, m.free) for m in free.assumed("80GB,40GB")] == [("cuda:0", 80 * 10**9), ("cuda:1", 40 * 10**9)]
    assert free.assumed("16GB", "cpu")[0].id == "cpu"


def test_an_accelerator_that_does_not_say(monkeypatch):
    import torch

    def broken(*_):
        raise RuntimeError("not on this system\nand more")

    monkeypatch.setattr(torch.accelerator, "get_memory_info", broken)
    with pytest.raises(CannotTell, match="cannot read the free memory of xpu:0: not on this system"):
        free.present(("xpu:0",))
