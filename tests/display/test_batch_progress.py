"""How far a batch is, in words."""

from __future__ import annotations

import io

from specgen.display.batch_progress import Bar, Lines, Sum, batch_summary, describe, items

DASH = "\N{EN DASH}"


def test_the_time_left_comes_from_tokens():
    so_far = Sum(done=10, failed=1, skipped=4, total=35, tokens=1100, done_tokens=1000, seconds=10.0)
    # 20 items of 100 tokens to go, of which 100 tokens are there, at 110 a second.
    assert so_far.eta == (20 * 100 - 100) / 110
    assert items(so_far) == "15 of 35 items"
    assert describe(so_far) == "1,100 tokens · 110.0 tok/s · 0:17 left · 1 failed"


def test_what_is_not_known_is_not_said():
    assert items(Sum(done=2)) == "2 items"
    assert describe(Sum()) == f"0 tokens · {DASH} tok/s"
    assert Sum(total=5, tokens=3, seconds=1.0).eta is None
    assert Sum(done=1, tokens=3, seconds=1.0).eta is None


def test_the_speedup_is_of_what_was_measured():
    so_far = Sum(done=1, tokens=10, seconds=4.0, measured_seconds=2.0, baseline_seconds=3.0, drafts=True)
    assert so_far.speedup == 1.5
    assert batch_summary(so_far, seconds=4.2, seed=3) == (
        "1 item in 4.2 s · 10 tokens · 2.5 tok/s · 1.5x target alone · seed 3"
    )
    assert batch_summary(Sum(done=2, skipped=1), seconds=0, seed=3, remark="interrupted") == (
        f"interrupted · 2 items in 0.0 s · 1 done before · 0 tokens · {DASH} tok/s · target alone · seed 3"
    )


def test_a_speedup_that_was_not_measured():
    so_far = Sum(done=1, tokens=10, seconds=4.0, drafts=True)
    assert describe(so_far) == "10 tokens · 2.5 tok/s"
    assert batch_summary(so_far, seconds=4.2, seed=3).endswith("2.5 tok/s · speedup not measured · seed 3")


def test_hours():
    assert "2:46:40 left" in describe(Sum(done=1, total=10_001, done_tokens=1, tokens=1, seconds=1.0))


def test_a_line_now_and_then():
    now, said = [0.0], []
    lines = Lines(said.append, lambda: now[0], every=30)
    for second in range(100):
        now[0] = float(second)
        lines.show(Sum(done=second, total=100))
    assert [line.partition(" ")[0] for line in said] == ["30", "60", "90"]


def test_a_bar_makes_way_and_leaves_nothing():
    stream = io.StringIO()
    bar = Bar(stream, colored=False, clock=lambda: 0.0)
    bar.show(Sum(done=3, total=9))
    assert "3 of 9 items" in stream.getvalue()
    with bar.aside():
        before = stream.getvalue()
        assert before.count("\x1b[?25l") == before.count("\x1b[?25h")
    bar.close()
    assert stream.getvalue().count("\x1b[?25l") == stream.getvalue().count("\x1b[?25h") == 2
