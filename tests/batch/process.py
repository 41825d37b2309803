"""specgen in a process that can be killed: forked from one that has imported everything and computed nothing."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from pathlib import Path

import torch

import specgen.batch.record
import specgen.batch.rows
import specgen.batch.run
import specgen.cli.generate
import specgen.models.load  # noqa: F401
from specgen.cli.main import main

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.batch.process"])


def _run(arguments, streams, largest, variables, status):
    os.environ.update(variables)
    for number, path in enumerate(streams):
        descriptor = (
            path
            if isinstance(path, int)
            else os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT, 0o600)
        )
        os.dup2(descriptor, number)
    sys.stdin, sys.stdout, sys.stderr = (open(n, "r" if n == 0 else "w") for n in range(3))  # noqa: PTH123, SIM115
    torch.set_num_threads(1)
    if largest:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    code = main(arguments)
    if status:
        Path(status).write_text(Path("/proc/self/status").read_text())
    os._exit(code)


@contextlib.contextmanager
def specgen_process(
    arguments, *, stdin=os.devnull, stdout=os.devnull, stderr=os.devnull, largest=0, variables=(), status=None
):
    """Start ``specgen`` with these arguments and environment variables; streams are paths.

    Its own ``/proc/self/status`` is written to the file ``status`` after its last work, which a look from here
    would miss.
    """
    streams = [str(path) for path in (stdin, stdout, stderr)]
    process = _CONTEXT.Process(target=_run, args=(list(arguments), streams, largest, dict(variables), status))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()
        process.close()
