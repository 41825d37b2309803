"""The panel on an emulated terminal: the text is there once, the panel is not there any more."""

from __future__ import annotations

import re
import sys

import pytest

from specgen.cli.output import play
from specgen.decoding.events import Finished, Notice, Prompted, Round
from specgen.decoding.halt import Halt
from specgen.decoding.stats import Stats
from specgen.display.panel import PanelRenderer
from specgen.display.renderer import Run
from specgen.text import Piece, Spoken
from tests.display.terminals import CJK, LONG, MIXED, Terminal, tokens, wrapped

RUN = Run("toy", 7, "f00d", max_tokens=900, decoding="greedy", models="a with b")
SIZES = [(80, 24), (40, 24), (20, 8), (200, 50), (60, 12), (30, 5), (12, 4)]


def rounds(text, *, plain=2, k=4, dropped=(" never", " said\n")):
    """Events of a run that says a text, some tokens a round; every second round has two drafts that were not kept."""
    yield Prompted(12, 0, 0.25)
    pieces, index = tokens(text), 0
    while pieces:
        drafts = 0 if index < plain else min(k - 2 * (index % 2), len(pieces) - 1)
        now, pieces = pieces[: drafts + 1], pieces[drafts + 1 :]
        lost = dropped if drafts and index % 2 else ()
        proposed = tuple(range(drafts + len(lost)))
        played = Round(index, proposed, drafts, tuple(range(len(now))), 0.01 * bool(drafts), 0.05, 0.07)
        yield Spoken(played, tuple(Piece(piece, place, place < drafts) for place, piece in enumerate(now)), lost)
        index += 1
    yield Finished("length", {"target": 100, "draft": 90})


def show(terminal, events, *, run=RUN, seconds=0.1, each=lambda event, renderer: None):
    stats = Stats()
    renderer = PanelRenderer(terminal, run, memory=lambda: 3 * 2**30)
    with renderer:
        for event in events:
            stats.add(event.round if isinstance(event, Spoken) else event)
            terminal.now += seconds
            renderer.on(event, stats)
            each(event, renderer)
    return renderer


def transcript(terminal):
    """The rows before the summary, and the summary."""
    rows, summary = terminal.rows, re.sub(r"\x1b\[\d?m", "", terminal.err)
    below = wrapped(summary, terminal.screen.columns)
    assert rows[-len(below) :] == below
    return rows[: -len(below)], summary.strip()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seconds", [0.1, 0.01])
@pytest.mark.parametrize("highlight", [False, True])
def test_every_row_once_and_no_panel(size, seconds, highlight):
    terminal = Terminal(*size)
    show(terminal, rounds(MIXED), run=Run("toy", 7, "", highlight=highlight), seconds=seconds)
    text, summary = transcript(terminal)
    assert text == wrapped(MIXED, size[0])
    assert summary.endswith("seed 7")
    assert not terminal.screen.cursor.hidden
    assert terminal.screen.answers == []


@pytest.mark.parametrize("size", SIZES)
def test_never_more_than_seven_rows_below_the_text(size):
    terminal = Terminal(*size)
    committed = []

    def look(event, renderer):
        if isinstance(event, Spoken):
            said.append(event.text)
            rows = terminal.rows
            before = len(committed)
            committed[:] = [row for row in rows if row in wrapped("".join(said), size[0])]
            panel = len(rows) - len(committed)
            assert panel <= min(4, max(size[1] - 1, 0)), rows
            assert len(committed) >= before - 1
            assert len(renderer._flow.rows) <= 3

    said = []
    show(terminal, rounds(LONG + CJK * 3), each=look)


def test_the_frame():
    terminal = Terminal(80, 24)
    frames = []
    show(terminal, rounds("one two three four five six seven"), each=lambda *_: frames.append(terminal.rows))
    assert frames[0] == [" reading the prompt · a with b"]
    assert frames[1] == [
        "one",
        "─ toy · measuring the target alone · greedy " + "─" * 25 + " 3.0 GiB ─",
        " round 1   → one",
        " -x target alone   14.3 tok/s   - tokens/round   accepted -".replace("-", "\N{EN DASH}"),
        "─" * 35 + " 1/900 tokens · first token 320 ms · 0.2 s ─",
    ]
    assert frames[3][:3] == [
        "one two three four five six seven",
        "─ toy · k=4 · greedy " + "─" * 48 + " 3.0 GiB ─",
        " round 3   ✓ three  ✓ four  ✓ five  ✓ six  → seven",
    ]


def test_the_states_have_hue_attribute_and_sign():
    terminal = Terminal(80, 24)
    seen = {}

    def look(event, renderer):
        if isinstance(event, Spoken) and event.dropped and not seen:
            for text in ("nunc", "never", "said", "vale"):
                seen[text] = terminal.screen.style(text)
            seen["lane"] = next(row for row in terminal.rows if "round" in row)

    events = [
        Prompted(1, 0, 0.1),
        Spoken(
            Round(0, (1, 2, 3), 1, (1, 9), 0.1, 0.1, 0.2),
            (Piece(" nunc", 1, True), Piece(" vale", 9, False)),
            (" never", " said\n"),
        ),
        Finished("stop", {}),
    ]
    show(terminal, events, each=look)
    assert seen["lane"] == " round 1   ✓ nunc  ✗ never  · said⏎  → vale"
    assert seen["nunc"] == {("cyan", True, False)}
    assert seen["never"] == {("brown", False, True)}  # what pyte calls ANSI yellow
    assert seen["vale"] == {("default", False, False)}
    assert "\x1b[2msaid⏎\x1b[0m" in terminal.written


def test_only_the_sixteen_colours():
    terminal = Terminal(80, 24)
    show(terminal, rounds(MIXED))
    assert "38;" not in terminal.written
    assert "48;" not in terminal.written


def test_no_color_takes_the_hue_and_leaves_the_rest():
    terminal = Terminal(80, 24, variables={"NO_COLOR": "1"})
    styles = set()

    def look(event, renderer):
        if isinstance(event, Spoken) and event.dropped:
            styles.update(terminal.screen.style("never"))

    show(terminal, rounds("a b c d e f g h i j k l m n"), each=look)
    assert styles == {("default", False, True)}
    assert "36m" not in terminal.written
    assert "\x1b[4m" in terminal.written


def test_ascii():
    terminal = Terminal(80, 24, unicode=False)
    lanes = []
    show(terminal, rounds("a b c d e f g h i j k l m\nn o"), each=lambda *_: lanes.append(terminal.text))
    assert all(frame.isascii() for frame in lanes[:-1])
    assert any("+b  +c  xnever  .said\\n  >" in frame for frame in lanes) or any("xnever  .said\\n" in f for f in lanes)


def test_highlight_keeps_the_marks_in_the_transcript():
    for highlight, kept in ((False, set()), (True, {("cyan", True, False)})):
        terminal = Terminal(80, 24)
        show(terminal, rounds("a b ccccc d e"), run=Run("toy", 7, "", highlight=highlight))
        assert terminal.screen.style("ccccc") == (kept or {("default", False, False)})


def test_a_narrow_terminal_has_one_status_row():
    terminal = Terminal(50, 24)
    frames = []
    show(terminal, rounds("one two three four five six seven eight"), each=lambda *_: frames.append(terminal.rows))
    assert len(frames[3]) == 2
    assert frames[3][1].startswith(" 2.")
    assert frames[3][1].endswith("/900")


def test_a_tiny_terminal_has_the_text_only():
    terminal = Terminal(12, 4)
    frames = []
    show(terminal, rounds("one two"), each=lambda *_: frames.append(terminal.rows))
    assert frames[0] == []
    assert frames[1] == ["one"]


def test_in_the_background_there_is_no_panel():
    terminal = Terminal(80, 24)
    terminal.shown = False
    frames = []
    show(terminal, rounds("one two"), each=lambda *_: frames.append(terminal.rows))
    assert frames[1] == ["one"]


NASTY = [
    "\x1b]52;c;aGFjaw==\x07",
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[H",
    "\x1b[10A",
    "\x1b[6n",
    "\x1b[c",
    "\x07\x08\x0b\x0c\r",
    "\x9b31m\x90q\x9c",
    "\u202eevil\u2066x\u2069",
    "[/INST] [bold]x[/bold] :smile: [link=file:///]y[/link]",
    "\x1bP+q544e\x1b\\",
    "\ud83d",
    "\x00\x7f",
]


@pytest.mark.parametrize("size", [(80, 24), (20, 8)])
@pytest.mark.parametrize("nasty", NASTY)
def test_text_cannot_act_on_the_terminal(nasty, size):
    text = "".join(f"before {nasty} after {number}\n" for number in range(12))
    terminal = Terminal(*size)
    titles = []
    terminal.screen.set_title = titles.append
    show(terminal, rounds(text, dropped=(nasty, nasty)), run=Run(f"toy{nasty}", 7, "", models=nasty))
    shown = text.encode("unicode_escape").decode("ascii").replace("\\n", "\n").replace("\\\\", "\\")
    expected = shown.replace("\\r", "\\x0d") if "[/INST]" not in nasty else text
    assert transcript(terminal)[0] == wrapped(expected, size[0])
    assert titles == []
    assert terminal.screen.answers == []
    assert not terminal.screen.cursor.hidden


def test_characters_whose_width_is_uncertain_lose_nothing():
    family = "👩‍👩‍👧‍👦 ❤️ 🇩🇪🇫🇷 👍🏽 e\u0301\u0323 ก็ नी "
    for columns in (80, 40, 20):
        terminal = Terminal(columns, 24)
        show(terminal, rounds(family * 40 + "\nend"))
        text, _ = transcript(terminal)
        # pyte drops joiners and selectors itself.
        letters = [c for c in family * 40 + "end" if c not in " \n\u200d\ufe0f"]
        shown = [c for c in "".join(text) if c not in " \u200d\ufe0f"]
        assert "".join(shown).count("ก") == 40
        assert shown.count("👩") == letters.count("👩")
        assert text[-1] == "end"
        assert not any("─" in row for row in text)


def test_no_more_than_twelve_repaints_a_second():
    terminal = Terminal(80, 24)
    show(terminal, rounds(MIXED), seconds=0.001)
    frames = terminal.written.count("\x1b[?2026h")
    assert frames <= 2 + terminal.now * 12  # and the first round
    events = list(rounds("a b c d e f"))
    terminal = Terminal(80, 24)
    show(terminal, events, seconds=0.5)
    # One for the beginning, then one for each event but the last, which takes the panel away.
    assert terminal.written.count("\x1b[?2026h") == len(events)


def test_one_write_a_frame():
    terminal = Terminal(80, 24)
    writes = []
    terminal.write = writes.append
    show(terminal, rounds(MIXED))
    assert all(frame.startswith("\x1b[?2026h") and frame.endswith("\x1b[?2026l") for frame in writes[:-1])


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError, OSError])
@pytest.mark.parametrize("size", [(80, 24), (20, 8)])
def test_an_error_leaves_the_text_and_the_cursor(error, size):
    terminal = Terminal(*size)

    def broken():
        for event in rounds(CJK + LONG):
            if isinstance(event, Finished):
                raise error
            yield event

    with pytest.raises(error):
        show(terminal, broken())
    assert terminal.rows == wrapped(CJK + LONG, size[0])
    assert not terminal.screen.cursor.hidden
    assert terminal.muted == [True, False]


def test_a_notice_is_said_at_the_end_and_explains_the_panel():
    terminal = Terminal(80, 24)
    frames = []
    events = [*rounds("one two three four", plain=9)]
    events.insert(3, Notice("the draft's context is full"))
    show(terminal, events, each=lambda *_: frames.append(terminal.text))
    assert "drafting off: the draft's context is full" in frames[4]
    rows = terminal.rows
    assert rows[:2] == ["one two three four", "specgen: the draft's context is full"]


def test_no_draft():
    terminal = Terminal(80, 24)
    frames = []
    run = Run("toy", 7, "", drafts=False)
    show(terminal, rounds("one two", plain=9), run=run, each=lambda *_: frames.append(terminal.text))
    assert "toy · drafting off: no draft" in frames[1]


def test_messages_of_others_go_above():
    terminal = Terminal(80, 24)

    def look(event, renderer):
        if isinstance(event, Spoken) and event.round.index == 2:
            terminal.notice("a detail")
            print("a library", file=sys.stderr)  # noqa: T201
            print("half a ", end="", file=sys.stderr)  # noqa: T201
            print("line", file=sys.stderr)  # noqa: T201

    show(terminal, rounds("one two three four five six seven"), each=look)
    assert terminal.rows[:4] == ["specgen: a detail", "a library", "half a line", "one two three four five six seven"]


@pytest.mark.parametrize(
    "sizes", [[(50, 24), (80, 24)], [(120, 30)], [(80, 6), (80, 24)], [(30, 24)], [(200, 10), (90, 8)]]
)
def test_another_size_in_the_middle(sizes):
    terminal = Terminal(80, 24)
    changes = iter(sizes)

    def look(event, renderer):
        if isinstance(event, Spoken) and event.round.index in (6, 12):
            size = next(changes, None)
            if size:
                # What pyte does to the rows when it becomes narrower is no terminal's: the text alone is looked at.
                terminal.screen.reset()
                terminal.resize(*size)
                renderer._region._drawn = []
                renderer.paint()

    show(terminal, rounds(CJK + LONG), each=look)
    assert not any("─" in row for row in terminal.rows)
    assert not terminal.screen.cursor.hidden


def test_rows_that_a_narrower_terminal_has_wrapped_are_erased():
    from specgen.display.region import Region

    written = []
    columns = [80]
    region = Region(written.append, lambda: columns[0])
    region.paint("", [("x" * 79, 79), ("y" * 10, 10), ("", 0)])
    columns[0] = 40
    region.paint("", [("z" * 39, 39)])
    assert "\x1b[3A\r" in written[1]  # 2 + 1 rows above the one with the cursor
    columns[0] = 20
    region.close()
    assert written[2].startswith("\r\x1b[K\n\x1b[J\x1b[A")  # below its first row is its second


def test_suspended_and_resumed():
    terminal = Terminal(80, 24)
    seen = []

    def stop():
        seen.append((terminal.rows, terminal.screen.cursor.hidden, terminal.muted[-1]))
        terminal.feed("[1]+  Stopped\n$ fg\n")

    def look(event, renderer):
        if isinstance(event, Spoken) and event.round.index == 2:
            renderer.suspend(stop)
            seen.append((terminal.rows, terminal.screen.cursor.hidden, terminal.muted[-1]))

    show(terminal, rounds("one two three four five six seven eight nine ten"), each=look)
    (rows, hidden, muted), after = seen
    assert (rows, hidden, muted) == ([], False, False)
    assert after[0][:2] == ["[1]+  Stopped", "$ fg"]
    assert any("round 3" in row for row in after[0])
    assert after[1:] == (True, True)
    assert terminal.rows[2] == "one two three four five six seven eight nine ten"


def test_a_signal_in_the_middle_of_a_frame_waits():
    terminal = Terminal(80, 24)
    renderer = PanelRenderer(terminal, RUN, memory=lambda: None)
    stopped = []
    write = terminal.write

    def interrupted(text):
        renderer._region._write = write
        renderer.paint()  # SIGWINCH
        renderer.suspend(lambda: stopped.append(terminal.rows))  # SIGTSTP
        assert stopped == []
        write(text)

    with renderer:
        renderer._region._write = interrupted
        renderer.paint()
    assert len(stopped) == 1


def test_a_run_through_the_command_line():
    terminal = Terminal(80, 24)
    played = play(terminal, rounds(MIXED), RUN, form="panel", halt=Halt())
    assert played.text == MIXED
    assert played.exit_code == 0
    assert transcript(terminal)[0] == wrapped(MIXED, 80)
