"""``specgen verify`` from its arguments to its report, on pairs of tiny models saved on the fly."""

from __future__ import annotations

import json

import pytest

from specgen.cli.main import main
from specgen.decoding import acceptance, sampler
from specgen.models.vocabulary import relate
from specgen.verify import run
from specgen.verify.report import LawCheck
from tests.consoles import console
from tests.verify.pairs import write_pair
from tests.words import byte_level, whole_words

QUICK = ("-n", "8", "-k", "1", "-k", "4", "--rows", "1", "--rows", "2")


@pytest.fixture
def no_laws(monkeypatch):
    """The laws take seconds and have their own tests."""
    monkeypatch.setattr(run, "check_laws", lambda: iter([LawCheck("token", 1, 0.0, 1e-12)]))


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return str(write_pair(tmp_path_factory.mktemp("pair")))


def call(*arguments, code=0, **settings):
    terminal = console(**settings)
    assert main(["verify", *arguments], terminal) == code, terminal.out + terminal.err
    return terminal


def test_a_sound_pair_exits_with_0_and_says_so(profile):
    terminal = call("-p", profile, *QUICK)
    lines = terminal.out.splitlines()
    assert lines[-1].startswith("no fault: the laws are exact, and in 10 runs every text is the target's own")
    for title in ("(D) output laws", "(P) the same seed", "(N) where rounding decided; float32"):
        assert any(line.startswith(title) for line in lines)
    assert "block" in terminal.out
    assert "6 prompts, 8 tokens each at most" in terminal.out
    assert terminal.out.isascii()
    assert "draft, k 4, temperature 0.8, 2 rows\n  6 of 6 texts are equal, 0 ties, 0 faults\n" in terminal.err


def test_the_json_object_holds_everything(profile, no_laws):
    terminal = call("-p", profile, *QUICK, "--json", "-q")
    assert terminal.err == ""
    found = json.loads(terminal.out)
    assert (found["ok"], found["faults"], found["ties"]) == (True, 0, 0)
    assert (found["dtype"], found["translation"], found["rule"]) == ("float32", "same", "coupled")
    assert {case["case"]["temperature"] for case in found["cases"]} == {0.0, 0.8}
    assert all(case["equal"] == case["texts"] == 6 for case in found["cases"])


def test_prompts_come_from_a_file_one_a_line(profile, no_laws, tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("the quick\n\nbrown fox\n")
    found = json.loads(call("-p", profile, *QUICK, "--json", "--prompts", str(file)).out)
    assert found["prompts"] == 2
    file.write_text("\n")
    assert "holds no prompts" in call("-p", profile, "--prompts", str(file), code=2).err
    assert "cannot read" in call("-p", profile, "--prompts", str(tmp_path / "none"), code=2).err
    file.write_bytes(b"\xff")
    assert "is not UTF-8" in call("-p", profile, "--prompts", str(file), code=2).err


def test_a_wrong_rule_exits_with_1_and_is_named(profile, monkeypatch):
    right = acceptance.RULES["block"]

    def greedy(tokens, draft, target, uniforms):
        return right(tokens, draft, target, uniforms * 0.9)

    monkeypatch.setitem(acceptance.RULES, "block", greedy)
    terminal = call("-p", profile, *QUICK, "-t", "0", code=1)
    assert terminal.out.splitlines()[-1].startswith("FAULT: 1 in block")


def test_an_unverified_token_exits_with_1_and_is_listed(profile, no_laws, monkeypatch):
    def wrong(proposed, own):
        accepted = (proposed == own[:, :-1]).long().cumprod(-1).sum(-1)
        more = (accepted + 1).clamp_max(proposed.shape[1])
        return more, own.gather(1, more[:, None])[:, 0]

    monkeypatch.setattr(sampler, "match", wrong)
    terminal = call("-p", profile, *QUICK, "-t", "0", code=1)
    assert "  fault: prompt 1, token 0: emitted " in terminal.out
    assert "random draft, k 4, temperature 0" in terminal.out.splitlines()[-1]
    found = json.loads(call("-p", profile, *QUICK, "-t", "0", "--json", code=1).out)
    assert found["faults"] > 0


def test_tokens_are_shown_escaped(profile, no_laws, monkeypatch):
    from specgen.display.verify_table import _shown
    from specgen.verify.report import Token

    assert _shown(Token(3, "\x1b[2J\n")) == "'\\x1b[2J\\n' (3)"


def test_strict(profile, no_laws):
    terminal = call("-p", profile, "-n", "8", "-k", "2", "--rows", "1", "--strict", "-t", "0.8")
    assert "strict: one shape for every pass" in terminal.out
    assert "not 12" in call("-p", profile, "-k", "12", "--strict", code=2).err


def test_vocabularies_padded_to_different_sizes(tmp_path, no_laws):
    """As Qwen2.5's: one tokenizer, 151,936 rows in the small models and 152,064 in the large ones."""
    profile = str(write_pair(tmp_path, rows=(152_064, 151_936)))
    found = json.loads(call("-p", profile, *QUICK, "--json", "--rows", "2", "-k", "3").out)
    assert (found["ok"], found["translation"], found["ties"]) == (True, "same", 0)


@pytest.mark.parametrize("way", ["intersection", "text"])
def test_tokenizers_that_really_differ(tmp_path, no_laws, way):
    target = byte_level(400)
    words = whole_words(["??", " xyzzy", " plugh", " fox", " grue", " frotz", " nitfol", " maze", " twisty"])
    words.add_special_tokens({"bos_token": "<s>", "eos_token": "</s>"})
    draft = byte_level(330, special=("</s>", "<s>")) if way == "intersection" else words
    assert relate(target, draft, target_size=400, draft_size=len(draft)).kind == way
    profile = str(write_pair(tmp_path, target=target, draft=draft))
    found = json.loads(call("-p", profile, *QUICK, "--json").out)
    assert (found["ok"], found["translation"], found["ties"]) == (True, way, 0)
    assert any(case["proposed"] for case in found["cases"] if case["case"]["source"] == "draft")
