"""What was learned is kept for the next run, and never in the way of one."""

from __future__ import annotations

import json

import pytest

from specgen import Request, Session, load
from specgen.learned import Learned
from specgen.profile import ModelSpec, Profile
from specgen.text import Spoken
from tests.pairs import folder


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    specs = [ModelSpec(str(folder(place / name, seed=seed)), dtype="float32") for seed, name in enumerate("ab")]
    return load(Profile("tiny", *specs))


def rounds(session, count=60, **options):
    events = session.stream("the quick brown fox", Request(max_tokens=count, **options))
    return [event.round for event in events if isinstance(event, Spoken)]


def test_a_run_leaves_a_file_and_the_next_one_begins_with_it(pair, tmp_path):
    memory = Learned(pair, tmp_path)
    assert memory.load() is None
    rounds(Session(pair, memory))
    learned = memory.load()
    assert learned["costs"]["passes"]["1"]["0"] > 0
    assert [path.name for path in tmp_path.iterdir()] == [memory.path.name]  # nothing half written
    assert Session(pair, memory)._learned == learned


def test_a_fixed_lookahead_learns_nothing(pair, tmp_path):
    memory = Learned(pair, tmp_path)
    rounds(Session(pair, memory), lookahead=3)
    assert memory.load() is None


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"format": 1, "costs": {"passes": 3}}', '{"format": 99}'])
def test_a_damaged_file_is_as_none(pair, tmp_path, damage):
    memory = Learned(pair, tmp_path)
    rounds(Session(pair, memory))
    memory.path.write_text(damage)
    assert memory.load() is None
    assert rounds(Session(pair, memory))
    assert json.loads(memory.path.read_text())["format"] == 1


def test_a_folder_that_cannot_be_written_is_no_failure(pair, tmp_path):
    (tmp_path / "file").write_text("")
    memory = Learned(pair, tmp_path / "file" / "under")
    assert rounds(Session(pair, memory))
    assert memory.load() is None


def test_the_text_is_the_same_whatever_was_learned(pair, tmp_path):
    memory = Learned(pair, tmp_path)
    texts = {
        tuple(token for played in rounds(Session(pair, memory), drafts=drafts) for token in played.tokens)
        for drafts in ("auto", "draft", "lookup", "both")
        for _ in range(2)
    }
    texts.add(tuple(token for played in rounds(Session(pair), lookahead=0) for token in played.tokens))
    assert len(texts) == 1


def test_another_arithmetic_has_another_file(pair, tmp_path):
    other = load(pair.profile, overrides=["target.dtype=bfloat16"])
    assert Learned(other, tmp_path).path != Learned(pair, tmp_path).path
