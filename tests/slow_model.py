"""``specgen`` with an engine that only takes time: a process for the tests of signals and pipes.

SLOW_LOADING and SLOW_ROUND are seconds; SLOW_WORDS is how many rounds the text has, SLOW_TEXT what each of them says.
With SLOW_ERROR the model breaks at the end.
"""

from __future__ import annotations

import os
import sys
import time
from types import SimpleNamespace

import specgen.api
from specgen.cli.main import main
from specgen.decoding.events import Finished
from tests.display.events import story


def load(profile, *, progress, **_):
    with progress.stage("loading a slow model"):
        if seconds := os.environ.get("SLOW_LOADING"):
            os.write(1, b"loading\n")
            time.sleep(float(seconds))
    return SimpleNamespace(profile=profile, describe=lambda: "slow", draft=None, threads=0)


def stream(pair, prompt, request, *, halt, memory):
    words = int(os.environ.get("SLOW_WORDS", "1000"))
    said = os.environ.get("SLOW_TEXT", "wörd")
    for index, event in enumerate(story(*((said, " ") for _ in range(words)))):
        if halt.reason:
            yield Finished(halt.reason, {})
            return
        yield event
        if os.environ.get("SLOW_ERROR") and index == words:
            raise RuntimeError("the model broke")
        if 0 < index < words:
            time.sleep(float(os.environ.get("SLOW_ROUND", "0.05")))


specgen.api.load = load
specgen.api.stream = stream

if __name__ == "__main__":
    sys.exit(main())
