"""Lines as they arrive, however the bytes are cut."""

from __future__ import annotations

import gzip
import io
import os
import time

import pytest

from specgen.batch.lines import Line, LineReader, split_lines


class Dribble(io.RawIOBase):
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size = data, size

    def read(self, size=-1):
        part, self._data = self._data[: self._size], self._data[self._size :]
        return part


TEXT = b"\xef\xbb\xbfone\r\n\n  \ntwo \xff\nthree\x00\r\r\n\xef\xbb\xbffour"
LINES = [Line(1, b"one"), Line(4, b"two \xff"), Line(5, b"three\x00\r"), Line(6, b"\xef\xbb\xbffour")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("packed", [False, True])
def test_lines(size, packed):
    data = gzip.compress(TEXT) if packed else TEXT
    assert list(split_lines(Dribble(data, size))) == LINES


def test_two_gzip_members_are_one_file():
    data = gzip.compress(b"a\nb") + gzip.compress(b"c\nd\n")
    assert [line.data for line in split_lines(io.BytesIO(data))] == [b"a", b"bc", b"d"]


def test_damaged_gzip():
    with pytest.raises(OSError, match=r"gzip|Compressed|CRC"):
        list(split_lines(io.BytesIO(gzip.compress(b"abc\n" * 10_000)[:-20])))


@pytest.mark.parametrize("size", [3, 64, 10_000])
def test_a_line_that_is_too_long_is_skipped_without_being_held(size):
    data = b"a\n" + b"x" * 5000 + b"\nb\n" + b"y" * 101 + b"\n" + b"z" * 100 + b"\n" + b"w" * 101
    found = list(split_lines(Dribble(data, size), longest=100))
    assert found == [Line(1, b"a"), Line(2, None), Line(3, b"b"), Line(4, None), Line(5, b"z" * 100), Line(6, None)]


def test_ten_megabytes_are_a_line():
    long = b"x" * 10_000_000
    start = time.perf_counter()
    assert [line.data for line in split_lines(io.BytesIO(long + b"\nb\n"))] == [long, b"b"]
    assert time.perf_counter() - start < 5


def test_nothing():
    assert list(split_lines(io.BytesIO(b""))) == []
    assert list(split_lines(io.BytesIO(b"\n \n\t"))) == []


def take(reader):
    while (line := reader.take(5)) is None:
        assert not reader.over
    return line


def test_a_writer_that_waits_for_the_answer_gets_it():
    """Whoever writes one line and reads its record before the next one must not wait for ever."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream:
        reader = LineReader(stream)
        os.write(write, b"first\n")
        assert take(reader) == Line(1, b"first")
        assert reader.take(0) is None
        assert not reader.over
        assert reader.estimate() is None
        os.write(write, b"second")
        os.close(write)
        assert take(reader) == Line(2, b"second")
        assert reader.take(5) is None
        assert reader.over
        assert reader.estimate() == 2


def test_a_file_tells_its_number_of_lines_before_it_is_read(tmp_path):
    path = tmp_path / "prompts"
    path.write_bytes(b"a prompt\n" * 100_000)
    with path.open("rb") as stream:
        reader = LineReader(stream, ahead=10)
        take(reader)
        time.sleep(0.1)
        assert reader.estimate() is None or reader.estimate() < 300_000
        reader.close()


def test_a_broken_stream_is_an_error():
    reader = LineReader(io.BytesIO(gzip.compress(os.urandom(100_000))[:5000]))
    with pytest.raises(OSError, match="gzip"):
        list(iter(lambda: reader.take(5), None))
    assert reader.over
