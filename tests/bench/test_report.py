"""What the measurements add up to, on numbers that can be worked out by hand."""

from __future__ import annotations

from random import Random

import pytest

from specgen.bench.report import ALL, Position, summarise
from specgen.bench.run import Dropped
from tests.bench.pairs import WHERE, FakeArm, played, sample

ALONE, FIXED_2, FIXED_4, AUTO = (
    FakeArm("target alone"),
    FakeArm("k 2", group="fixed"),
    FakeArm("k 4", group="fixed"),
    FakeArm("combined"),
)
ARMS = [ALONE, FIXED_2, FIXED_4, AUTO]
# Seconds for ten tokens, by arm and prompt.
TABLE = {"target alone": (4.0, 4.0), "k 2": (2.0, 4.0), "k 4": (4.0, 1.0), "combined": (1.0, 2.0)}


def measured(table=TABLE, repeats=(1, 2), **more):
    return [
        sample(arm, prompt, repeat, seconds, **more)
        for repeat in repeats
        for arm, times in table.items()
        for prompt, seconds in enumerate(times)
    ]


def only(report, temperature=0.0):
    (result,) = [one for one in report.results if one.temperature == temperature]
    return result


def arm(result, name):
    return next(one for one in result.arms if one.name == name)


def found(result, kind):
    return [one for one in result.findings if one.kind == kind]


def test_speeds_are_geometric_means_and_speedups_their_ratio():
    result = only(summarise(WHERE, ARMS, measured(), rng=Random(0)))
    fast = arm(result, "combined")
    assert fast.decode.gain.value == pytest.approx(8**0.5)
    assert fast.decode.rate == pytest.approx((10 * 5) ** 0.5)
    assert fast.decode.rate / arm(result, "target alone").decode.rate == pytest.approx(fast.decode.gain.value)
    assert {name: gain.value for name, (_, gain) in fast.decode.categories.items()} == {"c0": 4.0, "c1": 2.0}
    assert arm(result, "target alone").decode.gain.value == 1.0
    assert (fast.runs, fast.tokens, result.prompts, result.repeats) == (4, 40, 2, 2)


def test_the_default_is_compared_with_the_best_fixed_lookahead():
    result = only(summarise(WHERE, ARMS, measured(), rng=Random(0)))
    (best,) = found(result, "best_fixed")
    # k 2: 2x and 1x; k 4: 1x and 4x, the better geometric mean.
    assert (best.arm, best.other, best.category) == ("combined", "k 4", ALL)
    assert best.gain.value == pytest.approx(8**0.5 / 2)
    (worst,) = found(result, "worst_fixed")
    assert (worst.other, worst.category, worst.gain.value) == ("k 4", "c1", 0.5)
    (plain,) = found(result, "worst_plain")
    assert (plain.other, plain.category, plain.gain.value) == ("target alone", "c1", 2.0)


def test_others_are_compared_by_whole_times_and_by_their_best_setting():
    others = [
        FakeArm("hf plain", family="transformers"),
        FakeArm("hf 2", family="transformers", group="assisted"),
        FakeArm("hf 3", family="transformers", group="assisted"),
    ]
    table = TABLE | {"hf plain": (8.0, 8.0), "hf 2": (3.0, 3.0), "hf 3": (2.0, 2.0)}
    samples = measured(table)
    samples = [
        sample(one.arm, one.prompt, one.repeat, one.outcome.seconds, decode=0.0 if "hf" in one.arm else 0.5)
        for one in samples
    ]
    result = only(summarise(WHERE, ARMS + others, samples, rng=Random(0)))
    assert arm(result, "hf 3").decode is None
    assert arm(result, "hf 3").whole.gain.value == pytest.approx(2.0)
    (plain,) = found(result, "foreign")
    (best,) = found(result, "foreign_best")
    assert (plain.other, plain.gain.value, plain.whole) == ("hf plain", pytest.approx(8 / 2**0.5), True)
    assert (best.other, best.gain.value, best.whole) == ("hf 3", pytest.approx(2**0.5), True)


def test_rounds_are_counted():
    rounds = [played(3, 4, 2), played(5, 4, 4), played(1, 2, 0, source="lookup"), played(1, 0, 0, 3.0, source="")]
    samples = [
        sample("target alone", 0, 1, 1.0, tokens=(1, 2), memory=5),
        sample("combined", 0, 1, 1.0, rounds=rounds, proposed=10, accepted=6, ttft=0.25, tokens=(1, 2), memory=7),
    ]
    one = arm(only(summarise(WHERE, [ALONE, AUTO], samples, rng=Random(0))), "combined")
    assert one.positions == (Position(3, 2), Position(2, 2), Position(2, 1), Position(1, 1))
    assert one.alpha == pytest.approx(6 / 8)
    assert one.acceptance_rate == pytest.approx(0.6)
    assert one.mean_accepted_length == 1 + 6 / 3
    assert one.own_share == pytest.approx(0.25)
    assert one.sources == {"draft": 2, "lookup": 1, "": 1}
    assert (one.ttft, one.memory, one.same_text, one.compared_text) == (0.25, 7, 1, 1)
    # Ten tokens: three of 1/3 s, five of 1/5 s, one of 1 s, one of 3 s.
    assert one.gap == pytest.approx((1 / 5 + 1 / 3) / 2)
    assert one.gap_95 == pytest.approx(1 + 2 * 0.55)


@pytest.mark.parametrize(("rule", "compared"), [("coupled", 1), ("block", 0)])
def test_above_temperature_0_texts_are_compared_where_one_seed_means_one_text(rule, compared):
    from dataclasses import replace

    arms = [ALONE, AUTO, FakeArm("hf plain", family="transformers")]
    samples = [sample(one.name, 0, 1, 1.0, temperature=0.8, tokens=(1,)) for one in arms]
    result = only(summarise(replace(WHERE, rule=rule), arms, samples, rng=Random(0)), 0.8)
    assert arm(result, "combined").compared_text == compared
    assert arm(result, "hf plain").compared_text == 0


def test_prompts_that_not_every_arm_has_had_are_left_out():
    samples = measured(repeats=(1,))[:-1]  # combined has not come to the second prompt
    report = summarise(WHERE, ARMS, samples, rng=Random(0), interrupted=True)
    assert report.interrupted
    assert only(report).prompts == 1
    assert arm(only(report), "k 4").decode.gain.value == 1.0
    assert summarise(WHERE, ARMS, samples[:2], rng=Random(0)).results == ()


def test_a_dropped_arm_leaves_the_others():
    samples = [one for one in measured() if one.arm != "combined" or one.prompt == 0]
    report = summarise(WHERE, ARMS, samples, rng=Random(0), dropped=[Dropped("combined", "failed", 0.0)])
    assert [one.name for one in only(report).arms] == ["target alone", "k 2", "k 4"]
    assert only(report).prompts == 2


def test_the_same_rng_gives_the_same_report():
    samples = measured() + measured({name: tuple(1.1 * s for s in times) for name, times in TABLE.items()}, (3,))
    assert summarise(WHERE, ARMS, samples, rng=Random(1)) == summarise(WHERE, ARMS, samples, rng=Random(1))
