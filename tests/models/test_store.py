from __future__ import annotations

import errno
import json
import os
import stat
import sys
import threading
import time
from pathlib import Path

import pytest

from specgen.errors import ModelError
from specgen.models import store
from specgen.models.progress import bytes_under, growing, silent


def made(scratch: Path) -> Path:
    place = scratch / "model"
    (place / "sub").mkdir(parents=True)
    (place / "a.bin").write_bytes(b"12345")
    (place / "sub" / "b.txt").write_text("x")
    return place


def finished(folder: Path) -> Path:
    with store.locked(folder, silent), store.scratch(folder) as scratch:
        store.settle(made(scratch), folder, {"wheel": "w==1"})
    return folder


@pytest.mark.parametrize(
    ("env", "platform", "expected"),
    [
        ({"SPECGEN_CACHE": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "linux", "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "linux", "/x/specgen"),
        ({"HOME": "/h"}, "linux", "/h/.cache/specgen"),
        ({"HOME": "/h", "SPECGEN_CACHE": "", "XDG_CACHE_HOME": ""}, "linux", "/h/.cache/specgen"),
        ({"HOME": "/h"}, "darwin", "/h/Library/Caches/specgen"),
        ({"HOME": "/h", "LOCALAPPDATA": "/l"}, "win32", "/l/specgen"),
        ({"HOME": "/h"}, "win32", "/h/AppData/Local/specgen"),
    ],
)
def test_the_cache_is_where_the_platform_keeps_caches(env: dict[str, str], platform: str, expected: str) -> None:
    assert store.cache_folder(env, platform) == Path(expected)


def test_a_relative_cache_does_not_depend_on_the_folder_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert store.cache_folder({"SPECGEN_CACHE": "here"}) == tmp_path / "here"
    assert store.cache_folder({"SPECGEN_CACHE": "~/here", "HOME": "/h"}).is_absolute()


def test_a_finished_folder_is_intact_and_nothing_else_is_left(tmp_path: Path) -> None:
    folder = finished(tmp_path / "m")
    assert store.intact(folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".m.lock", "m"]
    manifest = json.loads((folder / store.MANIFEST).read_text())
    assert manifest == {"format": store.FORMAT, "wheel": "w==1", "files": {"a.bin": 5, "sub/b.txt": 1}}


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "a.bin").write_bytes(b"1234"),
        lambda folder: (folder / "a.bin").write_bytes(b"123456"),
        lambda folder: (folder / "sub" / "b.txt").unlink(),
        lambda folder: (folder / store.MANIFEST).unlink(),
        lambda folder: (folder / store.MANIFEST).write_text("{"),
        lambda folder: (folder / store.MANIFEST).write_text("[]"),
        lambda folder: (folder / store.MANIFEST).write_text('{"format": 1}'),
        lambda folder: (folder / store.MANIFEST).write_text('{"format": 0, "files": {}}'),
    ],
)
def test_damage_is_noticed_and_replaced(tmp_path: Path, damage: object) -> None:
    folder = finished(tmp_path / "m")
    damage(folder)  # type: ignore[operator]
    assert not store.intact(folder)
    assert store.intact(finished(folder))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".m.lock", "m"]


def test_an_intact_folder_of_somebody_else_is_kept(tmp_path: Path) -> None:
    """Two at once where nothing can be locked: the second finds the first one's folder and keeps it."""
    folder = finished(tmp_path / "m")
    before = (folder / "a.bin").stat().st_ino
    assert store.intact(finished(folder))
    assert (folder / "a.bin").stat().st_ino == before


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_a_shared_cache_can_be_read_by_others(tmp_path: Path) -> None:
    previous = os.umask(0o022)
    try:
        with store.scratch(tmp_path / "m") as scratch:
            place = made(scratch)
            (place / "a.bin").chmod(0o600)  # as safetensors leaves its files
            store.settle(place, tmp_path / "m", {})
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "m" / "a.bin").stat().st_mode) == 0o644


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, SystemExit])
def test_a_scratch_folder_goes_whatever_happens(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with store.scratch(tmp_path / "m") as scratch:
            made(scratch)
            raise error

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_what_killed_runs_left_is_cleaned(tmp_path: Path) -> None:
    old = time.time() - store.STALE_SECONDS - 60
    mine, theirs, ancient = (tmp_path / name for name in (".m.tmp-1", ".other.tmp-1", ".other.tmp-2"))
    for place in (mine, theirs, ancient):
        (place / "wheels").mkdir(parents=True)
    os.utime(ancient, (old, old))
    with store.locked(tmp_path / "m", silent):
        assert theirs.exists()  # perhaps still at work
        assert not ancient.exists()
        assert not mine.exists()  # whoever made it cannot be alive: the lock is held


def test_without_locks_only_old_remains_are_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    (tmp_path / ".m.tmp-1").mkdir()
    with store.locked(tmp_path / "m", silent):
        assert (tmp_path / ".m.tmp-1").exists()


def test_a_file_system_without_locks_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert store.intact(finished(tmp_path / "m"))


def test_the_second_one_waits_for_the_first(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    order: list[str] = []
    entered = threading.Event()

    def second() -> None:
        entered.wait()
        with store.locked(tmp_path / "m", silent):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with store.locked(tmp_path / "m", silent):
        entered.set()
        time.sleep(0.2)
        order.append("first")
    thread.join(5)
    assert order == ["first", "second"]


def test_a_full_disk_is_recognised_in_every_dress() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    wrapped = RuntimeError("a library's own")
    wrapped.__cause__ = full
    during = ValueError()
    during.__context__ = wrapped
    rust = Exception("Error while serializing: I/O error: No space left on device (os error 28)")
    for error in (full, wrapped, during, rust, OSError(errno.EDQUOT, ""), Exception("(os error 27)")):
        assert store.is_disk_full(error)
    for other in (OSError(errno.EACCES, ""), ValueError("space"), Exception("(os error 13)")):
        assert not store.is_disk_full(other)


def test_space_is_asked_for_on_the_disk_of_a_folder_to_come(tmp_path: Path) -> None:
    place = tmp_path / "not" / "yet"
    free = store.free_bytes(place)
    assert free > 0
    store.require_space(place, 1, "SPECGEN_CACHE")
    with pytest.raises(ModelError, match=r"no space left in .*yet, about .* needed, .* free") as caught:
        store.require_space(place, free * 1000, "SPECGEN_CACHE")
    assert caught.value.hint == "free some space, or set SPECGEN_CACHE to another disk"
    assert not place.exists()


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (269_060_552, "269 MB"), (15_200_000_000, "15.2 GB")],
)
def test_sizes_are_written_as_disks_are_sold(count: int, words: str) -> None:
    assert store.size(count) == words


def test_a_disk_that_is_full_only_when_synced_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fill)
    with pytest.raises(OSError, match="No space left"):
        finished(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_growing_reports_every_byte_once_and_no_more_than_the_total(tmp_path: Path) -> None:
    (tmp_path / "before").write_bytes(bytes(100))
    steps: list[int] = []
    with growing(tmp_path, steps.append, 1000):
        (tmp_path / "a").write_bytes(bytes(600))
        for _ in range(500):
            if steps:
                break
            time.sleep(0.01)
        (tmp_path / "b").write_bytes(bytes(900))
    assert steps == [600, 400]
    assert bytes_under(tmp_path) == 1600


def test_growing_does_not_claim_what_failed(tmp_path: Path) -> None:
    steps: list[int] = []
    with pytest.raises(ValueError, match="cut"), growing(tmp_path, steps.append, 1000):
        raise ValueError("cut")
    assert steps == []
