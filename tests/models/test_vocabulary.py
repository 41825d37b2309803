"""What two tokenizers have in common, by content."""

from __future__ import annotations

import pytest

from specgen.models.vocabulary import first_difference, intersection, relate, same_file
from tests.words import byte_level, characters, whole_words


def test_padding_and_added_tokens_at_the_end_are_no_difference():
    short, long = byte_level(300), byte_level(300)
    long.add_tokens(["<extra>", "<more>"])
    size = len(short)
    relation = relate(long, short, target_size=512, draft_size=384)
    assert (relation.kind, relation.common, relation.difference) == ("same", size, "")
    assert relate(short, long, target_size=384, draft_size=512).common == size
    assert relate(short, short, target_size=200, draft_size=512).common == 200


def test_the_first_difference_is_named_with_both_tokens():
    words = {"a": 0, "b": 1, "c": 2}
    said, _ = first_difference(words, {"a": 0, "x": 1, "y": 2})
    assert said == "token 1 is 'b' to the target, 'x' to the draft"
    said, _ = first_difference(words, {"a": 0, "c": 2})
    assert said == "token 1 is 'b' to the target, unused to the draft"
    assert first_difference(words, {**words, "d": 3}) == ("", 3)


def test_an_intersection_pairs_the_same_bytes_and_never_a_special_token_with_a_word():
    target, draft = byte_level(400), byte_level(330, special=("</s>", "<s>"))
    pairs = intersection(target, draft)
    assert len(pairs) > 256
    assert len(set(pairs.values())) == len(pairs)
    for theirs, ours in pairs.items():
        assert draft.convert_ids_to_tokens(theirs) == target.convert_ids_to_tokens(ours)
    plain = byte_level(330, special=("<bos>", "<eos>"))
    assert not {plain.bos_token_id, plain.eos_token_id} & set(intersection(target, plain))


def test_token_spellings_are_compared_as_bytes():
    byte, char = byte_level(300), characters("?ab é▁")
    pairs = {
        char.convert_ids_to_tokens(theirs): byte.convert_ids_to_tokens(ours)
        for theirs, ours in intersection(byte, char).items()
    }
    assert pairs["a"] == "a"
    assert pairs[" "] == "Ġ"
    # é is two bytes; whether a byte-level tokenizer has a token for it depends on what it has seen.
    assert pairs.get("é") in (None, "Ã©")


def test_the_way_of_drafting_follows_from_how_much_is_shared():
    target = byte_level(400)
    assert (
        relate(target, byte_level(330, special=("</s>", "<s>")), target_size=400, draft_size=330).kind == "intersection"
    )
    strangers = whole_words(["??", " quick", " unheard", " unknown", " words", "only so"])
    relation = relate(target, strangers, target_size=400, draft_size=6)
    assert relation.kind == "text"
    assert relation.difference.startswith("token 0 is '<s>' to the target, '??' to the draft")


def test_pairs_stay_within_both_models():
    target, draft = byte_level(400), byte_level(330, special=("</s>", "<s>"))
    relation = relate(target, draft, target_size=300, draft_size=280)
    assert relation.pairs
    assert max(relation.pairs) < 280
    assert max(relation.pairs.values()) < 300


@pytest.mark.parametrize("change", [b"", b" "])
def test_equal_files_are_equal_tokenizers(tmp_path, change):
    for name, content in (("a", b"{}"), ("b", b"{}" + change)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tokenizer.json").write_bytes(content)
    assert same_file(str(tmp_path / "a"), str(tmp_path / "b")) == (change == b"")
    assert not same_file(str(tmp_path / "a"), str(tmp_path / "missing"))
