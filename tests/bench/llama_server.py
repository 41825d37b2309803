#!/usr/bin/env python3
"""Stands in for llama.cpp's server: answers what it was asked and how it was started."""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

ARGUMENTS = sys.argv[1:]
READY = time.monotonic() + 0.5


def value(name: str) -> str | None:
    return ARGUMENTS[ARGUMENTS.index(name) + 1] if name in ARGUMENTS else None


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self._answer(200 if time.monotonic() > READY else 503, {"status": "ok"})

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Path(value("-m")).with_name("asked.jsonl").open("a").write(json.dumps([ARGUMENTS, question]) + "\n")
        if question["n_predict"] == 3:
            self._answer(500, {"error": "no"})
            return
        count = question["n_predict"]
        timings = {"predicted_n": count, "predicted_ms": 20.0 * count, "prompt_n": len(question["prompt"])}
        if value("-md"):
            timings |= {"draft_n": 2 * count, "draft_n_accepted": count}
        self._answer(200, {"content": "x" * count, "tokens_predicted": count, "timings": timings})

    def _answer(self, code, data):
        body = json.dumps(data).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if "broken" in Path(value("-m")).name:
    sys.exit("error: failed to load model")
Path(value("-m")).with_name("port" + value("--port")).touch()
HTTPServer(("127.0.0.1", int(value("--port"))), Handler).serve_forever()
