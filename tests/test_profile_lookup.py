"""Where a profile's name is looked up, and what is said when it is nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from specgen.errors import ProfileError
from specgen.profile import Found, config_folder, find, listing, load_profile
from specgen.profile.lookup import shipped_folder


class World:
    """A home, a current folder and two folders in ``SPECGEN_PROFILES``."""

    def __init__(self, root: Path) -> None:
        self.cwd = root / "cwd"
        self.cwd.mkdir()
        self.folders = {
            "first": root / "first",
            "second": root / "second",
            "here": self.cwd / "profiles",
            "user": root / "home" / ".config" / "specgen" / "profiles",
        }
        self.env = {
            "HOME": str(root / "home"),
            "SPECGEN_PROFILES": os.pathsep.join([str(root / "first"), "", str(root / "missing"), str(root / "second")]),
        }

    def put(self, where: str, file: str) -> Path:
        path = self.folders[where] / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"target: {where}/model\n")
        return path

    def find(self, name: str) -> Path:
        return find(name, env=self.env, cwd=self.cwd)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_first_folder_that_has_the_name_wins(world: World) -> None:
    for where in ("user", "here", "second", "first"):
        path = world.put(where, "starter.yaml")
        assert world.find("starter") == path
        assert load_profile("starter", env=world.env, cwd=world.cwd).target.model == f"{where}/model"


def test_what_nobody_shadows_is_the_shipped_one(world: World) -> None:
    assert world.find("starter") == shipped_folder() / "starter.yaml"


def test_both_suffixes_are_found_and_yaml_comes_first(world: World) -> None:
    short = world.put("here", "mine.yml")
    assert world.find("mine") == short
    long = world.put("here", "mine.yaml")
    assert world.find("mine") == long


def test_the_listing_is_in_lookup_order_and_marks_what_is_shadowed(world: World) -> None:
    here_b, here_a = world.put("here", "b.yaml"), world.put("here", "a.yml")
    second, user = world.put("second", "a.yaml"), world.put("user", "b.yaml")
    world.put("here", ".hidden.yaml")
    world.put("here", "notes.txt")
    (world.folders["here"] / "folder.yaml").mkdir()
    own = [found for found in listing(env=world.env, cwd=world.cwd) if found.place != "shipped"]
    assert own == [
        Found("a", second, False, str(world.folders["second"])),
        Found("a", here_a, True, "./profiles"),
        Found("b", here_b, False, "./profiles"),
        Found("b", user, True, str(world.folders["user"])),
    ]


def test_a_folder_that_is_named_twice_shadows_nothing(world: World) -> None:
    path = world.put("here", "a.yaml")
    world.env["SPECGEN_PROFILES"] = os.pathsep.join(["profiles", str(path.parent)])
    assert [found.shadowed for found in listing(env=world.env, cwd=world.cwd) if found.name == "a"] == [False]


@pytest.mark.parametrize("name", ["../secret", "first/../../secret", "./secret", "secret.yaml", "a/b"])
def test_what_looks_like_a_path_is_never_looked_up(world: World, name: str) -> None:
    world.put("here", "secret.yaml")
    world.put("user", "b.yaml")
    with pytest.raises(ProfileError, match="no profile at "):
        world.find(name)


@pytest.mark.parametrize("name", ["", ".", "..", "secret\0", "*", "secr?t", "~"])
def test_no_name_leaves_its_folder(world: World, name: str) -> None:
    world.put("here", "secret.yaml")
    with pytest.raises(ProfileError, match=r"^no profile named .* \(looked in "):
        world.find(name)


def test_a_path_is_relative_to_the_current_folder(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    path = world.put("here", "mine.yaml")
    assert world.find("profiles/mine.yaml") == path
    assert world.find(str(path)) == path
    monkeypatch.chdir(world.cwd)
    assert find("profiles/mine.yaml", env=world.env) == Path("profiles/mine.yaml")
    with pytest.raises(ProfileError, match=r"^profiles: a folder, expected a file$"):
        load_profile("profiles/", env=world.env)


def test_an_unknown_name_says_where_it_was_looked_for_and_what_may_be_meant(world: World) -> None:
    world.put("first", "my-pair.yaml")
    with pytest.raises(ProfileError) as caught:
        world.find("My-piar")
    folders = [world.folders["first"], world.folders["first"].parent / "missing", world.folders["second"]]
    looked = ", ".join([*map(str, folders), "./profiles", str(world.folders["user"]), "the shipped ones"])
    assert caught.value.message == f"no profile named 'My-piar' (looked in {looked})"
    assert caught.value.hint == "did you mean my-pair?"
    with pytest.raises(ProfileError) as caught:
        world.find("qqqqqq")
    assert caught.value.hint == "`specgen profiles list` shows the profiles there are"


def test_a_misspelt_path_names_the_file_beside_it(world: World) -> None:
    path = world.put("here", "my-pair.yaml")
    with pytest.raises(ProfileError) as caught:
        world.find("profiles/my-piar.yaml")
    assert caught.value.message == f"no profile at {path.with_name('my-piar.yaml')}"
    assert caught.value.hint == f"did you mean {path}?"


@pytest.mark.parametrize("xdg", [None, "", "/somewhere/config"])
def test_the_users_folder_is_clicks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, xdg: str | None) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if xdg is not None:
        monkeypatch.setenv("XDG_CONFIG_HOME", xdg)
    if xdg != "":  # click takes an empty variable at its word, which the specification forbids
        assert str(config_folder(os.environ)) == click.get_app_dir("specgen")
    assert config_folder(os.environ, "linux") == Path(xdg or tmp_path / ".config") / "specgen"
    assert config_folder(os.environ, "darwin") == tmp_path / "Library" / "Application Support" / "specgen"
    windows = {"USERPROFILE": "/u", "APPDATA": "/u/roaming"}
    assert config_folder(windows, "win32") == Path("/u/roaming/specgen")
    assert config_folder({"USERPROFILE": "/u"}, "win32") == Path("/u/specgen")


def test_profiles_need_neither_torch_nor_click() -> None:
    program = (
        "import sys, specgen.profile as p; [p.read_profile(f.path) for f in p.listing()];"
        "print([m for m in ('torch', 'transformers', 'click', 'rich', 'numpy') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
