"""llama.cpp's server as an arm: started here, asked over HTTP, always stopped."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from time import perf_counter
from typing import IO, Any

from specgen.bench.arms import Family, Job, Outcome
from specgen.errors import ModelError, UsageError
from specgen.models.load import Pair
from specgen.text import encode_prompt

_READY = 300.0  # seconds that a server may take to load a model
_ANSWER = 3600.0
_OFFLOAD = "999"  # layers on an accelerator: all
_STOP = 10.0
# A proxy that the environment names is not for a server of our own.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Files:
    """What the server needs.

    Attributes:
        server: the program.
        model: the target's .gguf file.
        draft: the draft's, or None.
    """

    server: str
    model: str
    draft: str | None


def find_files(pair: Pair, server: str | None, model: str | None, draft: str | None) -> Files:
    """Return the program and the models, those of the profile where none are named.

    Raises:
        UsageError: saying which option is missing or wrong.
    """
    if server is None:
        raise UsageError("--against llama.cpp needs its server", "--llama-server PATH names the llama-server program")
    found = which(server)
    if found is None:
        raise UsageError(f"there is no program {server}", "--llama-server PATH names the llama-server program")
    profile = pair.profile
    if model is None:
        model = profile.target.model
        draft = draft or (profile.draft.model if profile.draft else None)
    for path, option in ((model, "--llama-model"), (draft, "--llama-draft")):
        if path is not None and not (path.endswith(".gguf") and Path(path).expanduser().is_file()):
            raise UsageError(f"llama.cpp reads .gguf files, and {path} is none", f"{option} FILE names one")
    return Files(found, str(Path(model).expanduser()), draft and str(Path(draft).expanduser()))


@dataclass(slots=True)
class LlamaArm:
    """A server that is running.

    Attributes:
        pair: for the tokenizer: the server gets ids, so that both read the same prompt.
        url: of the server.
        name: what the tables call it.
        about: what it is.
        clock: seconds, monotonic.
    """

    pair: Pair
    url: str
    name: str
    about: str
    clock: Callable[[], float] = perf_counter
    group: str = ""
    family: Family = "llama.cpp"

    def begin(self) -> None:
        """Nothing is kept."""

    def run(self, job: Job) -> Outcome:
        """Generate.

        Raises:
            ModelError: the server's answer is none.
        """
        start = self.clock()
        prompt = encode_prompt(self.pair.tokenizer, job.prompt.content, system=None, chat=self.pair.profile.chat)
        answer = _post(f"{self.url}/completion", _question(list(prompt), job))
        seconds = self.clock() - start
        timings = answer.get("timings", {})
        count = int(timings.get("predicted_n", answer.get("tokens_predicted", 0)))
        if not count:
            raise ModelError("llama-server generated nothing")
        decoding = timings.get("predicted_ms")
        return Outcome(
            prompt_tokens=len(prompt),
            count=count,
            seconds=seconds,
            decode_seconds=decoding and decoding / 1e3,
            proposed=timings.get("draft_n"),
            accepted=timings.get("draft_n_accepted"),
        )


@contextmanager
def llama_arms(
    pair: Pair, files: Files, *, threads: int, context: int, clock: Callable[[], float] = perf_counter
) -> Iterator[list[LlamaArm]]:
    """Start a server without a draft and, if there is one, a second with it; stop both in the end.

    Args:
        pair: what is measured.
        files: program and models.
        threads: for each server, which idles while the other works.
        context: tokens of prompt and output together.
        clock: seconds, monotonic.

    Raises:
        ModelError: a server does not start.
    """
    offload = "0" if pair.target.device.type == "cpu" else _OFFLOAD
    settings = ["-m", files.model, "-t", str(threads), "-c", str(context), "-ngl", offload]
    with _serving(files.server, settings) as url:
        arms = [LlamaArm(pair, url, "llama.cpp", "llama-server, no draft", clock)]
        if files.draft is None:
            yield arms
            return
        with _serving(files.server, [*settings, "-md", files.draft, "-ngld", offload]) as other:
            yield [*arms, LlamaArm(pair, other, "llama.cpp d", "llama-server with the draft", clock)]


@contextmanager
def _serving(server: str, settings: list[str]) -> Iterator[str]:
    port = _free_port()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: S603 - the program that the user named
            [server, "--host", "127.0.0.1", "--port", str(port), "-np", "1", *settings],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for specgen, which stops the server
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], url: str, log: IO[bytes]) -> None:
    """Wait until the server answers that it is well."""
    end = time.monotonic() + _READY
    while time.monotonic() < end:
        if process.poll() is not None:
            log.seek(0)
            lines = log.read().decode("utf-8", "replace").strip().splitlines() or ["no message"]
            raise ModelError(
                f"llama-server ended with code {process.returncode}: {lines[-1].strip()}", _by_hand(process)
            )
        try:
            with _OPENER.open(f"{url}/health", timeout=5):
                return
        except OSError:  # not there yet, or 503 while it loads
            time.sleep(0.2)
    raise ModelError(f"llama-server was not ready after {_READY:.0f} s", _by_hand(process))


def _by_hand(process: subprocess.Popen[bytes]) -> str:
    return "run it by hand: " + " ".join(map(str, process.args if isinstance(process.args, list) else [process.args]))


def _question(prompt: list[int], job: Job) -> dict[str, Any]:
    sampling = job.sampling
    return {
        "prompt": prompt,
        "n_predict": job.max_tokens,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_penalty": sampling.repetition_penalty,
        "seed": job.seed,
        "cache_prompt": False,
    }


def _post(url: str, question: dict[str, Any]) -> dict[str, Any]:
    data = json.dumps(question).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - http, to this machine
    try:
        with _OPENER.open(request, timeout=_ANSWER) as response:
            answer = json.load(response)
    except (OSError, ValueError) as error:
        detail = error.read().decode("utf-8", "replace") if isinstance(error, urllib.error.HTTPError) else ""
        raise ModelError(f"llama-server did not answer: {error} {detail}".strip()) from None
    if not isinstance(answer, dict):
        raise ModelError("llama-server did not answer with an object")
    return answer
