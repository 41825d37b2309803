from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from specgen.errors import MissingWeights, ModelError
from specgen.models import convert, hub, mirror
from specgen.models.sources import Located, cached, locate
from specgen.profile import Mirror, ModelSpec
from tests.models.hub_server import COMMIT
from tests.models.tiny_files import folder, gguf_file

MIRROR = Mirror("tiny-mirror==1.0", "tiny_mirror/tiny.gguf", "0" * 64)
MODEL = "someone/model"


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty caches, and a network that fails the test when it is asked."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("SPECGEN_CACHE", str(tmp_path / "specgen"))

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("the network was asked")

    monkeypatch.setattr(hub, "download", refuse)
    monkeypatch.setattr(mirror, "fetch", refuse)


def snapshot(tmp_path: Path, **options: bool | int) -> Path:
    """Put a model into the hub's cache the way the hub's client does."""
    base = tmp_path / "hub" / "models--someone--model"
    (base / "refs").mkdir(parents=True)
    (base / "refs" / "main").write_text(COMMIT)
    return folder(base / "snapshots" / COMMIT, **options)


# Local folders


@pytest.mark.parametrize("shards", [1, 3])
def test_a_complete_folder_is_found(tmp_path: Path, shards: int) -> None:
    place = folder(tmp_path / "m", shards=shards)
    assert locate(ModelSpec(str(place)), offline=True) == Located(str(place), origin="folder")


def test_a_folder_is_found_by_a_relative_path_and_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder(tmp_path / "a" / "m")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("./a/m", "a/m", "~/a/m"):
        assert locate(ModelSpec(name)).path == str(place)


def test_the_single_file_wins_over_an_index_as_in_transformers(tmp_path: Path) -> None:
    place = folder(tmp_path / "m", shards=2)
    folder(place)
    (place / "model-00001-of-00002.safetensors").unlink()
    assert locate(ModelSpec(str(place))).path == str(place)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    place = folder(tmp_path / "m", shards=3)
    (place / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(MissingWeights, match=r"lacks model-00002-of-00003\.safetensors"):
        locate(ModelSpec(str(place)))


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    place = folder(tmp_path / "m", shards=3)
    shard = place / "model-00003-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"model-00003-of-00003\.safetensors is cut short") as caught:
        locate(ModelSpec(str(place)))
    assert caught.value.hint is not None
    assert "copy model-00003-of-00003.safetensors there again" in caught.value.hint


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_what_a_folder_lacks_is_named(tmp_path: Path, name: str) -> None:
    place = folder(tmp_path / "m")
    (place / name).unlink()
    with pytest.raises(MissingWeights, match=f"holds (no|neither) {name}"):
        locate(ModelSpec(str(place)))


def test_pickled_weights_are_refused_with_the_reason(tmp_path: Path) -> None:
    place = folder(tmp_path / "m")
    (place / "model.safetensors").rename(place / "pytorch_model.bin")
    with pytest.raises(MissingWeights) as caught:
        locate(ModelSpec(str(place)))
    assert caught.value.hint is not None
    assert "pickled weights are not loaded" in caught.value.hint


def test_a_folder_with_a_gguf_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "q4.gguf").touch()
    with pytest.raises(MissingWeights) as caught:
        locate(ModelSpec(str(tmp_path / "m")))
    assert caught.value.hint == f"name the file: {tmp_path / 'm' / 'q4.gguf'}"


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("config.json", "{", "config.json is not valid JSON"),
        ("config.json", "[]", "config.json is not a JSON object"),
        ("model.safetensors.index.json", "{}", "names no shards"),
        ("model.safetensors.index.json", '{"weight_map": []}', "names no shards"),
    ],
)
def test_damaged_json_is_named(tmp_path: Path, name: str, text: str, fault: str) -> None:
    place = folder(tmp_path / "m", shards=2)
    (place / name).write_text(text)
    with pytest.raises(ModelError, match=fault):
        locate(ModelSpec(str(place)))


def test_a_path_that_is_not_there_is_never_taken_for_a_hub_id(tmp_path: Path) -> None:
    for name in (str(tmp_path / "no"), "./no", "../no/no", "~/no", "a/b/c", "a\\b"):
        with pytest.raises(MissingWeights, match="there is no folder"):
            locate(ModelSpec(name))


def test_a_file_is_no_model(tmp_path: Path) -> None:
    place = folder(tmp_path / "m")
    with pytest.raises(MissingWeights, match="is a file") as caught:
        locate(ModelSpec(str(place / "model.safetensors")))
    assert caught.value.hint == f"name {place}"


def test_a_folder_that_happens_to_have_the_hub_ids_name_is_not_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "someone" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    place = snapshot(tmp_path)
    assert locate(ModelSpec(MODEL)).path == str(place)


# GGUF files


def test_a_gguf_file_is_a_folder_and_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = gguf_file(tmp_path / "tiny.gguf")
    found = locate(ModelSpec(str(path)), offline=True)
    assert found == Located(str(tmp_path), gguf_file="tiny.gguf", origin="gguf")
    assert found.file == str(path)
    monkeypatch.chdir(tmp_path)
    assert locate(ModelSpec("tiny.gguf")) == found


def test_a_gguf_name_over_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"<!DOCTYPE html>")
    with pytest.raises(ModelError, match=r"is not a GGUF file: it starts with b'<!DO'"):
        locate(ModelSpec(str(path)))


def test_a_missing_gguf_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingWeights, match="there is no file"):
        locate(ModelSpec(str(tmp_path / "no.gguf")))


def test_a_gguf_file_on_the_hub_gets_the_command_that_downloads_it() -> None:
    with pytest.raises(MissingWeights) as caught:
        locate(ModelSpec("someone/model-GGUF/q4.gguf"))
    assert caught.value.hint == "hf download someone/model-GGUF q4.gguf, then name the file that it prints"


def test_without_the_gguf_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = gguf_file(tmp_path / "tiny.gguf")
    monkeypatch.setattr(convert.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ModelError, match="needs the gguf package") as caught:
        locate(ModelSpec(str(path)))
    assert caught.value.hint == "pip install 'specgen[gguf]'"


# Caches, and the order of places


def test_a_complete_snapshot_needs_no_network(tmp_path: Path) -> None:
    place = snapshot(tmp_path, shards=2)
    expected = Located(str(place), revision=COMMIT, origin="hub")
    for revision in (None, "main", COMMIT):
        assert locate(ModelSpec(MODEL, revision=revision, mirror=MIRROR)) == expected


def test_another_revision_is_not_this_one(tmp_path: Path) -> None:
    snapshot(tmp_path)
    assert cached(ModelSpec(MODEL, revision="v2")) is None


@pytest.mark.parametrize(
    "missing", ["config.json", "tokenizer.json", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
)
def test_an_incomplete_snapshot_does_not_count(tmp_path: Path, missing: str) -> None:
    (snapshot(tmp_path, shards=2) / missing).unlink()
    assert cached(ModelSpec(MODEL)) is None


def test_a_snapshot_whose_weights_were_deleted_does_not_count(tmp_path: Path) -> None:
    place = snapshot(tmp_path)
    (place / "model.safetensors").unlink()
    (place / "model.safetensors").symlink_to(tmp_path / "gone")
    assert cached(ModelSpec(MODEL)) is None


def test_a_damaged_snapshot_says_how_to_replace_the_file(tmp_path: Path) -> None:
    (snapshot(tmp_path) / "model.safetensors").write_bytes(b"\0" * 20)
    with pytest.raises(ModelError, match=r"model\.safetensors is not a safetensors file") as caught:
        cached(ModelSpec(MODEL, revision="main"))
    assert caught.value.hint == "hf download someone/model model.safetensors --revision main --force-download"


def converted(source: Mirror) -> Path:
    place = folder(mirror.folder_of(source))
    files = {path.name: path.stat().st_size for path in place.iterdir()}
    (place / "specgen.json").write_text(json.dumps({"format": 1, "files": files}))
    return place


def test_a_converted_mirror_is_used_without_asking_the_hub() -> None:
    place = converted(MIRROR)
    assert locate(ModelSpec(MODEL, mirror=MIRROR)) == Located(str(place), origin="mirror")
    assert cached(ModelSpec(MODEL)) is None


def test_a_snapshot_goes_before_a_converted_mirror(tmp_path: Path) -> None:
    converted(MIRROR)
    place = snapshot(tmp_path)
    assert locate(ModelSpec(MODEL, mirror=MIRROR)).path == str(place)


def test_offline_says_what_is_missing_where_it_was_looked_for_and_what_gets_it(tmp_path: Path) -> None:
    with pytest.raises(MissingWeights) as caught:
        locate(ModelSpec(MODEL, mirror=MIRROR), offline=True, profile="starter")
    assert caught.value.message == (
        f"someone/model is not on this machine: looked in the hub's cache {tmp_path / 'hub'} "
        f"and specgen's cache {tmp_path / 'specgen' / 'models'}"
    )
    assert caught.value.hint == "with a network: specgen pull starter, or: hf download someone/model"


def test_offline_says_what_an_incomplete_snapshot_lacks(tmp_path: Path) -> None:
    (snapshot(tmp_path, shards=2) / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(MissingWeights, match=r"where .* lacks model-00001-of-00002\.safetensors"):
        locate(ModelSpec(MODEL), offline=True)


def test_nonsense_is_no_hub_id(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cached(ModelSpec("not a hub id")) is None


def test_the_hub_is_asked_before_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "download", lambda _spec, _progress: tmp_path / COMMIT)
    found = locate(ModelSpec(MODEL, mirror=MIRROR))
    assert found == Located(str(tmp_path / COMMIT), revision=COMMIT, origin="hub")


def failing_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(spec: ModelSpec, _progress: object) -> None:
        raise MissingWeights(f"cannot get {spec.model}: no network", "plug it in")

    monkeypatch.setattr(hub, "download", fail)


def test_the_mirror_is_used_when_the_hub_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_hub(monkeypatch)
    monkeypatch.setattr(mirror, "fetch", lambda _spec, _mirror, _progress: tmp_path)
    assert locate(ModelSpec(MODEL, mirror=MIRROR)) == Located(str(tmp_path), origin="mirror")


def test_without_a_mirror_the_hubs_error_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_hub(monkeypatch)
    with pytest.raises(MissingWeights, match=r"^cannot get someone/model: no network$"):
        locate(ModelSpec(MODEL))


def test_when_both_fail_both_reasons_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ModelError("no space left", "buy a disk")

    failing_hub(monkeypatch)
    monkeypatch.setattr(mirror, "fetch", fail)
    with pytest.raises(MissingWeights) as caught:
        locate(ModelSpec(MODEL, mirror=MIRROR))
    assert caught.value.message == "cannot get someone/model: no network; its mirror: no space left"
    assert caught.value.hint == "buy a disk"


def test_what_is_cached_is_found_without_opening_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot(tmp_path)
    converted(MIRROR)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert locate(ModelSpec(MODEL)).origin == "hub"
    assert locate(ModelSpec("other/model", mirror=MIRROR)).origin == "mirror"


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder(tmp_path / "m")

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, os.strerror(13), str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ModelError, match=r"cannot read .*config\.json: Permission denied"):
        locate(ModelSpec(str(place)))
