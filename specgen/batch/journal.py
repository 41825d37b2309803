"""The output file of a batch: whole lines only, resumed by id and fingerprint, put in order at the end."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from specgen.batch.feed import key_of
from specgen.errors import SpecgenError, UsageError
from specgen.files import beside

if TYPE_CHECKING:
    from typing_extensions import Self

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@dataclass(slots=True)
class Kept:
    """What is kept of an output file.

    Attributes:
        done: fingerprints by ``key_of`` the ids of the items that have a text.
        failed: records of failed items, which are dropped and run again.
        torn: bytes of an incomplete last line, which is dropped.
    """

    done: dict[bytes, str] = field(default_factory=dict)
    failed: int = 0
    torn: int = 0


class Journal:
    """Appends records to a file; a record is in it whole or not at all.

    Args:
        path: the file.
        resume: go on with what the file holds; otherwise it must be new or empty.
        source: the input, which must be another file.

    Raises:
        UsageError: the file holds something already, is the input, is in use or cannot be written.
    """

    def __init__(self, path: Path, *, resume: bool = False, source: IO[Any] | None = None) -> None:
        self.path = path
        if source is not None and _same_file(path, source):
            raise UsageError(f"{path} is the input", "-o FILE must be another file")
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}", "-o FILE must be a file that can be written"
            ) from None
        try:
            self._lock()
            if not resume and os.fstat(self._file).st_size:
                raise UsageError(
                    f"{path} exists and is not empty", "--resume goes on with it; -o another file begins anew"
                )
            self.kept = self._read()
        except BaseException:
            os.close(self._file)
            raise
        self._end = os.fstat(self._file).st_size

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another run is writing {self.path}", "wait for it, or choose another file") from None
        except OSError:
            pass  # a file system without locks

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)

    def write(self, line: str) -> None:
        """Append a record, its newline included.

        Raises:
            SpecgenError: the disk is full, or the file cannot be written any more; nothing of the record is in it.
        """
        data = memoryview(line.encode("utf-8", "backslashreplace"))
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise SpecgenError(
                f"cannot write {self.path}: {error.strerror or error}",
                "make room, then run the same command again with --resume",
            ) from error
        self._end += len(line.encode("utf-8", "backslashreplace"))

    def _read(self) -> Kept:
        """Drop a torn end, and find out what is done."""
        kept = Kept()
        for offset, data in _lines(self.path):
            if not data.endswith(b"\n"):
                kept.torn = len(data)
                os.ftruncate(self._file, offset)
                break
            record = _record(data)
            if record is None:
                raise UsageError(
                    f"{self.path} is not the output of a batch: the line at byte {offset:,} is no record",
                    "-o another file",
                )
            key, fingerprint = _identity(record)
            if fingerprint is None:
                kept.failed += 1
                if key is not None:
                    kept.done.pop(key, None)
            elif key is not None:
                kept.done[key] = fingerprint
        return kept

    def tidy(self, *, failures: bool, ordered: bool) -> None:
        """Keep one record of each id, the last one.

        The file is replaced as a whole, so that an interruption leaves the old one or the new one.

        Args:
            failures: whether records of failed items stay.
            ordered: whether to put the records into the order of the input.

        Raises:
            SpecgenError: there is no room for the new file.
        """
        last: dict[bytes, int] = {}
        found: list[tuple[int, int, int, bytes | None]] = []
        for offset, data in _lines(self.path):
            record = _record(data) or {}
            key, fingerprint = _identity(record)
            if key is not None:
                last[key] = offset
            if failures or fingerprint is not None:
                found.append((_line(record), offset, len(data), key))
        kept = [place for place in found if place[3] is None or last[place[3]] == place[1]]
        if ordered:
            kept.sort(key=lambda place: place[:2])
        spans = [(offset, length) for _, offset, length, _ in kept]
        # Nothing changes if every record follows the one before it, from the beginning to the end.
        expected = 0
        for offset, length in spans:
            if offset != expected:
                break
            expected += length
        if expected != self._end:
            self._rewrite(spans)

    def _rewrite(self, spans: list[tuple[int, int]]) -> None:
        beside = self.path.with_name(self.path.name + ".new")
        try:
            with self.path.open("rb") as old, beside.open("wb") as new:
                for offset, length in spans:
                    old.seek(offset)
                    new.write(old.read(length))
                new.flush()
                os.fsync(new.fileno())
            beside.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise SpecgenError(
                f"cannot rewrite {self.path}: {error.strerror or error}",
                "make room, then run the same command again with --resume",
            ) from error
        file = os.open(self.path, os.O_RDWR | os.O_APPEND)
        os.close(self._file)
        self._file = file
        self._lock()
        self._end = os.fstat(file).st_size


def _same_file(path: Path, source: IO[Any]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(source.fileno()))
    except (OSError, ValueError, AttributeError):
        return False


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    offset = 0
    with path.open("rb") as file:
        for data in file:
            yield offset, data
            offset += len(data)


def _record(data: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and ("fingerprint" in record or "specgen" in record) else None


def _own(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where a record says what specgen needs: at its top, or in one place of an OpenAI record."""
    inner = record.get("specgen")
    return inner if isinstance(inner, dict) else record


def _line(record: Mapping[str, Any]) -> int:
    line = _own(record).get("line")
    return line if isinstance(line, int) else 0


def _identity(record: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    """The key of a record's id, if it has one, and its fingerprint, unless it failed."""
    id_ = record.get("id") if _own(record) is record else record.get("custom_id")
    fingerprint = _own(record).get("fingerprint")
    whole = record.get("error") is None and isinstance(fingerprint, str)
    return (None if id_ is None else key_of(id_)), (fingerprint if whole else None)


def manifest_path(output: Path) -> Path:
    """Where the manifest of an output is."""
    return output.with_name(output.name + ".manifest.json")


def read_manifest(output: Path) -> dict[str, Any]:
    """The manifest of an output; empty when there is none that can be read."""
    try:
        found = json.loads(manifest_path(output).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_manifest(output: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of an output, the whole of it or nothing.

    Raises:
        SpecgenError: it cannot be written.
    """
    path = manifest_path(output)
    try:
        with beside(path) as scratch:
            scratch.write_text(json.dumps(manifest, indent=2, ensure_ascii=True, default=str) + "\n", encoding="utf-8")
            scratch.replace(path)
    except OSError as error:
        raise SpecgenError(
            f"cannot write {path}: {error.strerror or error}", "make room, then run the same command with --resume"
        ) from error
