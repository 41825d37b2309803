"""A console that is not there: an environment whose streams are buffers and whose terminals are claims."""

from __future__ import annotations

import io

from specgen.cli.environment import Environment


class Console(Environment):
    """An environment to hand to ``main``; ``out`` and ``err`` are what it wrote."""

    @property
    def out(self) -> str:
        return self._written(self.stdout)

    @property
    def err(self) -> str:
        return self._written(self.stderr)

    @staticmethod
    def _written(stream) -> str:
        stream.flush()
        return stream.buffer.getvalue().decode(stream.encoding, "surrogatepass")


def console(
    stdin: bytes = b"", *, terminals: str = "", variables=None, encoding: str = "utf-8", seed: int = 7
) -> Console:
    """Make a console; ``terminals`` names the streams that are ones: "in out err"."""
    return Console(
        stdin=io.BytesIO(stdin),
        stdout=io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", newline=""),
        stderr=io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace", newline=""),
        stdin_is_terminal="in" in terminals.split(),
        stdout_is_terminal="out" in terminals.split(),
        stderr_is_terminal="err" in terminals.split(),
        variables=variables or {},
        draw_seed=lambda: seed,
    )
