from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from specgen.errors import MissingWeights, ModelError
from specgen.models import hub, hub_worker, store
from specgen.models.sources import Located, cached, locate
from specgen.profile import Mirror, ModelSpec
from tests.models.hub_server import COMMIT, Hub, serving
from tests.models.tiny_files import folder

MODEL = "someone/model"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving() as hub_:
        point_at(hub_.address, tmp_path, monkeypatch)
        yield hub_


def point_at(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 2)
    monkeypatch.setenv("SPECGEN_CACHE", str(tmp_path / "specgen"))
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


def repository(tmp_path: Path, *, shards: int = 1) -> dict[str, bytes]:
    place = folder(tmp_path / "made", shards=shards)
    return {path.name: path.read_bytes() for path in place.iterdir()}


class Recorder:
    """A progress that remembers its stages: label, total, and the bytes it was told."""

    def __init__(self) -> None:
        self.stages: list[list[object]] = []

    @contextmanager
    def stage(self, label: str, total: int | None = None) -> Iterator[object]:
        stage: list[object] = [label, total, 0]
        self.stages.append(stage)

        def advance(count: int) -> None:
            assert count > 0
            stage[2] += count  # type: ignore[operator]

        yield advance


@pytest.mark.parametrize("shards", [1, 3])
def test_a_download_is_complete_and_then_needs_no_hub(tmp_path: Path, server: Hub, shards: int) -> None:
    server.repositories[MODEL] = repository(tmp_path, shards=shards)
    progress = Recorder()
    found = locate(ModelSpec(MODEL), progress=progress)
    assert found.origin == "hub"
    assert found.revision == COMMIT
    assert {p.name: p.read_bytes() for p in Path(found.path).iterdir()} == server.repositories[MODEL]
    total = sum(map(len, server.repositories[MODEL].values()))
    assert progress.stages == [[f"asking the hub for {MODEL}", None, 0], [f"downloading {MODEL}", total, total]]
    server.asked.clear()
    assert locate(ModelSpec(MODEL)) == cached(ModelSpec(MODEL)) == found
    assert server.asked == []


def test_a_revision_is_downloaded_and_found_again(tmp_path: Path, server: Hub) -> None:
    server.repositories[MODEL] = repository(tmp_path)
    spec = ModelSpec(MODEL, revision=COMMIT)
    assert locate(spec) == cached(spec)
    assert cached(ModelSpec(MODEL, revision="main")) is None


def test_only_what_transformers_reads_is_downloaded(tmp_path: Path, server: Hub) -> None:
    wanted = repository(tmp_path, shards=2) | {
        "chat_template.jinja": b"x",
        "additional_chat_templates/tool.jinja": b"x",
        "merges.txt": b"x",
        "tokenizer.model": b"x",
    }
    server.repositories[MODEL] = wanted | {
        "pytorch_model.bin": b"pickle",
        "model.pt": b"pickle",
        "consolidated.safetensors": b"twice",
        "adapter_model.safetensors": b"other",
        "original/params.json": b"{}",
        "onnx/model.onnx": b"x",
        "onnx/config.json": b"{}",
        "modeling_custom.py": b"evil()",
        "README.md": b"x",
        "q4.gguf": b"GGUF",
    }
    place = Path(locate(ModelSpec(MODEL)).path)
    assert {p.relative_to(place).as_posix() for p in place.rglob("*") if p.is_file()} == set(wanted)
    assert not [path for path in server.asked if path.endswith((".bin", ".pt", ".py", ".gguf", "consolidated"))]


def test_the_single_file_is_enough_where_there_are_shards_too(tmp_path: Path, server: Hub) -> None:
    server.repositories[MODEL] = repository(tmp_path) | {"model-00001-of-00001.safetensors": b"again"}
    assert not list(Path(locate(ModelSpec(MODEL)).path).glob("model-*"))


def test_an_incomplete_snapshot_is_completed(tmp_path: Path, server: Hub) -> None:
    server.repositories[MODEL] = repository(tmp_path, shards=2)
    place = Path(locate(ModelSpec(MODEL)).path)
    shard = place / "model-00002-of-00002.safetensors"
    size = shard.stat().st_size
    shard.resolve().unlink()
    shard.unlink()
    progress = Recorder()
    locate(ModelSpec(MODEL), progress=progress)
    assert shard.is_file()
    assert progress.stages[-1] == [f"downloading {MODEL}", size, size]


def test_a_damaged_download_is_noticed(tmp_path: Path, server: Hub) -> None:
    files = repository(tmp_path)
    server.repositories[MODEL] = files | {"model.safetensors": files["model.safetensors"][:-1]}
    with pytest.raises(ModelError, match=r"model\.safetensors is cut short"):
        locate(ModelSpec(MODEL))


@pytest.mark.parametrize(
    ("files", "message", "hint"),
    [
        ({"config.json": b"{}", "pytorch_model.bin": b"x"}, "holds no safetensors weights", "pickled weights"),
        ({"config.json": b"{}", "model-1.safetensors": b"x"}, "holds no safetensors weights", "pickled weights"),
        ({"q8.gguf": b"x", "q4.gguf": b"x"}, "holds no config.json", "hf download someone/model q4.gguf"),
        ({}, "holds no config.json", ""),
    ],
)
def test_a_repository_without_usable_weights_is_refused_before_the_download(
    server: Hub, files: dict[str, bytes], message: str, hint: str
) -> None:
    server.repositories[MODEL] = files
    with pytest.raises(MissingWeights, match=message) as caught:
        locate(ModelSpec(MODEL))
    assert hint in (caught.value.hint or "")
    assert not [path for path in server.asked if "/resolve/" in path]


API = f"/api/models/{MODEL}"


@pytest.mark.parametrize(
    ("spec", "start", "status", "headers", "message", "hint"),
    [
        (ModelSpec("no/body"), "-", 0, {}, "the hub has no model no/body, or it is private", "hf auth login"),
        (ModelSpec(MODEL), API, 401, {}, "the hub has no model someone/model, or it is private", "/someone/model"),
        (
            ModelSpec(MODEL, gated=True),
            API,
            401,
            {},
            "someone/model is gated: its terms must be accepted first",
            "/someone/model, then: hf auth login",
        ),
        (
            ModelSpec(MODEL),
            "/someone/model/resolve",
            403,
            {"X-Error-Code": "GatedRepo"},
            "someone/model is gated: its terms must be accepted first",
            "/someone/model, then: hf auth login",
        ),
        (
            ModelSpec(MODEL),
            "/someone/model/resolve",
            401,
            {"X-Error-Code": "GatedRepo"},
            "someone/model is gated: its terms must be accepted first",
            "/someone/model, then: hf auth login",
        ),
        (
            ModelSpec(MODEL),
            API,
            401,
            {"X-Error-Message": "Invalid credentials in Authorization header"},
            "cannot get someone/model: the hub refuses the token that it was given",
            "hf auth login",
        ),
        (
            ModelSpec(MODEL, revision="v9"),
            "-",
            0,
            {},
            "someone/model has no revision 'v9' on the hub",
            "/someone/model/commits/main",
        ),
        (ModelSpec(MODEL), API, 429, {}, "cannot get someone/model: the hub asks to wait", "hf auth login"),
        (ModelSpec(MODEL), API, 500, {}, "cannot get someone/model: the hub answers with an error (500)", "later"),
        (ModelSpec(MODEL), API, 503, {}, "cannot get someone/model: the hub answers with an error (503)", "later"),
    ],
)
def test_refusals_are_told_apart(
    tmp_path: Path,
    server: Hub,
    spec: ModelSpec,
    start: str,
    status: int,
    headers: dict[str, str],
    message: str,
    hint: str,
) -> None:
    server.repositories[MODEL] = repository(tmp_path)
    server.failures[start] = (status, headers)
    with pytest.raises(MissingWeights) as caught:
        locate(spec)
    assert caught.value.message.startswith(message)
    assert "\n" not in caught.value.message
    assert hint in (caught.value.hint or "")


def test_no_hub_id_is_said_to_be_one(server: Hub) -> None:
    with pytest.raises(MissingWeights, match="'not an id' is neither a folder nor a file here, nor a hub id"):
        locate(ModelSpec("not an id"))
    assert server.asked == []


def test_a_hub_that_does_not_answer_is_given_up(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.3)
    server.delay = 1.5
    start = time.perf_counter()
    with pytest.raises(MissingWeights, match=r"127\.0\.0\.1:\d+ did not answer within 0.3 s"):
        locate(ModelSpec(MODEL))
    assert time.perf_counter() - start < 1.4


def test_a_name_service_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at("http://hub.invalid", tmp_path, monkeypatch)
    monkeypatch.setattr(hub, "SHORT_PATIENCE", 0.3)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: time.sleep(2) or [])
    monkeypatch.setattr("specgen.models.mirror.fetch", lambda _spec, _mirror, _progress: tmp_path)
    start = time.perf_counter()
    found = locate(ModelSpec(MODEL, mirror=Mirror("a==1", "b", "0" * 64)))
    assert found == Located(str(tmp_path), origin="mirror")
    assert time.perf_counter() - start < 1.5


def test_no_network_no_server_and_a_dead_proxy_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_name(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    point_at("http://127.0.0.1:9", tmp_path, monkeypatch)
    with pytest.raises(MissingWeights, match=r"^cannot get someone/model: 127\.0\.0\.1:9 refuses the connection$"):
        locate(ModelSpec(MODEL))
    point_at("http://hub.invalid", tmp_path, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", no_such_name)
        with pytest.raises(MissingWeights, match=r"hub\.invalid cannot be found: no network, or no name service"):
            locate(ModelSpec(MODEL))


def test_without_a_network_the_mirror_is_reached_within_seconds(tmp_path: Path) -> None:
    """In a process of its own, because the hub's client reads its settings when it is imported."""
    script = """
import time
from specgen.errors import SpecgenError
from specgen.models import mirror
from specgen.models.sources import locate
from specgen.profile import Mirror, ModelSpec
mirror.fetch = lambda spec, source, progress: print("mirror", time.perf_counter() - start) or "x"
spec = ModelSpec("someone/model", mirror=Mirror("a==1", "b", "0" * 64))
start = time.perf_counter()
locate(spec)
try:
    locate(ModelSpec("someone/model"))
except SpecgenError as error:
    print(error.message)
"""
    cases = {
        "HF_ENDPOINT=http://127.0.0.1:9": "127.0.0.1:9 refuses the connection",
        "HF_ENDPOINT=http://hub.invalid": "hub.invalid cannot be found: no network, or no name service",
        "HF_HUB_OFFLINE=1": "the hub was not asked, because HF_HUB_OFFLINE is set",
        "HTTPS_PROXY=http://127.0.0.1:9": "huggingface.co, through the proxy, refuses the connection",
    }
    clean = {name: value for name, value in os.environ.items() if "PROXY" not in name.upper()}
    clean |= {"HF_HOME": str(tmp_path), "SPECGEN_CACHE": str(tmp_path)}
    children = {
        case: subprocess.Popen(
            [sys.executable, "-c", script],
            env={**clean, **dict([case.split("=")])},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for case in cases
    }
    for case, child in children.items():
        first, second = child.communicate(timeout=60)[0].splitlines()
        assert second == f"cannot get someone/model: {cases[case]}"
        assert float(first.split()[1]) < 8


def test_a_full_disk_is_noticed_before_the_download(
    tmp_path: Path, server: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.repositories[MODEL] = repository(tmp_path)
    monkeypatch.setattr(store, "free_bytes", lambda _folder: 10)
    with pytest.raises(ModelError, match=r"no space left in .*hub, about [0-9.]+ (kB|B) needed, 10 B free") as caught:
        locate(ModelSpec(MODEL))
    assert "HF_HUB_CACHE" in (caught.value.hint or "")
    assert not [path for path in server.asked if "/resolve/" in path]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_disk_that_fills_up_is_named(tmp_path: Path, server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.repositories[MODEL] = repository(tmp_path) | {"vocab.txt": bytes(50_000)}
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
    monkeypatch.setattr(hub_worker, "_START", limit + hub_worker._START)
    with pytest.raises(ModelError, match=r"^no space left in .*hub, .* free$"):
        locate(ModelSpec(MODEL))
    monkeypatch.undo()
    assert not list((tmp_path / "hub").rglob("vocab.txt"))


def answer_to(monkeypatch: pytest.MonkeyPatch, error: Exception) -> dict[str, object]:
    import huggingface_hub
    from huggingface_hub import utils

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    monkeypatch.setattr(utils, "disable_progress_bars", lambda: None)
    request = {"model": MODEL, "revision": None, "gated": False, "files": [], "patience": 1.0}
    return hub_worker._answer(request)


def test_a_full_disk_is_recognised_through_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("the download failed")
    error.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert answer_to(monkeypatch, error)["full"] is True
    assert answer_to(monkeypatch, RuntimeError("I/O error: full (os error 28)"))["full"] is True
    assert answer_to(monkeypatch, RuntimeError("the moon"))["full"] is False


def test_an_error_nobody_thought_of_is_still_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = answer_to(monkeypatch, RuntimeError("\nthe moon is wrong\nlong story"))
    assert answer["message"] == "cannot get someone/model: the moon is wrong"
    assert "long story" in str(answer["detail"])


def test_a_worker_that_dies_is_an_error_too(tmp_path: Path, server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.repositories[MODEL] = repository(tmp_path)
    monkeypatch.setattr(hub_worker, "_START", "import os; os._exit(7)  # {root}")
    with pytest.raises(MissingWeights, match=r"^cannot get someone/model: the download ended without a word$"):
        locate(ModelSpec(MODEL))


def test_the_users_folder_is_not_where_the_worker_looks_for_modules(
    tmp_path: Path, server: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "huggingface_hub", "specgen"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    server.repositories[MODEL] = repository(tmp_path)
    assert locate(ModelSpec(MODEL)).revision == COMMIT


def test_a_download_ends_with_the_one_who_asked_for_it(tmp_path: Path, server: Hub) -> None:
    server.repositories[MODEL] = repository(tmp_path)
    server.delay = 20.0
    with hub_worker.start(hub._settings()) as worker:
        assert worker.stdin is not None
        request = {"model": MODEL, "revision": None, "gated": False, "files": ["config.json"], "patience": 30.0}
        worker.stdin.write(json.dumps(request).encode() + b"\n")
        worker.stdin.flush()
        for _ in range(400):
            if server.asked:
                break
            time.sleep(0.02)
        assert server.asked
        worker.stdin.close()
        assert worker.wait(timeout=5) == 1


def test_the_clients_bars_and_messages_stay_away(
    tmp_path: Path, server: Hub, capfd: pytest.CaptureFixture[str]
) -> None:
    from huggingface_hub.utils import are_progress_bars_disabled

    before = are_progress_bars_disabled()
    server.repositories[MODEL] = repository(tmp_path, shards=2)
    locate(ModelSpec(MODEL))
    assert capfd.readouterr() == ("", "")
    assert are_progress_bars_disabled() is before


def test_the_index_decides_which_shards_are_needed(tmp_path: Path, server: Hub) -> None:
    files = repository(tmp_path, shards=2)
    index = json.loads(files["model.safetensors.index.json"])
    index["weight_map"]["w9"] = "elsewhere.safetensors"
    server.repositories[MODEL] = files | {"model.safetensors.index.json": json.dumps(index).encode()}
    with pytest.raises(MissingWeights, match=r"lacks elsewhere\.safetensors"):
        locate(ModelSpec(MODEL))
