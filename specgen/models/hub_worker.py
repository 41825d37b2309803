"""The hub download as a process of its own, because nothing else ends its threads when a user presses Ctrl-C.

The client downloads on threads that Python waits for, a whole shard each. This process ends as soon as its standard
input does, which also happens when the one that started it is killed. Finished files stay, unfinished ones are resumed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specgen.profile import ModelSpec

# Not -m: that would look for specgen, and for everything it imports, in the user's folder.
_START = "import sys; sys.path.pop(0); sys.path.append({root!r}); from specgen.models.hub_worker import main; main()"
_STDOUT = 1


def fetch(spec: ModelSpec, files: list[str], patience: float, settings: Mapping[str, str]) -> dict[str, Any]:
    """Download a snapshot in another process.

    Args:
        spec: the model and its revision.
        files: the names to download.
        patience: the seconds to wait for an answer, for the error's text.
        settings: environment variables of the client.

    Returns:
        ``folder``, or ``full`` when the disk is, or ``message`` and ``hint``; with an error also the ``detail``.
    """
    request = {"model": spec.model, "revision": spec.revision, "gated": spec.gated, "files": files}
    with start(settings) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(json.dumps({**request, "patience": patience}).encode() + b"\n")
            worker.stdin.flush()
            said = worker.stdout.read()
        except BrokenPipeError:
            said = b""
        finally:
            worker.kill()
    try:
        answer: dict[str, Any] = json.loads(said)
    except ValueError:
        return {"message": f"cannot get {spec.model}: the download ended without a word", "hint": None}
    return answer


def start(settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the process, which then waits for a request."""
    command = [sys.executable, "-c", _START.format(root=str(Path(__file__).parents[2]))]
    pipe, env = subprocess.PIPE, {**os.environ, **settings}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=env)  # noqa: S603


def main() -> None:
    """Read a request from standard input, answer it on standard output."""
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    answer = json.dumps(_answer(request)).encode()
    # Whatever a library prints must not be taken for the answer, so nothing else writes to the descriptor.
    os.write(_STDOUT, answer)
    os._exit(0)


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(1)


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    from specgen.models.hub_errors import explain
    from specgen.models.store import is_disk_full

    spec = ModelSpec(request["model"], request["revision"], gated=request["gated"])
    disable_progress_bars()
    try:
        return {"folder": snapshot_download(spec.model, revision=spec.revision, allow_patterns=request["files"])}
    except Exception as error:  # noqa: BLE001 - the client's errors come from three libraries and have no common class
        said = explain(error, spec, request["patience"])
        full, detail = is_disk_full(error), traceback.format_exc()
        return {"full": full, "message": said.message, "hint": said.hint, "detail": detail}
