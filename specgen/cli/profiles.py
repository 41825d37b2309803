"""``specgen profiles``: the profiles there are, what is in one, where it is, and whether it is right."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from specgen.cli.completion import profile_names
from specgen.cli.environment import Environment
from specgen.cli.options import common_options
from specgen.display.escape import printable
from specgen.errors import ProfileError
from specgen.profile import Found, Profile, as_data, find, listing, load_profile, read_profile, to_yaml

_HEADER = ("NAME", "TARGET", "DRAFT", "FROM")


@click.group(invoke_without_command=True)
@common_options
@click.pass_context
def command(context: click.Context) -> None:
    """List, show and check the profiles that name a target and its draft.

    \b
    specgen profiles list
    specgen profiles show llama3-8b-1b
    specgen profiles check ./my-pair.yaml
    """  # noqa: D301 - click wants the character
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON array instead of a table.")
@common_options
@click.pass_context
def list_(context: click.Context, as_json: bool) -> None:
    """List the profiles in the order in which they are looked up.

    The first of a name is the one that counts; a later one is marked as shadowed.
    """
    entries = [_entry(found) for found in listing(env=_variables(context))]
    if as_json:
        click.echo(json.dumps(entries, ensure_ascii=False, indent=2))
    else:
        for line in _table(_HEADER, (_row(entry) for entry in entries)):
            click.echo(line)
        for entry in entries:
            if "error" in entry:
                click.echo(f"specgen: {printable(entry['error'])}", err=True)


@command.command()
@click.argument("name", shell_complete=profile_names)
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a key first. May be repeated.")
@common_options
@click.pass_context
def show(context: click.Context, name: str, settings: Sequence[str]) -> None:
    """Print a profile with its defaults filled in, as YAML.

    NAME is a profile's name, or a path when it has a separator or ends in .yaml or .yml.
    """
    profile = load_profile(name, settings, env=_variables(context))
    click.echo(f"# {printable(str(profile.source))}")
    click.echo(to_yaml(as_data(profile)), nl=False)


@command.command()
@click.argument("name", shell_complete=profile_names)
@common_options
@click.pass_context
def path(context: click.Context, name: str) -> None:
    """Print the path of the file that a name means, and nothing else."""
    click.echo(find(name, env=_variables(context)).absolute())


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@common_options
def check(file: Path) -> None:
    """Say whether a file is a right profile; if not, what is wrong."""
    read_profile(file)
    click.echo(f"{file}: ok")


def _variables(context: click.Context) -> Mapping[str, str]:
    environment = context.find_object(Environment)
    return os.environ if environment is None else environment.variables


def _entry(found: Found) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": found.name, "path": str(found.path.absolute()), "from": found.place}
    entry["shadowed"] = found.shadowed
    try:
        return entry | _contents(read_profile(found.path))
    except ProfileError as error:
        # One broken file must not hide the others.
        return entry | {"error": error.message}


def _contents(profile: Profile) -> dict[str, Any]:
    return {
        "description": profile.description,
        "target": profile.target.model,
        "draft": profile.draft.model if profile.draft else None,
        "gated": profile.target.gated or bool(profile.draft and profile.draft.gated),
    }


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    place = f"{entry['from']} (shadowed)" if entry["shadowed"] else entry["from"]
    return entry["name"], entry.get("target", "(not valid)"), entry.get("draft") or "-", place


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    """Columns as wide as their widest cell, two spaces apart."""
    cells = [tuple(header), *(tuple(map(printable, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
