"""Text on standard output and nothing else; the rest on standard error."""

from __future__ import annotations

import pytest

from specgen.decoding.events import Notice
from specgen.display.plain import PlainRenderer
from specgen.display.renderer import Run
from tests.consoles import console
from tests.display.events import show, story

RUN = Run("toy", 7, "f00d")
NASTY = "\x1b]0;title\x07 \u202e [/INST] [bold]x[/bold] :smile: \x9b31m"


def rendered(*parts, reason="stop", **settings):
    terminal = console(**settings)
    show(PlainRenderer(terminal, RUN), story(*parts, reason=reason))
    return terminal


def test_a_pipe_gets_the_text_verbatim_and_a_final_newline():
    terminal = rendered((NASTY, " one"), (" two",))
    assert terminal.out == NASTY + " one two\n"


def test_no_second_newline():
    assert rendered(("one\n",)).out == "one\n"


def test_no_text_no_newline():
    assert rendered(("",)).out == ""


def test_a_terminal_gets_controls_as_escapes():
    terminal = rendered((NASTY,), terminals="out err")
    assert terminal.out == "\\x1b]0;title\\x07 \\u202e [/INST] [bold]x[/bold] :smile: \\x9b31m\n"


def test_the_summary_is_the_last_line_on_standard_error():
    terminal = rendered(("a",), ("b", "c", "d"))
    assert terminal.err == (
        "4 tokens in 0.1 s · 50.0 tok/s · 2.0x target alone · accepted 2 of 2 drafts · 3.0 tokens/round · seed 7\n"
    )


def test_a_blank_line_before_the_summary_only_where_both_are_seen():
    assert rendered(("a",), terminals="out err").err.startswith("\n\x1b[2m1 token")
    assert rendered(("a",), terminals="err").err.endswith(
        "\r\x1b[2K\x1b[2m1 token in 0.0 s · 25.0 tok/s · target alone · seed 7\x1b[0m\n"
    )


def test_interrupted():
    terminal = rendered(("a",), reason="interrupted")
    assert terminal.out == "a\n"
    assert terminal.err.startswith("interrupted · 1 token")


def test_quiet():
    terminal = console(terminals="out err")
    terminal.quiet = True
    show(PlainRenderer(terminal, RUN), story(("a",), Notice("the draft's context is full")))
    assert (terminal.out, terminal.err) == ("a\n", "")


def test_a_notice_into_a_pipe_comes_at_once():
    terminal = console()
    renderer = PlainRenderer(terminal, RUN)
    with renderer:
        renderer.on(Notice("the draft's context is full"), None)
        assert terminal.err == "specgen: the draft's context is full\n"


def test_a_notice_on_a_terminal_does_not_cut_the_text():
    terminal = rendered(("one",), Notice("the draft's context is full"), (" two",), terminals="out err")
    assert terminal.out == "one two\n"
    assert terminal.err.startswith("specgen: the draft's context is full\n")


def test_ascii():
    assert rendered(("é", "b"), encoding="ascii").err.startswith(
        "2 tokens in 0.0 s | 50.0 tok/s | speedup not measured | "
    )


def test_text_is_flushed_every_round():
    terminal = console()
    renderer = PlainRenderer(terminal, RUN)
    events = story(("one",), (" two",))
    next(events)
    with renderer:
        renderer.on(next(events), None)
        assert terminal.stdout.buffer.getvalue() == b"one"


def interrupted_by(error):
    terminal = console()
    renderer = PlainRenderer(terminal, RUN)

    def run():
        with renderer:
            for event in [*story(("one",))][1:-1]:
                renderer.on(event, None)
            raise error

    with pytest.raises(type(error)):
        run()
    return terminal


def test_an_error_leaves_the_text_on_a_line_of_its_own():
    assert interrupted_by(KeyboardInterrupt()).out == "one\n"


def test_nothing_is_written_to_a_pipe_that_broke():
    assert interrupted_by(BrokenPipeError()).out == "one"
