"""As many rows as fit and as are worth it."""

from __future__ import annotations

import pytest

from specgen.batch import rows
from specgen.batch.rows import Seats, rows_that_fit
from specgen.memory import preflight
from specgen.memory.errors import CannotTell, DoesNotFit
from specgen.profile import ModelSpec, Profile
from tests.batch.pairs import play, table_pair


def settle(seats, seconds, rounds=400):
    """Play rounds of as many rows as are allowed; ``seconds`` of a round by the number of rows."""
    seen = [seats.limit]
    for _ in range(rounds):
        seats.observe(seats.limit, seats.limit, seconds(seats.limit))
        if seats.limit != seen[-1]:
            seen.append(seats.limit)
    return seen


@pytest.mark.parametrize(
    ("most", "seconds", "seen"),
    [
        (16, lambda n: 1.0, [4, 8, 16]),  # rows cost nothing
        (64, lambda n: max(1.0, n / 16), [4, 8, 16, 32]),  # 32 give no more than 16
        (64, lambda n: 1.0 if n <= 8 else 3.0, [4, 8, 16, 8]),  # 16 give less
        (12, lambda n: 1.0, [4, 8, 12]),
        (2, lambda n: 1.0, [2]),
        (1, lambda n: 1.0, [1]),
    ],
)
def test_more_rows_while_they_pay(most, seconds, seen):
    assert settle(Seats(most, measured=True), seconds) == seen


def test_a_given_number_is_used():
    assert settle(Seats(48, measured=False), lambda n: float(n * n)) == [48]


def test_measuring_changes_no_text():
    records = [{"id": n, "prompt": str(n % 10) * (n % 7 + 1), "temperature": n % 2} for n in range(120)]
    ran = play(table_pair(), records, rows=16, measured=True)
    assert ran.texts == play(table_pair(), records, rows=1).texts
    assert max(beat.rows for beat in ran.beats) in (4, 8, 16)


PROFILE = Profile("x", ModelSpec("t", device="cpu"))


@pytest.mark.parametrize(("room", "found"), [(100, 32), (16, 16), (15, 8), (3, 2), (1, 1), (0, 1)])
def test_the_plan_is_asked(monkeypatch, room, found):
    def check_fits(profile, *, batch, context, **_):
        assert context == rows.PROMPT + 100
        if batch > room:
            raise DoesNotFit("no", "")

    monkeypatch.setattr(preflight, "planner_for", lambda *_, **__: None)
    monkeypatch.setattr(preflight, "check_fits", check_fits)
    assert rows_that_fit(PROFILE, max_tokens=100, lookahead=3) == found


def test_without_a_plan(monkeypatch):
    def unknown(*_, **__):
        raise CannotTell("no", "")

    monkeypatch.setattr(preflight, "planner_for", unknown)
    assert rows_that_fit(PROFILE, max_tokens=100, lookahead=3) == 16
