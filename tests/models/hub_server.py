"""A hub on this machine: the few addresses that downloads and headers ask, with repositories made of bytes."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What it serves and what it was asked for.

    Attributes:
        repositories: file names and contents by repository.
        failures: status and headers of the answer instead, by the start of a path.
        delay: seconds before any answer.
        asked: every path, in order.
        sent: bytes of contents by path.
    """

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    failures: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    delay: float = 0.0
    asked: list[str] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    address: str = ""

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        time.sleep(self.delay)
        for start, (status, headers) in self.failures.items():
            if path.startswith(start):
                return status, headers, b"{}"
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            return self._api("/".join(parts[2:4]), parts[4:])
        return self._file("/".join(parts[:2]), "/".join(parts[4:]))

    def _api(self, name: str, rest: list[str]) -> tuple[int, dict[str, str], bytes]:
        if name not in self.repositories:
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        if rest and rest[-1] not in ("main", COMMIT):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        files = self.repositories[name]
        if rest[:1] == ["tree"]:
            tree = [{"type": "file", "path": n, "size": len(d), "oid": _digest(d)} for n, d in files.items()]
            return 200, {}, json.dumps(tree).encode()
        siblings = [{"rfilename": n, "size": len(d), "blobId": _digest(d)} for n, d in files.items()]
        return 200, {}, json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode()

    def _file(self, name: str, file: str) -> tuple[int, dict[str, str], bytes]:
        data = self.repositories.get(name, {}).get(file)
        if data is None:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        return 200, {"ETag": f'"{_digest(data)}"', "X-Repo-Commit": COMMIT}, data


def _digest(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


@contextmanager
def serving() -> Iterator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            status, headers, body = hub.answer(path)
            if status == 200 and (wanted := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))):
                first, last = (int(place) for place in wanted.groups())
                headers = {**headers, "Content-Range": f"bytes {first}-{last}/{len(body)}"}
                status, body = 206, body[first : last + 1]
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                hub.sent[path] = hub.sent.get(path, 0) + len(body)
                with suppress(ConnectionError):
                    self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    hub.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
