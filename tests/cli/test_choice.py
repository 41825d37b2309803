"""Which renderer suits which streams, and what a stream's terminal can say."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from specgen.cli import terminal
from specgen.cli.output import RENDERERS, choose_form
from tests.consoles import console


@pytest.mark.parametrize(
    ("terminals", "variables", "live", "json", "form"),
    [
        ("in out err", {}, None, False, "panel"),
        ("out", {}, None, False, "panel"),
        ("in err", {}, None, False, "text"),
        ("in err", {"FORCE_COLOR": "1"}, None, False, "text"),
        ("in err", {}, True, False, "text"),
        ("in out err", {"TERM": "dumb"}, None, False, "text"),
        ("in out err", {"TERM": "dumb"}, True, False, "text"),
        ("in out err", {}, False, False, "text"),
        ("in out err", {}, None, True, "json"),
        ("in out err", {"NO_COLOR": "1"}, None, False, "panel"),
    ],
)
def test_the_form(terminals, variables, live, json, form):
    assert form in RENDERERS
    assert choose_form(console(terminals=terminals, variables=variables), live=live, json=json) == form


def test_quiet_has_no_panel_unless_it_is_asked_for():
    screen = console(terminals="in out err")
    screen.quiet = True
    assert choose_form(screen, live=None) == "text"
    assert choose_form(screen, live=True) == "panel"


def test_a_panel_that_cannot_be_is_explained():
    pipe = console()
    choose_form(pipe, live=True)
    assert pipe.err == "specgen: the panel needs a terminal; the text comes without it\n"


@pytest.mark.parametrize(
    ("encoding", "term", "shown"),
    [("utf-8", "xterm", True), ("ascii", "xterm", False), ("latin-1", "xterm", False), ("utf-8", "linux", False)],
)
def test_signs(encoding, term, shown):
    assert terminal.shows_unicode(encoding, {"TERM": term}) is shown


def test_a_stream_without_a_terminal():
    for stream in (io.StringIO(), io.BytesIO()):
        assert terminal.size(stream) == (80, 24)
        assert terminal.in_foreground(stream)
        terminal.mute(stream, True)
        assert terminal.unshared(stream, stream)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")
def test_who_else_writes_to_the_screen():
    master, slave = os.openpty()
    reader, writer = os.pipe()
    try:
        with open(writer, "wb", closefd=False) as out, open(slave, "wb", closefd=False) as err:
            assert terminal.unshared(out, err)
            with subprocess.Popen(["sleep", "60"], stdout=slave) as tee:
                assert not terminal.unshared(out, err)
                tee.kill()
            with subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL) as other:
                assert terminal.unshared(out, err)
                other.kill()
    finally:
        for descriptor in (master, slave, reader, writer):
            os.close(descriptor)
