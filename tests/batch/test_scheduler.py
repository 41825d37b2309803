"""Each item's text is its own: whatever the rows, the order, the draft, and whatever happens to its neighbours."""

from __future__ import annotations

import gzip
import json
import random

import pytest
import torch

from specgen.api import Request, generate
from specgen.batch.feed import row_seed
from specgen.batch.happenings import Beat, Outcome
from specgen.batch.scheduler import SLICE
from specgen.decoding.halt import Halt
from specgen.errors import is_out_of_memory
from specgen.profile import Sampling
from tests.batch.hostile import HOSTILE
from tests.batch.pairs import ALPHABET, family_pair, play, table_pair
from tests.families import ROLL_BACK
from tests.toys import TableModel


def prompts(count: int, letters: str, *, seed: int = 0) -> list[dict]:
    """Prompts of many lengths, some greedy, some sampled, with limits, seeds and stop strings of their own."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        record = {"id": f"item-{number}", "prompt": "".join(rng.choices(letters, k=rng.choice([1, 3, 9, 40])))}
        if rng.random() < 0.5:
            record |= {"temperature": 1.0, "top_p": rng.choice([1.0, 0.9])}
        if rng.random() < 0.3:
            record["max_tokens"] = rng.randint(1, 12)
        if rng.random() < 0.3:
            record["stop"] = ["".join(rng.choices(letters, k=2)), letters[3]]
        if rng.random() < 0.2:
            record["seed"] = rng.randrange(1000)
        found.append(record)
    return found


def one_by_one(pair, records, request):
    """The texts of single prompts, as ``generate`` makes them."""
    texts = {}
    for record in records:
        own = {key: record[key] for key in ("temperature", "top_p") if key in record}
        stops = record.get("stop", [])
        texts[record["id"]] = generate(
            pair,
            record["prompt"],
            max_tokens=record.get("max_tokens", request.max_tokens),
            sampling=Sampling(**own),
            seed=record.get("seed", row_seed(request.seed, record["id"])),
            stops=tuple(stops),
            lookahead=0,
        ).text
    return texts


@pytest.mark.parametrize("drafted", [False, True])
def test_rows_order_and_drafts_change_no_text(drafted):
    request = Request(max_tokens=20, seed=5)
    records = prompts(40, ALPHABET[:11])
    expected = one_by_one(table_pair(drafted=False), records, request)
    assert len(set(expected.values())) > 30
    for rows in (1, 2, 3, 8):
        assert play(table_pair(drafted=drafted), records, rows=rows, request=request).texts == expected
    random.Random(1).shuffle(records)
    assert play(table_pair(drafted=drafted), records, request=request).texts == expected


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2"])
@pytest.mark.parametrize("drafted", [False, True])
def test_real_models(family, drafted):
    request = Request(max_tokens=12, seed=5)
    records = prompts(8, ALPHABET, seed=3)
    expected = one_by_one(family_pair(family, drafted=False), records, request)
    for rows in (1, 2, 3, 8):
        assert play(family_pair(family, drafted=drafted), records, rows=rows, request=request).texts == expected
        records.reverse()


@pytest.mark.slow
@pytest.mark.parametrize("family", ROLL_BACK)
def test_every_family(family):
    request = Request(max_tokens=16, seed=5)
    records = prompts(16, ALPHABET, seed=4)
    expected = one_by_one(family_pair(family, drafted=False), records, request)
    for drafted in (False, True):
        for rows in (1, 3, 8):
            assert play(family_pair(family, drafted=drafted), records, rows=rows, request=request).texts == expected
            random.Random(rows).shuffle(records)


def test_the_cache_of_each_row_is_that_of_a_fresh_forward_after_every_round():
    pair = family_pair("llama", double=True)
    fresh_model = family_pair("llama", double=True).target.model
    checked = 0

    def check(scheduler, happening):
        nonlocal checked
        if not isinstance(happening, Beat):
            return
        engine = scheduler._engine
        cache = engine.target._cache
        for row in range(engine.live):
            ids, held = engine.rows.committed(row), engine.target.lengths[row]
            assert held == len(ids) - 1
            fresh = fresh_model(input_ids=torch.tensor([ids[:held]]), use_cache=True).past_key_values
            for layer, (keys, values) in enumerate(zip(cache._keys.values(), cache._values.values(), strict=True)):
                torch.testing.assert_close(keys[row, :, :held], fresh.layers[layer].keys[0], rtol=1e-9, atol=1e-9)
                torch.testing.assert_close(values[row, :, :held], fresh.layers[layer].values[0], rtol=1e-9, atol=1e-9)
            checked += 1

    play(pair, prompts(7, ALPHABET, seed=2), rows=3, request=Request(max_tokens=10, seed=1), watch=check)
    assert checked > 40


def test_statistics_add_up():
    ran = play(table_pair(), prompts(30, ALPHABET[:11]), rows=4)
    assert sum(one.stats.tokens for one in ran.outcomes) <= sum(beat.tokens for beat in ran.beats)
    for one in ran.outcomes:
        stats = one.stats
        assert stats.prompt_tokens == len(one.job.task.prompt)
        assert 0 < stats.tokens <= one.job.task.max_tokens
        assert 0 <= stats.accepted <= stats.proposed
        assert one.reason in ("stop", "length")
    assert any(one.stats.proposed for one in ran.outcomes)
    assert any(one.baseline_seconds for one in ran.outcomes)


def test_the_seats_are_never_empty_while_there_is_work():
    ran = play(table_pair(stop=False), prompts(40, ALPHABET[:11]), rows=4)
    full = [beat.rows for beat in ran.beats]
    assert max(full) == 4
    assert sum(rows == 4 for rows in full) > 0.8 * len(full)


def test_a_long_prompt_does_not_hold_up_the_others():
    """While it is computed, the others play a round for every slice of it."""

    largest = 0

    class Model(TableModel):
        def logits(self, tokens, totals, *, last, first_row=0):
            nonlocal largest
            if last == 0:
                largest = max(largest, totals[0] - self.lengths[first_row])
            return super().logits(tokens, totals, last=last, first_row=first_row)

    records = [
        {"id": "running", "prompt": "1", "max_tokens": 60},
        {"id": "short", "prompt": "2", "max_tokens": 2},
        {"id": "long", "prompt": "12345" * 1000, "max_tokens": 2},
    ]
    meanwhile = 0

    def watch(scheduler, happening):
        nonlocal meanwhile
        meanwhile += isinstance(happening, Beat) and scheduler._entering is not None

    pair = table_pair(target_class=Model, context=6000, drafted=False, stop=False)
    ran = play(pair, records, rows=2, watch=watch, pool=2)
    assert set(ran.texts) == {"running", "short", "long"}
    assert largest <= SLICE
    assert meanwhile >= 5000 // SLICE - 1


def test_a_shared_beginning_is_computed_once():
    pair, system = table_pair(drafted=False, stop=False), "1234567890" * 20
    ran = play(pair, [{"id": n, "prompt": system + str(n), "max_tokens": 3} for n in range(9)], rows=4)
    assert [one.stats.cached_tokens for one in ran.outcomes].count(len(system)) == 8
    # The beginning once; of each item its own token and what it generated, less the last.
    assert pair.target.fed == len(system) + 9 * 3


def test_a_stop_string_ends_one_row_only():
    pair = table_pair(stop=False, drafted=False)
    whole = play(pair, [{"id": n, "prompt": str(n)} for n in range(4)]).texts
    stop = whole[2][5:7]
    records = [{"id": n, "prompt": str(n)} | ({"stop": stop} if n == 2 else {}) for n in range(4)]
    ran = play(table_pair(stop=False), records)
    assert ran.texts == whole | {2: whole[2][: whole[2].index(stop)]}
    assert {one.job.item.id: one.reason for one in ran.outcomes} == {0: "length", 1: "length", 2: "stop", 3: "length"}


def test_hostile_lines_fail_alone():
    good = prompts(200, ALPHABET[:11])
    lines = []
    for record, bad in zip(good, HOSTILE, strict=False):
        lines += [json.dumps(record).encode(), bad]
    ran = play(table_pair(), b"\n".join(lines), rows=8)
    assert ran.texts == play(table_pair(), good, rows=1).texts
    assert [failure.line for failure in ran.failures] == list(range(2, 401, 2))
    assert all(failure.code == "bad_line" for failure in ran.failures)
    assert all(failure.message.startswith(f"line {failure.line}: ") for failure in ran.failures)


def test_prompts_that_cannot_be_are_failures_of_their_own():
    records = [
        {"id": "fine", "prompt": "12"},
        {"id": "long", "prompt": "1" * 400},
        {"id": "longer", "prompt": "1" * 1_000_000},
        {"id": "empty", "prompt": " "},
        {"id": "half", "prompt": "\ud800"},
        {"id": "fine", "prompt": "12"},
        {"id": "context", "prompt": "1" * 395},
    ]
    ran = play(table_pair(stop=False), records)
    assert set(ran.texts) == {"fine", "context"}
    assert len(ran.texts["context"]) == 5
    assert {f.id: f.code for f in ran.failures} == {
        "long": "prompt", "longer": "prompt", "empty": "prompt", "half": "prompt", None: "duplicate_id"
    }  # fmt: skip


def test_an_input_that_breaks_off_is_a_failure_after_what_came_before():
    data = gzip.compress(b"".join(b'{"prompt": "%d"}\n' % n for n in range(50)))[:-9]
    ran = play(table_pair(), data)
    assert len(ran.texts) == 50
    assert [(f.code, f.line) for f in ran.failures] == [("input", 51)]


class Scarce(TableModel):
    """A model on a device that holds so many tokens."""

    holds = 0

    def logits(self, tokens, totals, *, last, first_row=0):
        if sum(self.lengths) > self.holds:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().logits(tokens, totals, last=last, first_row=first_row)


def test_out_of_memory_shrinks_the_batch_and_loses_nothing(monkeypatch):
    records = prompts(30, ALPHABET[:11])
    expected = play(table_pair(), records, rows=1).texts
    monkeypatch.setattr(Scarce, "holds", 150)
    ran = play(table_pair(target_class=Scarce), records, rows=8)
    assert ran.texts == expected
    assert ran.shrunk
    assert not ran.failures


def test_an_item_too_large_for_memory_fails_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr(Scarce, "holds", 150)
    records = [*prompts(20, ALPHABET[:11]), {"id": "large", "prompt": "1" * 300}]
    ran = play(table_pair(target_class=Scarce), records, rows=4)
    assert [(f.id, f.code) for f in ran.failures] == [("large", "out_of_memory")]
    assert len(ran.texts) == 20


def test_the_allocator_of_the_host_says_it_in_words():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("shapes do not match"))


def test_another_error_is_not_swallowed():
    class Broken(TableModel):
        def logits(self, tokens, totals, *, last, first_row=0):
            raise RuntimeError("device-side assert")

    with pytest.raises(RuntimeError, match="device-side"):
        play(table_pair(target_class=Broken), prompts(3, ALPHABET[:11]))


def test_an_item_that_takes_too_long():
    now = [0.0]

    def clock():
        now[0] += 0.01
        return now[0]

    records = [{"id": n, "prompt": "12", "max_tokens": 300 if n == 1 else 4} for n in range(4)]
    ran = play(table_pair(stop=False, drafted=False), records, rows=2, timeout=2.0, clock=clock)
    assert [(f.id, f.code) for f in ran.failures] == [(1, "timeout")]
    assert set(ran.texts) == {0, 2, 3}


def test_a_halt_ends_the_run_after_the_round():
    halt = Halt()

    def interrupt(_scheduler, happening):
        if isinstance(happening, Outcome):
            halt.reason = "interrupted"

    ran = play(table_pair(), prompts(30, ALPHABET[:11]), halt=halt, watch=interrupt)
    assert 1 <= len(ran.texts) <= 3
