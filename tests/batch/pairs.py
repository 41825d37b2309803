"""Pairs small enough to run thousands of prompts, and a run without a command line."""

from __future__ import annotations

import io
import json

from specgen.api import Request
from specgen.batch.feed import Failure, Feed
from specgen.batch.happenings import Beat, Outcome, Shrunk
from specgen.batch.lines import LineReader
from specgen.batch.rows import Seats
from specgen.batch.run import schedule
from specgen.decoding.halt import Halt
from specgen.models import cache
from specgen.models.attention import NAME
from specgen.models.cached import CachedModel
from specgen.models.load import Pair
from specgen.models.vocabulary import Relation
from specgen.profile import ModelSpec, Profile
from tests.families import ROLL_BACK, VOCAB, build
from tests.toys import TableModel
from tests.words import characters

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXY"
assert len(ALPHABET) == VOCAB


def _pair(target, draft, tokenizer, stop_ids=frozenset()) -> Pair:
    profile = Profile("toy", ModelSpec("t"), ModelSpec("d") if draft else None, lookahead=3, chat=False)
    return Pair(profile, tokenizer, target, draft, tokenizer, Relation("same", common=len(tokenizer)), stop_ids)


def table_pair(*, drafted: bool = True, context: int = 400, target_class=TableModel, stop: bool = True) -> Pair:
    size = 12
    target = target_class(size, 1, context=context)
    draft = TableModel(size, 2, near=TableModel(size, 1), noise=0.7) if drafted else None
    return _pair(target, draft, characters(ALPHABET[:size]), frozenset({11}) if stop else frozenset())


def family_pair(family: str, *, drafted: bool = True, double: bool = False) -> Pair:
    cache.register()

    def model(seed: int) -> CachedModel:
        built = build(ROLL_BACK[family](), NAME, seed=seed)
        return CachedModel(built.double() if double else built, family, context=256)

    return _pair(model(0), model(9) if drafted else None, characters(ALPHABET))


class Ran:
    """What a run gave."""

    def __init__(self) -> None:
        self.texts: dict[object, str] = {}
        self.outcomes: list[Outcome] = []
        self.failures: list[Failure] = []
        self.beats: list[Beat] = []
        self.shrunk: list[int] = []


def play(
    pair, records, *, rows=3, measured=False, request=None, watch=None, halt=None, format_="jsonl", **options
) -> Ran:
    data = records if isinstance(records, bytes) else b"".join(json.dumps(one).encode() + b"\n" for one in records)
    feed = Feed(LineReader(io.BytesIO(data)), format_=format_)
    request = request or Request(max_tokens=20, seed=5)
    scheduler = schedule(pair, request, feed, seats=Seats(rows, measured=measured), halt=halt or Halt(), **options)
    ran = Ran()
    for happening in scheduler.run():
        match happening:
            case Outcome():
                assert happening.job.item.id not in ran.texts
                ran.texts[happening.job.item.id] = happening.text
                ran.outcomes.append(happening)
            case Failure():
                ran.failures.append(happening)
            case Beat():
                ran.beats.append(happening)
            case Shrunk():
                ran.shrunk.append(happening.rows)
        if watch:
            watch(scheduler, happening)
    feed.close()
    return ran
