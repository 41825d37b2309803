"""YAML in and out: plain values only, no duplicate keys, every failure one line."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from specgen.errors import ProfileError

_LARGEST = 1 << 20  # bytes of a profile
# YAML 1.1 reads 1e-3 as text, because it has no point.
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+][0-9]+$")
_FLOAT = "tag:yaml.org,2002:float"


class _GivenTwice(yaml.MarkedYAMLError):
    """A key stands twice in one mapping; YAML would keep the last."""


class _Loader(yaml.SafeLoader):
    """The safe loader, which also refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise _GivenTwice(None, None, f"the key {key.value} is given twice", key.start_mark)
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """The safe dumper, without anchors."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the base class's signature
        return True


for _side in (_Loader, _Dumper):
    _side.add_implicit_resolver(_FLOAT, _EXPONENT, list("-+0123456789"))


def read_text(path: Path) -> str:
    """The text of a profile's file.

    Raises:
        ProfileError: when it cannot be read, is not UTF-8, or is far too large.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except IsADirectoryError:
        raise ProfileError(f"{path}: a folder, expected a file", "name one of the files in it") from None
    except FileNotFoundError:
        raise ProfileError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ProfileError(f"{path}: cannot be read: {reason.lower()}") from None
    if len(content) > _LARGEST:
        raise ProfileError(f"{path}: larger than 1 MiB, which no profile is", "is it a model's file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong = content[error.start]
        line = content.count(b"\n", 0, error.start) + 1
        raise ProfileError(f"{path}:{line}: not UTF-8 text: byte 0x{wrong:02x}", "save the file as UTF-8") from None


def parse_yaml(text: str, source: str, *, inline: bool = False) -> object:
    """The plain value that a YAML text describes.

    Args:
        text: the YAML.
        source: what an error calls it.
        inline: whether it is a value on the command line, where a line number says nothing.

    Raises:
        ProfileError: for a syntax error, a tag, a key that is given twice, or a value that cannot be.
    """
    try:
        value: object = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark and not inline else ""
        problem, hint = _explained(error)
        raise ProfileError(f"{source}{line}: {problem}", hint) from None
    except yaml.YAMLError as error:
        raise ProfileError(f"{source}: not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise ProfileError(f"{source}: nested too deeply") from None
    except (ValueError, LookupError, AttributeError) as error:
        # What PyYAML's own constructors fail with on a date of month 13 or `!!int ''`.
        raise ProfileError(f"{source}: holds a value that cannot be: {error}", "put text in quotes") from None
    return value


def _explained(error: yaml.MarkedYAMLError) -> tuple[str, str]:
    problem = " ".join((error.problem or error.context or "").split())
    if isinstance(error, _GivenTwice):
        return problem, "keep one of the two"
    _, unknown_tag, tag = problem.partition("could not determine a constructor for the tag ")
    if unknown_tag:
        tag = tag.strip("'").replace("tag:yaml.org,2002:", "!!")
        return f"the tag {tag} is not allowed", "a profile holds text, numbers, true, false, null, lists and mappings"
    return f"not valid YAML: {problem}", "check the indentation, and put text with special characters in quotes"


def to_yaml(data: object) -> str:
    """Plain data as YAML that ``parse_yaml`` reads back unchanged."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text
