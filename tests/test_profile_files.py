"""Reading a profile's file: every way in which it can be none is one line with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from specgen.errors import ProfileError
from specgen.profile import read_profile


def problem(path: Path) -> tuple[str, str | None]:
    with pytest.raises(ProfileError) as caught:
        read_profile(path)
    assert "\n" not in caught.value.message
    return caught.value.message, caught.value.hint


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pair.yaml"


PLAIN = "a profile holds text, numbers, true, false, null, lists and mappings"
QUOTES = "check the indentation, and put text with special characters in quotes"


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ("target: m\nlookahead: 3\ntarget: n", ":3: the key target is given twice", "keep one of the two"),
        ("target: {model: m, model: n}", ":1: the key model is given twice", "keep one of the two"),
        ("target: m\n  draft: d", ":2: not valid YAML: mapping values are not allowed here", QUOTES),
        ("target: [m", ":1: not valid YAML: expected ',' or ']', but got '<stream end>'", QUOTES),
        (
            "target: m\nchat:\t\ttrue: x",
            ":2: not valid YAML: found character '\\t' that cannot start any token",
            QUOTES,
        ),
        ("target: *m", ":1: not valid YAML: found undefined alias 'm'", QUOTES),
        ("target: m\n---\ntarget: n", ":2: not valid YAML: but found another document", QUOTES),
        (
            "target: !!python/object/apply:os.system [ls]",
            ":1: the tag !!python/object/apply:os.system is not allowed",
            PLAIN,
        ),
        ("target: !env HOME", ":1: the tag !env is not allowed", PLAIN),
        ("target: 2024-13-01", ": holds a value that cannot be: month must be in 1..12", "put text in quotes"),
        ("target: !!int ''", ": holds a value that cannot be: string index out of range", "put text in quotes"),
        ("target: !!bool maybe", ": holds a value that cannot be: 'maybe'", "put text in quotes"),
        ("[" * 2000, ": nested too deeply", None),
    ],
)
def test_what_yaml_or_a_profile_does_not_allow(file: Path, content: str, message: str, hint: str | None) -> None:
    file.write_text(content)
    assert problem(file) == (f"{file}{message}", hint)


def test_a_file_that_is_not_utf8(file: Path) -> None:
    file.write_bytes("target: m\ndescription: größer\n".encode("latin-1"))
    assert problem(file) == (f"{file}:2: not UTF-8 text: byte 0xf6", "save the file as UTF-8")


def test_a_byte_order_mark_and_windows_line_ends_are_fine(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbftarget: m\r\nlookahead: 2\r\n")
    assert read_profile(file).lookahead == 2


def test_a_zero_byte(file: Path) -> None:
    file.write_bytes(b"target: m\x00")
    assert problem(file)[0].startswith(f"{file}: not valid YAML: unacceptable character")


def test_a_folder_a_missing_file_and_a_name_no_file_can_have(tmp_path: Path) -> None:
    assert problem(tmp_path) == (f"{tmp_path}: a folder, expected a file", "name one of the files in it")
    assert problem(tmp_path / "no.yaml")[0] == f"{tmp_path / 'no.yaml'}: no such file"
    assert problem(tmp_path / ("x" * 5000))[0].endswith(": cannot be read: file name too long")
    assert problem(tmp_path / "a\0b")[0].endswith(": cannot be read: embedded null byte")


def test_a_link_to_itself(file: Path) -> None:
    file.symlink_to(file)
    assert problem(file)[0] == f"{file}: cannot be read: too many levels of symbolic links"


def test_a_model_file_given_as_a_profile(file: Path) -> None:
    with file.open("wb") as out:
        out.truncate(5 << 30)  # sparse: reading it whole would take the memory
    assert problem(file) == (f"{file}: larger than 1 MiB, which no profile is", "is it a model's file?")


def test_variables_are_not_replaced(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "elsewhere")
    file.write_text("target: $WHERE/model\ndraft: ${WHERE}\ndescription: '%(WHERE)s {WHERE}'")
    profile = read_profile(file)
    assert profile.draft is not None
    assert (profile.target.model, profile.draft.model) == ("$WHERE/model", "${WHERE}")
    assert profile.description == "%(WHERE)s {WHERE}"


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("./weights", "{folder}/weights"),
        ("../weights.gguf", "{parent}/weights.gguf"),
        ("weights", "weights"),
        ("org/.hidden", "org/.hidden"),
        ("/abs/../weights", "/abs/../weights"),
    ],
)
def test_a_dot_path_is_taken_from_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, meant: str
) -> None:
    folder = tmp_path / "pairs"
    folder.mkdir()
    (folder / "p.yaml").write_text(f"target: {model}\ndraft: {{model: {model}, dtype: float32}}")
    expected = meant.format(folder=folder, parent=tmp_path)
    monkeypatch.chdir(tmp_path)
    for path in (folder / "p.yaml", Path("pairs/p.yaml")):
        profile = read_profile(path)
        assert profile.draft is not None
        assert (profile.target.model, profile.draft.model, profile.draft.dtype) == (expected, expected, "float32")
        assert (profile.name, profile.source) == ("p", str(path))
