"""The output file: whole lines, one for each id, never over what is somebody's."""

from __future__ import annotations

import json

import pytest

from specgen.batch import journal as module
from specgen.batch.feed import key_of
from specgen.batch.journal import Journal, manifest_path, read_manifest, write_manifest
from specgen.errors import SpecgenError, UsageError


def record(id_, line, fingerprint="f", error=None, **more):
    return (
        json.dumps({"id": id_, "line": line, "error": error, "fingerprint": fingerprint, "specgen": "0", **more}) + "\n"
    )


BAD = {"code": "prompt", "message": "no"}


def test_a_new_file(tmp_path):
    with Journal(tmp_path / "out") as journal:
        journal.write(record("a", 1))
        assert (tmp_path / "out").read_text() == record("a", 1)
        assert journal.kept.done == {}


def test_a_file_that_holds_something_is_left_alone(tmp_path):
    path = tmp_path / "out"
    path.write_text("a diary\n")
    with pytest.raises(UsageError, match="is not empty"):
        Journal(path)
    with pytest.raises(UsageError, match="is not the output of a batch"):
        Journal(path, resume=True)
    assert path.read_text() == "a diary\n"


@pytest.mark.parametrize("resume", [False, True])
def test_the_input_is_never_the_output(tmp_path, resume):
    path = tmp_path / "prompts"
    path.write_text(record("a", 1))
    (tmp_path / "link").symlink_to(path)
    with path.open("rb") as source:
        for name in ("prompts", "link"):
            with pytest.raises(UsageError, match="is the input"):
                Journal(tmp_path / name, resume=resume, source=source)
    assert path.read_text() == record("a", 1)


def test_a_folder_is_no_output(tmp_path):
    with pytest.raises(UsageError, match="cannot write"):
        Journal(tmp_path)
    with pytest.raises(UsageError, match="cannot write"):
        Journal(tmp_path / "no" / "out")


def test_two_runs_do_not_share_a_file(tmp_path):
    pytest.importorskip("fcntl")
    with Journal(tmp_path / "out"), pytest.raises(UsageError, match="another run"):
        Journal(tmp_path / "out", resume=True)
    Journal(tmp_path / "out").__exit__(None, None, None)


def test_resume_knows_what_is_done(tmp_path):
    path = tmp_path / "out"
    torn = record("d", 4)[:20]
    path.write_text(
        record("a", 1, "x") + record("b", 2, "y", BAD) + record(None, 3, None, BAD) + record(7, 5, "z") + torn
    )
    with Journal(path, resume=True) as journal:
        assert journal.kept.done == {key_of("a"): "x", key_of("7"): "z"}
        assert (journal.kept.failed, journal.kept.torn) == (2, 20)
        assert path.read_text().endswith(record(7, 5, "z"))
        journal.tidy(failures=False, ordered=False)
        assert path.read_text() == record("a", 1, "x") + record(7, 5, "z")
        journal.write(record("b", 2, "y"))
    assert path.read_text() == record("a", 1, "x") + record(7, 5, "z") + record("b", 2, "y")


def test_tidying_keeps_the_last_of_each_id_and_the_order_of_the_input(tmp_path):
    path = tmp_path / "out"
    with Journal(path) as journal:
        for line in (record("c", 3), record("a", 1, "old"), record(None, 2, None, BAD), record("a", 1, "new")):
            journal.write(line)
        journal.tidy(failures=True, ordered=True)
        assert path.read_text() == record("a", 1, "new") + record(None, 2, None, BAD) + record("c", 3)
        inode = path.stat().st_ino
        journal.tidy(failures=True, ordered=True)
        assert path.stat().st_ino == inode, "rewritten for nothing"
        journal.write(record("d", 4))
    assert path.read_text().endswith(record("c", 3) + record("d", 4))
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_openai_records_resume_too(tmp_path):
    path = tmp_path / "out"
    own = {"fingerprint": "x", "line": 1, "version": "0"}
    good = {"id": "batch_req_x", "custom_id": "a", "response": {}, "error": None, "specgen": own}
    bad = {**good, "custom_id": "b", "error": BAD, "response": None}
    path.write_text(json.dumps(good) + "\n" + json.dumps(bad) + "\n")
    with Journal(path, resume=True) as journal:
        assert journal.kept.done == {key_of("a"): "x"}
        assert journal.kept.failed == 1


@pytest.mark.parametrize("room", [0, 1, 30])
def test_a_record_that_does_not_fit_is_not_there_at_all(tmp_path, monkeypatch, room):
    path = tmp_path / "out"
    with Journal(path) as journal:
        journal.write(record("a", 1))
        real, written = module.os.write, 0

        def write(file, data):
            nonlocal written
            if written >= room:
                raise OSError(28, "No space left on device")
            written += real(file, bytes(data[: room - written]))
            return written

        monkeypatch.setattr(module.os, "write", write)
        with pytest.raises(SpecgenError, match="No space left"):
            journal.write(record("b", 2))
        monkeypatch.undo()
        assert path.read_text() == record("a", 1)
        journal.write(record("c", 3))
    assert path.read_text() == record("a", 1) + record("c", 3)


def test_a_manifest(tmp_path):
    path = tmp_path / "out.jsonl"
    assert read_manifest(path) == {}
    write_manifest(path, {"seed": 3, "profile": {"target": "ü"}})
    assert manifest_path(path).name == "out.jsonl.manifest.json"
    assert read_manifest(path) == {"seed": 3, "profile": {"target": "ü"}}
    manifest_path(path).write_text("{")
    assert read_manifest(path) == {}
    assert len(list(tmp_path.iterdir())) == 1
