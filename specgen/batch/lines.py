"""Lines of a file or a pipe as they arrive: numbered, of bounded length, read by a thread of their own."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import BinaryIO

LONGEST = 64 * 2**20
"""Bytes of a line at most; the rest of a longer one is skipped without being held."""
_BLOCK = 1 << 16
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        number: counted from 1, blank lines included.
        data: its bytes without the line's end; None when it was longer than allowed.
    """

    number: int
    data: bytes | None


def split_lines(stream: BinaryIO, *, longest: int = LONGEST) -> Iterator[Line]:
    """Yield the lines that are not blank; LF or CRLF ends one, a byte order mark begins none.

    Args:
        stream: plain or gzip, which its first bytes tell.
        longest: bytes of a line at most.

    Raises:
        OSError: the stream cannot be read, or is damaged gzip.
    """
    number, held, skipping = 0, bytearray(), False
    for block in _blocks(stream):
        *ends, rest = block.split(b"\n")
        for part in ends:
            number += 1
            too_long = skipping or len(held) + len(part) > longest
            line = None if too_long else bytes(held + part).removesuffix(b"\r")
            held.clear()
            skipping = False
            if line is None or line.strip():
                yield Line(number, line)
        skipping = skipping or len(held) + len(rest) > longest
        if skipping:
            held.clear()
        else:
            held += rest
    if skipping or held.strip():
        yield Line(number + 1, None if skipping else bytes(held).removesuffix(b"\r"))


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Blocks as they arrive, decompressed, without the byte order mark."""
    read = getattr(stream, "read1", stream.read)
    start = b""
    while len(start) < len(_BOM) and (more := read(_BLOCK)):
        start += more
    if start.startswith(_GZIP):
        source: Iterator[bytes] = _unpacked(start, read)
        start = b""
        while len(start) < len(_BOM) and (more := next(source, b"")):
            start += more
    else:
        source = iter(lambda: read(_BLOCK), b"")
    yield start.removeprefix(_BOM)
    yield from source


def _unpacked(data: bytes, read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Unpack gzip members one after the other, from blocks of any size."""
    unpack, complete = zlib.decompressobj(31), False
    while data or (data := read(_BLOCK)):
        try:
            block = unpack.decompress(data)
        except zlib.error as error:
            raise OSError(f"damaged gzip data: {error}") from error
        if block:
            yield block
        data = unpack.unused_data.lstrip(b"\0")
        complete = unpack.eof
        if complete:
            unpack = zlib.decompressobj(31)
            complete = not data
    if not complete:
        raise OSError("damaged gzip data: it ends early")


class _Counting:
    """A stream that counts the bytes read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data


def _size(stream: BinaryIO) -> int | None:
    """Bytes of a regular file."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


class LineReader:
    """Reads lines ahead in a thread, so that a slow writer never holds up the rows that are running.

    Args:
        stream: where the lines come from.
        ahead: lines held at most.
    """

    def __init__(self, stream: BinaryIO, *, ahead: int = 256) -> None:
        # The raw file: at exit, Python waits for nobody's lock on it.
        self._stream = _Counting(getattr(stream, "raw", stream))
        self._size = _size(stream)
        self._count = 0
        self._ended = False
        self._queue: Queue[Line | OSError | None] = Queue(ahead)
        self._over = False
        self._given_up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="specgen-lines")
        self._thread.start()

    def _run(self) -> None:
        last: OSError | None = None
        try:
            for line in split_lines(self._stream):  # type: ignore[arg-type]
                if not self._put(line):
                    return
                self._count += 1
        except OSError as error:
            last = error
        except ValueError as error:  # the stream was closed
            last = OSError(str(error))
        self._ended = True
        self._put(last)

    def _put(self, entry: Line | OSError | None) -> bool:
        while not self._given_up.is_set():
            with contextlib.suppress(Full):
                self._queue.put(entry, timeout=0.2)
                return True
        return False

    @property
    def over(self) -> bool:
        """Whether every line was taken."""
        return self._over

    def estimate(self) -> int | None:
        """How many lines there are: exact once all were read, a guess from a file's size before, None for a pipe."""
        if self._ended:
            return self._count
        if self._size and self._stream.count and self._count:
            return max(self._count, round(self._count * self._size / self._stream.count))
        return None

    def take(self, wait: float) -> Line | None:
        """Return the next line; None when there is none within ``wait`` seconds, or no more at all (see ``over``).

        Raises:
            OSError: the stream cannot be read any further.
        """
        if self._over:
            return None
        try:
            entry = self._queue.get(timeout=wait) if wait else self._queue.get_nowait()
        except Empty:
            return None
        if isinstance(entry, Line):
            return entry
        self._over = True
        if entry is not None:
            raise entry
        return None

    def close(self) -> None:
        """Let the thread go; one that waits for a writer ends with the process."""
        self._given_up.set()
