"""Text from tokens: whole characters, stop strings anywhere, and the same text however tokens are grouped."""

from __future__ import annotations

from functools import cache
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from specgen.decoding.events import Finished, Notice, Prompted, Round
from specgen.decoding.halt import Halt
from specgen.errors import PromptError
from specgen.text import Detokenizer, Spoken, encode_prompt, narrate

SAMPLE = "The quick brown fox. Naïve café — 日本語のテキスト, 한국어, 👩‍👩‍👧 and 🇫🇷!\n\n\tdef f(x):\n        return x\n"


@cache
def byte_level() -> PreTrainedTokenizerFast:
    """GPT-2's kind: some tokens are parts of characters, some are ends of one and beginnings of the next."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>", "</s>"]
    )
    tokenizer.train_from_iterator([SAMPLE] * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


@cache
def byte_fallback() -> PreTrainedTokenizerFast:
    """Llama 2's kind: a character that is no token is spelt in byte tokens."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += ["▁", "▁the", "▁a", "a", "b", "x", "é", ".", "▁fox"]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, unk_token="<unk>"))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def ids(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def rounds(groups, accepted=None):
    """Events of a run whose rounds committed these groups of tokens; all but the last of each were drafts."""
    yield Prompted(prompt_tokens=3, cached_tokens=0, seconds=0.1)
    for index, tokens in enumerate(groups):
        kept = len(tokens) - 1 if accepted is None else accepted[index]
        yield Round(index, tuple(tokens[:-1]), kept, tuple(tokens), 0.0, 0.0, 0.0)
    yield Finished("length", {"target": 9})


def run(tokenizer, groups, *, stops=(), skip=frozenset(), halt=None, accepted=None):
    """Play the events like the engine: no further round once the halt is set."""
    halt = halt or Halt()

    def engine():
        for event in rounds(groups, accepted):
            if isinstance(event, Round) and halt.reason:
                yield Finished(halt.reason)
                return
            yield event

    return list(narrate(engine(), tokenizer, stops=stops, halt=halt, skip=skip))


def text_of(events):
    return "".join(event.text for event in events if isinstance(event, Spoken))


def tokens_of(events):
    return [token for event in events if isinstance(event, Spoken) for token in event.round.tokens]


def cut(tokens, sizes):
    """Cut a list into groups of the given sizes, the last taking the rest."""
    ends = [end for end in accumulate(sizes) if end < len(tokens)]
    return [tokens[start:end] for start, end in zip([0, *ends], [*ends, len(tokens)], strict=True)]


token_lists = st.lists(st.integers(0, 329), min_size=1, max_size=40)
group_sizes = st.lists(st.integers(1, 9), max_size=40)


@given(token_lists, group_sizes)
@settings(max_examples=300, deadline=None)
def test_text_is_the_tokenizers_however_tokens_are_grouped(tokens, sizes):
    tokenizer = byte_level()
    events = run(tokenizer, cut(tokens, sizes))
    assert text_of(events) == tokenizer.decode(tokens, clean_up_tokenization_spaces=False)
    assert tokens_of(events) == tokens


@given(token_lists, group_sizes, st.lists(st.text(st.sampled_from("abeo .\n\u200d日"), min_size=1), max_size=3))
@settings(max_examples=300, deadline=None)
def test_stops_do_not_depend_on_grouping(tokens, sizes, stops):
    tokenizer = byte_level()
    one_by_one = run(tokenizer, [[token] for token in tokens], stops=stops)
    grouped = run(tokenizer, cut(tokens, sizes), stops=stops)
    assert text_of(grouped) == text_of(one_by_one)
    assert tokens_of(grouped) == tokens_of(one_by_one)
    assert grouped[-1].reason == one_by_one[-1].reason


# U+FFFD is what a part of a character reads as, so as a stop it would say nothing about where the text ends.
readable = st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd")


@given(st.text(readable, max_size=30), group_sizes, st.lists(st.text(readable, min_size=1, max_size=3), min_size=1))
@settings(max_examples=300, deadline=None)
def test_the_text_ends_before_the_first_stop(text, sizes, stops):
    tokenizer = byte_level()
    tokens = ids(tokenizer, text) or ids(tokenizer, "a")
    events = run(tokenizer, cut(tokens, sizes), stops=stops)
    whole = tokenizer.decode(tokens, clean_up_tokenization_spaces=False)
    spoken = text_of(events)
    assert whole.startswith(spoken)
    assert not any(stop in spoken for stop in stops)
    if events[-1].reason == "stop":
        assert any(whole.startswith(stop, len(spoken)) for stop in stops)
        # The last token completed a stop string: without it there was none.
        before = tokenizer.decode(tokens_of(events)[:-1], clean_up_tokenization_spaces=False)
        assert not any(stop in before for stop in stops)
    else:
        assert spoken == whole


@given(st.lists(st.sampled_from([3 + 0xE6, 3 + 0x97, 3 + 0xA5, 3 + 0xFF, 3 + 0x41, 259, 260, 262, 265]), max_size=12))
@settings(max_examples=300, deadline=None)
def test_wrong_byte_tokens_neither_raise_nor_lose_what_follows(tokens):
    tokenizer = byte_fallback()
    tokens = [*tokens, *ids(tokenizer, "x"), 262]
    text = text_of(run(tokenizer, [[token] for token in tokens]))
    assert text.endswith("a")
    assert text == text_of(run(tokenizer, [tokens]))


@pytest.mark.parametrize("make", [byte_level, byte_fallback])
@pytest.mark.parametrize("text", ["é", "日", "👩‍👩‍👧x", "a the fox.", " the  fox", "ab日é"])
def test_characters_over_several_tokens_appear_whole(make, text):
    tokenizer = make()
    tokens = ids(tokenizer, text)
    events = run(tokenizer, [[token] for token in tokens])
    assert text_of(events) == tokenizer.decode(tokens, clean_up_tokenization_spaces=False)
    for event in events:
        if isinstance(event, Spoken):
            assert "\ufffd" not in event.text


@pytest.mark.parametrize("make", [byte_level, byte_fallback])
@pytest.mark.parametrize("character", ["日", "😀"])
def test_an_incomplete_character_at_the_end_is_one_replacement(make, character):
    tokenizer = make()
    octets = [ids(tokenizer, "x")[-1], *byte_ids(tokenizer, character.encode()[:-1])]
    assert text_of(run(tokenizer, [octets])) == "x\ufffd"


def byte_ids(tokenizer, octets):
    if tokenizer.convert_tokens_to_ids("<0x00>") is not None and "<0x00>" in tokenizer.get_vocab():
        return [tokenizer.convert_tokens_to_ids(f"<0x{byte:02X}>") for byte in octets]
    table = {ord(char): char for char in pre_tokenizers.ByteLevel.alphabet()}
    others = sorted(code for code in range(256) if code not in table)
    letter = {**{code: chr(code) for code in range(256)}, **{code: chr(256 + n) for n, code in enumerate(others)}}
    return [tokenizer.convert_tokens_to_ids(letter[byte]) for byte in octets]


def test_what_byte_tokens_showed_stands_when_a_wrong_byte_follows():
    tokenizer = byte_fallback()
    tokens = [*byte_ids(tokenizer, "日".encode() + b"\xff"), tokenizer.convert_tokens_to_ids("x")]
    assert tokenizer.decode(tokens) == "����x"  # the decoder throws the whole run of bytes away
    assert text_of(run(tokenizer, [tokens])) == "日\ufffdx"


def test_end_of_sequence_has_no_text():
    tokenizer = byte_level()
    end = tokenizer.eos_token_id
    events = run(tokenizer, [[*ids(tokenizer, "fox"), end]], skip=frozenset({end}))
    assert text_of(events) == "fox"
    assert tokens_of(events)[-1] == end


def test_other_special_tokens_are_text():
    tokenizer = byte_level()
    assert text_of(run(tokenizer, [[tokenizer.bos_token_id]], skip=frozenset({tokenizer.eos_token_id}))) == "<s>"


# Each letter is a token of its own, so these tests place the boundaries exactly.
def letters(text):
    return [byte_level().convert_tokens_to_ids(letter) for letter in text]


@pytest.mark.parametrize(
    "groups",
    [["abSTOPcd"], ["abS", "TOPcd"], ["a", "b", "S", "T", "O", "P", "c", "d"], ["abST", "OP", "cd"], ["abSTOP", "cd"]],
)
def test_a_stop_string_over_tokens_and_rounds(groups):
    halt = Halt()
    events = run(byte_level(), [letters(group) for group in groups], stops=["STOP"], halt=halt)
    assert text_of(events) == "ab"
    assert tokens_of(events) == letters("abSTOP")
    assert events[-1].reason == "stop"
    assert halt.reason == "stop"


def test_a_stop_string_over_the_boundary_of_draft_and_target():
    events = run(byte_level(), [letters("abST"), letters("OPcd")], stops=["TO"], accepted=[3, 0])
    assert text_of(events) == "abS"
    assert [piece.accepted for event in events if isinstance(event, Spoken) for piece in event.pieces] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_the_earliest_of_several_stops_that_one_token_completes():
    tokenizer = byte_level()
    token = next(t for t in range(330) if tokenizer.decode([t]) == " x" or tokenizer.decode([t]) == "fo")
    text = tokenizer.decode([token])
    events = run(tokenizer, [[*letters("ab"), token, *letters("cd")]], stops=[text[1], text, "b" + text])
    assert text_of(events) == "a"
    assert tokens_of(events) == [*letters("ab"), token]


def test_the_first_stop_to_be_complete_ends_the_text():
    assert text_of(run(byte_level(), [letters("abcde")], stops=["bcde", "c"])) == "ab"


def test_held_text_is_released_when_it_cannot_become_a_stop():
    events = run(byte_level(), [letters("abSTO"), letters("xy"), letters("zz")], stops=["STOP"])
    assert [event.text for event in events if isinstance(event, Spoken)] == ["ab", "STOxy", "zz"]


def test_a_failed_beginning_may_contain_the_next_one():
    assert text_of(run(byte_level(), [letters("aab"), letters("aabc")], stops=["aabc"])) == "aab"
    assert text_of(run(byte_level(), [letters("aaaa"), letters("b")], stops=["aab"])) == "aa"


def test_held_text_is_flushed_into_the_last_round():
    events = run(byte_level(), [letters("ab"), letters("cST")], stops=["STOP"])
    spoken = [event for event in events if isinstance(event, Spoken)]
    assert [event.text for event in spoken] == ["ab", "cST"]
    assert [piece.token for piece in spoken[-1].pieces] == letters("cST")
    assert events[-1] == Finished("length", {"target": 9})


def test_a_stop_in_the_last_round_is_a_stop():
    assert run(byte_level(), [letters("aX")], stops=["X"])[-1].reason == "stop"


def test_rounds_after_a_stop_are_not_part_of_the_run():
    late = list(
        narrate(rounds([letters("aX"), letters("bc")]), byte_level(), stops=["X"], halt=Halt(), skip=frozenset())
    )
    assert text_of(late) == "a"
    assert late[-1] == Finished("stop", {"target": 9})


def test_an_interruption_keeps_its_reason():
    halt = Halt()
    halt.reason = "interrupted"
    list(narrate(rounds([letters("aX")]), byte_level(), stops=["X"], halt=halt, skip=frozenset()))
    assert halt.reason == "interrupted"


def test_text_flows_without_waiting_when_nothing_is_held():
    played = []

    def engine():
        for event in rounds([letters("ab"), letters("cd")]):
            played.append(event)
            yield event

    narration = narrate(engine(), byte_level(), stops=["STOP"], halt=Halt(), skip=frozenset())
    assert isinstance(next(narration), Prompted)
    assert next(narration).text == "ab"
    assert len(played) == 2


def test_a_failure_of_the_engine_does_not_take_the_held_round_along():
    def engine():
        yield Round(0, (), 0, tuple(letters("abS")), 0.0, 0.0, 0.0)
        raise MemoryError

    narration = narrate(engine(), byte_level(), stops=["STOP"], halt=Halt(), skip=frozenset())
    assert next(narration).text == "ab"
    with pytest.raises(MemoryError):
        next(narration)


def test_notices_pass():
    events = [Notice("the draft's context is full"), Finished("length")]
    assert list(narrate(events, byte_level(), stops=(), halt=Halt(), skip=frozenset())) == events


def test_decoding_a_token_costs_the_same_at_any_length(monkeypatch):
    detokenizer = Detokenizer(byte_level())
    longest = 0
    decode = detokenizer._decode

    def measured(window):
        nonlocal longest
        longest = max(longest, len(window))
        return decode(window)

    monkeypatch.setattr(detokenizer, "_decode", measured)
    for token in ids(byte_level(), SAMPLE * 20):
        detokenizer.step(token)
    assert longest < 20


CHATML = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + CHATML
)
DROPS_SYSTEM = "{% for message in messages if message['role'] != 'system' %}{{ message['content'] }}{% endfor %}"
REFUSES = "{{ raise_exception('Roles must alternate') }}"


def templated(template, *, bos=False):
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_level().backend_tokenizer, bos_token="<s>", eos_token="</s>"
    )
    tokenizer.chat_template = template
    if bos:
        tokenizer = with_bos(tokenizer)
    return tokenizer


def with_bos(tokenizer):
    from tokenizers.processors import TemplateProcessing

    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", backend.token_to_id("<s>"))])
    made = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    made.chat_template = tokenizer.chat_template
    return made


def encoded(tokenizer, prompt="Hi", *, system=None, chat=True):
    tokens = encode_prompt(tokenizer, prompt, system=system, chat=chat)
    assert isinstance(tokens, tuple)
    assert all(type(token) is int for token in tokens)
    return tokenizer.decode(tokens)


def test_the_chat_template_is_used_when_there_is_one():
    assert encoded(templated(CHATML)) == "<|user|>Hi</s><|assistant|>"
    assert encoded(templated(CHATML), system="Be brief") == "<|system|>Be brief</s><|user|>Hi</s><|assistant|>"
    assert encoded(templated(None)) == "Hi"
    assert encoded(templated(CHATML), chat=False) == "Hi"


def test_the_template_gives_the_tokens_that_transformers_gives():
    tokenizer = templated("<s>" + CHATML, bos=True)
    expected = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, return_dict=False
    )
    assert list(encode_prompt(tokenizer, "Hi", system=None, chat=True)) == expected


def test_a_conversation():
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    assert encoded(templated(CHATML), messages) == "<|user|>a</s><|assistant|>b</s><|user|>c</s><|assistant|>"


def test_beginning_of_sequence_once():
    tokenizer = templated(None, bos=True)
    assert encoded(tokenizer, "Hi") == "<s>Hi"
    assert encoded(tokenizer, "<s>Hi") == "<s>Hi"
    assert encoded(templated("<s>" + CHATML, bos=True)).count("<s>") == 1


@pytest.mark.parametrize("template", [NO_SYSTEM, DROPS_SYSTEM])
def test_a_template_without_a_system_role(template):
    assert "Hi" in encoded(templated(template))
    with pytest.raises(PromptError, match="no place for a system message") as caught:
        encoded(templated(template), system="Be brief")
    assert caught.value.hint


def test_a_template_that_refuses():
    with pytest.raises(PromptError, match="Roles must alternate"):
        encoded(templated(REFUSES))
    with pytest.raises(PromptError, match="Roles must alternate"):
        encoded(templated(REFUSES), system="Be brief")


def test_a_system_message_or_a_conversation_needs_a_template():
    with pytest.raises(PromptError, match="a system message cannot be given: the model has no chat template"):
        encoded(templated(None), system="Be brief")
    with pytest.raises(PromptError, match="messages cannot be given: the chat template is off"):
        encoded(templated(CHATML), [{"role": "user", "content": "a"}], chat=False)


@pytest.mark.parametrize("prompt", ["", " \n\t", [], [{"role": "system", "content": "Be brief"}]])
def test_an_empty_prompt(prompt):
    with pytest.raises(PromptError, match="empty"):
        encoded(templated(CHATML), prompt)


def test_a_prompt_that_is_not_text():
    with pytest.raises(PromptError, match="UTF-8"):
        encoded(templated(CHATML), "caf\udce9")
