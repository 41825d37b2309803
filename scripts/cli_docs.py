#!/usr/bin/env python3
"""Write the commands' help into docs/cli.md; with --check, fail if it is not what they say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from specgen.cli.main import specgen

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
BEGIN, END = "<!-- help -->\n", "<!-- /help -->\n"
WIDTH = 80


def sections(command: click.Command, path: str, parent: click.Context | None = None) -> Iterator[str]:
    """Yield a section for a command and one for each command in it."""
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, terminal_width=WIDTH)
    context.help_option_names = ["-h", "--help"]
    depth = 2 + bool(parent) * path.count(" ")
    yield f"{'#' * depth} {path}\n\n```text\n{context.get_help()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from sections(child, f"{path} {name}", context)


def main() -> int:
    """Write the page, or say that it is out of date."""
    before = PAGE.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    _, _, tail = rest.partition(END)
    after = head + BEGIN + "\n" + "\n".join(sections(specgen, "specgen")) + "\n" + END + tail
    if "--check" in sys.argv[1:]:
        if before != after:
            print("docs/cli.md is out of date: run scripts/cli_docs.py", file=sys.stderr)
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
