"""Where a prompt comes from: the arguments, or standard input when they say so."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.cli.environment import Environment
from specgen.errors import PromptError, UsageError

_EXAMPLES = (
    'specgen generate "Explain speculative decoding in one sentence."\nspecgen generate "Summarise this:" - < notes.txt'
)


def read_prompt(arguments: Sequence[str], environment: Environment) -> str:
    """Return the one prompt of this run.

    With an argument, standard input is left alone: a script, cron or ssh may hold it open without ever writing to it.

    Args:
        arguments: joined with a blank line; ``-`` stands for the whole of standard input.
        environment: its standard input is read for ``-``.

    Raises:
        UsageError: if there is no prompt.
        PromptError: if it is empty or not UTF-8.
    """
    if arguments:
        if list(arguments).count("-") > 1:
            raise UsageError("- stands for standard input and can be given only once", _EXAMPLES)
        prompt = "\n\n".join(_standard_input(environment) if part == "-" else part for part in arguments)
    else:  # what is piped in without an argument is a batch
        raise UsageError("there is no prompt", _EXAMPLES)
    return _checked(prompt)


def _standard_input(environment: Environment) -> str:
    data = environment.stdin.read()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PromptError(
            f"standard input is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}",
            "iconv -f latin1 -t utf-8 converts a Western European file",
        ) from error


def _checked(prompt: str) -> str:
    if not prompt.strip():
        raise PromptError("the prompt is empty", _EXAMPLES)
    try:
        prompt.encode()
    except UnicodeEncodeError as error:  # bytes of the command line that the locale could not read
        raise PromptError("the prompt is not valid UTF-8", "check the encoding of the text") from error
    return prompt
