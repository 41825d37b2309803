"""Headers over the network: a few kilobytes of every file, however large it is."""

from __future__ import annotations

import json
import socket

import pytest

from specgen.errors import ExitCode
from specgen.memory.errors import CannotTell
from specgen.memory.sources import find, stored
from specgen.profile import ModelSpec
from tests.models.hub_server import COMMIT, serving

MODEL = "someone/model"
CONFIG = json.dumps({"model_type": "llama", "hidden_size": 64}).encode()
AT_ONCE = 100_001  # bytes that the client asks for, in the hope that the header is among them


@pytest.fixture
def hub(tmp_path, monkeypatch):
    from huggingface_hub import constants, hf_api

    with serving() as server:
        template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        for place, name, value in (
            (constants, "ENDPOINT", server.address),
            (constants, "HUGGINGFACE_CO_URL_TEMPLATE", template),
            (constants, "HF_HUB_CACHE", str(tmp_path / "hub")),
            (constants, "HF_HUB_ETAG_TIMEOUT", 2),
            (hf_api.api, "endpoint", server.address),
        ):
            monkeypatch.setattr(place, name, value)
        monkeypatch.setenv("SPECGEN_CACHE", str(tmp_path / "specgen"))
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "127.0.0.1")
        yield server


def weights(tensors, *, padding=0):
    """A safetensors file of zeros: its header, and its bytes."""
    header, at = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode() + b" " * padding
    return header, len(text).to_bytes(8, "little") + text + bytes(at)


def expected(*headers):
    return stored({n: (t["dtype"], tuple(t["shape"]), t["data_offsets"]) for h in headers for n, t in h.items()})


@pytest.mark.parametrize("padding", [0, 150_000], ids=["short", "longer-than-one-request"])
def test_one_file(hub, padding):
    header, data = weights({"a": ("BF16", [600, 1000], 1_200_000), "b": ("F32", [8], 32)}, padding=padding)
    hub.repositories[MODEL] = {"config.json": CONFIG, "model.safetensors": data}

    known = find(ModelSpec(MODEL), offline=False)

    assert (known.name, known.origin, known.numbers) == ("model", "hub", json.loads(CONFIG))
    assert known.stored == expected(header)
    assert known.stored.bytes == 1_200_032
    sent = hub.sent[f"/{MODEL}/resolve/main/model.safetensors"]
    assert sent == AT_ONCE + (len(data) - 1_200_032 - 8 if padding else 0)
    assert sent < len(data) / 3


def test_shards(hub):
    parts = [weights({f"w{i}": ("F16", [300, 500], 300_000)}) for i in range(3)]
    names = [f"model-{i + 1:05}-of-00003.safetensors" for i in range(3)]
    index = {"metadata": {}, "weight_map": {f"w{i}": name for i, name in enumerate(names)}}
    hub.repositories[MODEL] = {
        "config.json": CONFIG,
        "model.safetensors.index.json": json.dumps(index).encode(),
        **{name: data for name, (_, data) in zip(names, parts, strict=True)},
    }

    known = find(ModelSpec(MODEL), offline=False)

    assert known.stored == expected(*(header for header, _ in parts))
    assert all(hub.sent[f"/{MODEL}/resolve/main/{name}"] == AT_ONCE for name in names)


def test_a_revision(hub):
    header, data = weights({"a": ("F32", [8], 32)})
    hub.repositories[MODEL] = {"config.json": CONFIG, "model.safetensors": data}

    assert find(ModelSpec(MODEL, revision=COMMIT), offline=False).stored == expected(header)
    assert all("/main/" not in path for path in hub.asked)


def test_offline_asks_nobody(hub):
    with pytest.raises(CannotTell, match="neither its config nor its headers are on this machine") as caught:
        find(ModelSpec(MODEL), offline=True)
    assert caught.value.exit_code == ExitCode.CANNOT_TELL
    assert hub.asked == []


def refused(**changes):
    with pytest.raises(CannotTell, match="cannot plan model: ") as caught:
        find(ModelSpec(MODEL, **changes), offline=False)
    assert caught.value.exit_code == ExitCode.CANNOT_TELL
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value.message


def test_a_repository_without_safetensors(hub):
    hub.repositories[MODEL] = {"config.json": CONFIG, "pytorch_model.bin": b"x"}
    assert "safetensors" in refused()


def test_a_damaged_header(hub):
    hub.repositories[MODEL] = {"config.json": CONFIG, "model.safetensors": (2**60).to_bytes(8, "little") + b"{}"}
    assert "header is too big" in refused()


def test_no_such_model(hub):
    assert f"cannot get {MODEL}" in refused()


def test_a_gated_model(hub):
    hub.repositories[MODEL] = {"config.json": CONFIG}
    hub.failures[f"/{MODEL}/resolve"] = (403, {"X-Error-Code": "GatedRepo"})
    assert "gated" in refused()


def test_no_hub(hub, monkeypatch):
    from huggingface_hub import constants, hf_api

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(hf_api.api, "endpoint", address)
    assert "refuses the connection" in refused()
