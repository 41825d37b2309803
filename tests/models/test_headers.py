from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from specgen.errors import MissingWeights, ModelError
from specgen.models.headers import check_safetensors, read_gguf
from tests.models.tiny_files import HEADS, HIDDEN, KV_HEADS, LAYERS, MIDDLE, gguf_file


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.ones(40, 5), "b": torch.ones(3)}, path, metadata={"format": "pt"})
    return path


@pytest.fixture(scope="module")
def gguf_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return gguf_file(tmp_path_factory.mktemp("gguf") / "tiny.gguf").read_bytes()


def test_a_whole_safetensors_file_passes(weights: Path) -> None:
    check_safetensors(weights, "hint")


def test_a_file_without_tensors_passes(tmp_path: Path) -> None:
    save_file({}, tmp_path / "empty.safetensors")
    check_safetensors(tmp_path / "empty.safetensors", "hint")


def test_every_cut_of_a_safetensors_file_is_noticed(weights: Path) -> None:
    whole = weights.read_bytes()
    for length in [*range(200), len(whole) // 2, len(whole) - 1]:
        weights.write_bytes(whole[:length])
        with pytest.raises(ModelError) as caught:
            check_safetensors(weights, "copy it again")
        assert str(weights) in caught.value.message
        assert caught.value.hint == "copy it again"
        assert not isinstance(caught.value, MissingWeights)


def test_the_sizes_of_a_cut_file_are_named(weights: Path) -> None:
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    with pytest.raises(ModelError, match=f"is cut short: {len(whole) - 100:,} bytes, its header says {len(whole):,}"):
        check_safetensors(weights, "hint")


def test_bytes_after_the_end_are_noticed(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes() + b"\0")
    with pytest.raises(ModelError, match="bytes after its end"):
        check_safetensors(weights, "hint")


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (b"[1, 2]", "damaged"),
        (b"{not json}", "damaged"),
        (b'{"a": {"data_offsets": "x"}}', "damaged"),
        (b'{"a": {"dtype": "F32"}}', "damaged"),
        (b'{"a": 7}', "damaged"),
        (b'{"a": {"data_offsets": [0, 1e999]}}', "damaged"),
        (b"[" * 100_000, "damaged"),
        (b"\xff\xfe\xff\xfe", "damaged"),
    ],
)
def test_a_damaged_header_is_named(tmp_path: Path, header: bytes, fault: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ModelError, match=fault):
        check_safetensors(path, "hint")


def test_a_git_lfs_pointer_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    with pytest.raises(ModelError, match="git-lfs pointer") as caught:
        check_safetensors(path, "hint")
    assert caught.value.hint is not None
    assert "git lfs pull" in caught.value.hint


def test_a_gguf_header_gives_scalars_strings_and_the_number_of_weights(tmp_path: Path, gguf_bytes: bytes) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_bytes)
    header = read_gguf(path, "hint")
    attention = 2 * HIDDEN * HIDDEN + 2 * HIDDEN * (HIDDEN // HEADS) * KV_HEADS
    layers = LAYERS * (attention + 3 * HIDDEN * MIDDLE + 2 * HIDDEN)
    assert header.weights == 262 * HIDDEN + HIDDEN + layers
    assert header.metadata["general.architecture"] == "llama"
    assert header.metadata["llama.rope.freq_base"] == 10000.0
    assert header.metadata["tokenizer.ggml.add_bos_token"] is False
    assert "tokenizer.ggml.tokens" not in header.metadata
    assert (header.token("bos"), header.token("eos"), header.token("eot")) == (1, 0, None)


def test_the_gguf_reader_agrees_on_every_scalar(tmp_path: Path, gguf_bytes: bytes) -> None:
    import gguf

    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_bytes)
    theirs = {
        name: field.contents()
        for name, field in gguf.GGUFReader(path).fields.items()
        if field.types[0] != gguf.GGUFValueType.ARRAY and not name.startswith("GGUF.")
    }
    assert read_gguf(path, "hint").metadata == theirs


def test_a_gguf_file_that_loses_its_last_tensors_is_noticed(tmp_path: Path, gguf_bytes: bytes) -> None:
    path = tmp_path / "tiny.gguf"
    for length in [0, 3, 7, 8, 23, 24, 100, 2000, len(gguf_bytes) // 2]:
        path.write_bytes(gguf_bytes[:length])
        with pytest.raises(ModelError) as caught:
            read_gguf(path, "copy it again")
        assert str(path) in caught.value.message
        assert caught.value.hint == "copy it again"


@pytest.mark.parametrize(
    ("start", "fault"),
    [
        (b"PK\x03\x04more", r"not a GGUF file: it starts with b'PK\\x03\\x04'"),
        (b"", "not a GGUF file"),
        (b"GGUF\x01\0\0\0", "GGUF version 1;"),
        (b"GGUF\0\0\0\x03", "GGUF version 50331648;"),
    ],
)
def test_what_is_no_gguf_is_refused(tmp_path: Path, start: bytes, fault: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(start)
    with pytest.raises(ModelError, match=fault):
        read_gguf(path, "hint")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(8, 3000), value=st.integers(0, 255))
def test_a_changed_byte_never_ends_in_another_kind_of_error(
    tmp_path: Path, gguf_bytes: bytes, place: int, value: int
) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_bytes[:place] + bytes([value]) + gguf_bytes[place + 1 :])
    try:
        header = read_gguf(path, "hint")
    except ModelError:
        return
    assert header.weights >= 0


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    for check in (check_safetensors, read_gguf):
        with pytest.raises(ModelError, match=r"cannot read .*gone: No such file"):
            check(tmp_path / "gone", "hint")


def test_metadata_is_no_tensor(tmp_path: Path) -> None:
    header = json.dumps({"__metadata__": {"data_offsets": "no"}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    check_safetensors(path, "hint")
