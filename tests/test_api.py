"""The Python API, on a pair loaded from files."""

from __future__ import annotations

import pytest

import specgen
from specgen import Request, Session, generate, load, stream
from specgen.decoding.events import Finished, Notice, Prompted
from specgen.errors import PromptError, UsageError
from specgen.profile import ModelSpec, Profile, Sampling
from specgen.text import Spoken
from tests.pairs import folder
from tests.words import byte_level

SAMPLED = Sampling(temperature=0.9, top_p=0.95)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def pair(place):
    target = folder(place / "target", chat=True)
    draft = folder(place / "draft", seed=1, vocab_size=320)
    return load(
        Profile("tiny", ModelSpec(str(target), dtype="float32"), ModelSpec(str(draft), dtype="float32"), lookahead=3)
    )


def test_the_same_text_for_every_way_of_asking(pair):
    whole = generate(pair, "the quick brown", max_tokens=40, seed=3, sampling=SAMPLED)
    assert len(whole.tokens) == whole.stats.tokens == 40
    assert whole.finish_reason == "length"
    for options in ({"lookahead": 0}, {"lookahead": 7}, {"baseline": False}, {"strict": True}):
        assert generate(pair, "the quick brown", max_tokens=40, seed=3, sampling=SAMPLED, **options).text == whole.text
    assert generate(pair, "the quick brown", max_tokens=40, seed=4, sampling=SAMPLED).text != whole.text
    pieces = [
        piece.text
        for event in stream(pair, "the quick brown", Request(max_tokens=40, seed=3, sampling=SAMPLED))
        if isinstance(event, Spoken)
        for piece in event.pieces
    ]
    assert "".join(pieces) == whole.text


def test_the_speedup_is_measured_against_plain_rounds_or_not_at_all(pair):
    stats = generate(pair, "the cat", max_tokens=30).stats
    assert stats.baseline_tokens_per_second > 0
    assert stats.speedup == pytest.approx(stats.tokens_per_second / stats.baseline_tokens_per_second)
    assert generate(pair, "the cat", max_tokens=30, baseline=False).stats.speedup is None
    assert generate(pair, "the cat", max_tokens=30, lookahead=0).stats.speedup is None


def test_stop_strings_cut_the_text_at_every_offset_and_lookahead(pair):
    whole = generate(pair, "print(", max_tokens=30, lookahead=0).text
    for start in range(1, len(whole) - 3):
        stop = whole[start : start + 3]
        expected = whole[: whole.index(stop)]
        counts = set()
        for k in (0, 2, 5):
            got = generate(pair, "print(", max_tokens=30, lookahead=k, stops=(stop,))
            assert (got.text, got.finish_reason) == (expected, "stop")
            counts.add(got.stats.tokens)
        assert len(counts) == 1


def test_a_second_turn_feeds_only_what_is_new(pair):
    talk, request = Session(pair), Request(max_tokens=12, baseline=False)
    first = [{"role": "user", "content": "the cat sat"}]
    said = "".join(event.text for event in talk.stream(first, request) if isinstance(event, Spoken))
    second = [*first, {"role": "assistant", "content": said}, {"role": "user", "content": "and then?"}]
    events = list(talk.stream(second, request))
    fresh = list(stream(pair, second, request))
    prompted, fresh_prompted = events[0], fresh[0]
    assert isinstance(prompted, Prompted)
    assert isinstance(fresh_prompted, Prompted)
    assert prompted.prompt_tokens == fresh_prompted.prompt_tokens
    assert prompted.cached_tokens > 10 > fresh_prompted.cached_tokens == 0
    assert [e.text for e in events if isinstance(e, Spoken)] == [e.text for e in fresh if isinstance(e, Spoken)]
    spared = {model: fresh[-1].fed[model] - events[-1].fed[model] for model in ("target", "draft")}
    assert spared["target"] == prompted.cached_tokens
    assert spared["draft"] >= prompted.cached_tokens - 4  # the draft's cache ends a few tokens before the target's


def test_a_session_takes_a_longer_talk_and_other_settings(pair):
    talk, prompt = Session(pair), "fox"
    for request in (
        Request(max_tokens=5),
        Request(max_tokens=60, lookahead=6),
        Request(max_tokens=60, lookahead=0),
        Request(max_tokens=60, acceptance="block", sampling=Sampling(temperature=0.0)),
        Request(max_tokens=60, strict=True),
    ):
        got = "".join(event.text for event in talk.stream(prompt, request) if isinstance(event, Spoken))
        assert got == generate(pair, prompt, max_tokens=request.max_tokens, lookahead=0).text


def test_other_vocabularies_are_announced_once(place):
    target = folder(place / "t", chat=False)
    draft = folder(place / "d", tokenizer=byte_level(290, special=("</s>", "<s>")))
    pair = load(Profile("odd", ModelSpec(str(target), dtype="float32"), ModelSpec(str(draft), dtype="float32")))
    talk = Session(pair)
    events = [*talk.stream("the", Request(max_tokens=8)), *talk.stream("the fox", Request(max_tokens=8))]
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert "token 0 is '<s>' to the target, '</s>' to the draft" in notice.message
    assert "drafting with the 2" in notice.message
    assert [type(event) for event in events].count(Finished) == 2


def test_requests_that_cannot_be(pair):
    with pytest.raises(PromptError, match="empty"):
        generate(pair, "  ")
    with pytest.raises(PromptError, match="the context holds 256"):
        generate(pair, "the quick brown fox " * 100)
    with pytest.raises(UsageError, match="--strict has room for a lookahead of 11, not 12"):
        generate(pair, "the", lookahead=12, strict=True)
    with pytest.raises(UsageError, match="only a lookup reads --lookup-corpus"):
        generate(pair, "the", drafts="draft", corpus=("the quick brown fox",))
    with pytest.raises(TypeError):
        generate(pair, "the", no_such_option=1)


@pytest.mark.parametrize("drafts", ["draft", "both"])
def test_a_draft_that_the_pair_does_not_have(place, drafts):
    alone = load(Profile("alone", ModelSpec(str(folder(place / f"alone-{drafts}")), dtype="float32")))
    with pytest.raises(UsageError, match="alone has no draft model") as caught:
        generate(alone, "the", drafts=drafts)
    assert caught.value.hint == "--drafts lookup, or a profile with a draft"


def test_names_of_the_package():
    assert specgen.generate is generate
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = specgen.nothing_of_the_kind
