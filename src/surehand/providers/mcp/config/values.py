"""`FileNode`, a value in a configuration file with the keys that lead to it, and readers for kinds of values.

The readers raise `FileNodeError` with the key path; `server_block.py` turns that into a file and a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

from surehand.core.durations import parse_duration, parse_size
from surehand.core.errors import with_fix
from surehand.core.json_with_comments import JsonPath
from surehand.core.names import nearest_names

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class FileNodeError(Exception):
    """A key or value in a file is invalid. The message never quotes a value: it may be a secret."""

    def __init__(self, key_path: JsonPath, problem: str, fix: str = "") -> None:
        self.key_path = key_path
        self.problem = problem
        self.fix = fix
        super().__init__(with_fix(problem, fix))


@dataclass(frozen=True, slots=True)
class FileNode:
    """One value, and the keys and list positions that lead to it from the top of its file."""

    value: Any
    key_path: JsonPath = ()

    @property
    def key(self) -> str:
        """The last key of the path, for messages."""
        return str(self.key_path[-1]) if self.key_path else "the file"

    def error(self, problem: str, fix: str = "") -> FileNodeError:
        """The error for a problem with this value; raise it."""
        return FileNodeError(self.key_path, problem, fix)

    def entries(self, fix: str = "") -> dict[str, FileNode]:
        """The values of a mapping, by key."""
        if not isinstance(self.value, Mapping):
            raise self.error(f"{self.key} must be a mapping.", fix)
        if any(not isinstance(key, str) for key in self.value):
            raise self.error(f"A key in {self.key} is not text.", "put it in quotes.")
        return {key: FileNode(value, (*self.key_path, key)) for key, value in self.value.items()}

    def items(self, fix: str = "") -> list[FileNode]:
        """The values of a list."""
        if not isinstance(self.value, (list, tuple)):
            raise self.error(f"{self.key} must be a list.", fix)
        return [FileNode(value, (*self.key_path, position)) for position, value in enumerate(self.value)]

    def known_entries(
        self, names: Iterable[str], aliases: Mapping[str, str] | None = None, undocumented: Iterable[str] = ()
    ) -> dict[str, FileNode]:
        """The entries by their canonical names; raises for an unknown key and suggests the nearest known one.

        Args:
            aliases: canonical names by other names for them.
            undocumented: names that are accepted as well, but that messages do not list.
        """
        names = list(names)
        aliases = aliases or {}
        accepted = {*names, *undocumented}
        nodes: dict[str, FileNode] = {}
        for key, node in self.entries().items():
            snake_case = to_snake_case(key)
            name = aliases.get(snake_case, snake_case)
            if name not in accepted:
                near = nearest_names(snake_case, [*names, *aliases], 1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise node.error(f"Unknown key {key!r}.", f"{hint}Known here: {', '.join(names)}.")
            if name in nodes:
                raise node.error(f"{key} and {nodes[name].key} set the same option.", "keep one of them.")
            nodes[name] = node
        return nodes


NodeParser: TypeAlias = Callable[[FileNode], Any]
"""Validates a node and returns its Python value."""


def to_snake_case(key: str) -> str:
    """`toolsAllowed` and `tools-allowed` as `tools_allowed`."""
    return _CAMEL_CASE_BOUNDARY.sub("_", key).replace("-", "_").lower()


def read_text(node: FileNode) -> str:
    """A text that is not blank."""
    if not isinstance(node.value, str) or not node.value.strip() or "\0" in node.value:
        raise node.error(f"{node.key} must be text.")
    return node.value


def read_texts(node: FileNode) -> list[str]:
    """A list of texts; a single text is a list of one."""
    return [read_text(node)] if isinstance(node.value, str) else [read_text(item) for item in node.items()]


def read_scalar_text(node: FileNode) -> str:
    """Text for another program, possibly empty; numbers and booleans are written as in JSON."""
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)) or "\0" in str(value):
        raise node.error(f"{node.key} must be text.")
    return str(value)


def read_text_mapping(node: FileNode) -> dict[str, str]:
    """A mapping of texts; keys whose value is null are left out."""
    return {name: read_scalar_text(child) for name, child in node.entries().items() if child.value is not None}


def read_flag(node: FileNode) -> bool:
    """A boolean."""
    if not isinstance(node.value, bool):
        raise node.error(f"{node.key} must be true or false.")
    return node.value


def read_positive_integer(node: FileNode) -> int:
    """An integer of at least 1."""
    if isinstance(node.value, bool) or not isinstance(node.value, int) or node.value < 1:
        raise node.error(f"{node.key} must be a positive integer.")
    return node.value


def read_non_negative_integer(node: FileNode) -> int:
    """An integer of at least 0."""
    return 0 if node.value == 0 and node.value is not False else read_positive_integer(node)


def read_size(node: FileNode) -> int:
    """A number of bytes, or `4MiB`."""
    try:
        size = parse_size(node.value) if isinstance(node.value, (int, str)) else 0
    except (ValueError, OverflowError):
        size = 0
    if size < 1 or isinstance(node.value, bool):
        raise node.error(f"{node.key} must be a size.", "write 4194304, 500kB or 4MiB.")
    return size


def read_duration(node: FileNode, *, is_milliseconds: bool | None = None) -> float | None:
    """Seconds, or None for `off`.

    Args:
        is_milliseconds: the unit of a bare number; by default milliseconds under a key in camelCase or with `_ms`.
    """
    value = node.value
    if value is False:  # YAML reads `off` as false
        return None
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value.strip()):
        value = float(value)
    if is_milliseconds is None:
        is_milliseconds = _is_in_milliseconds(node.key)
    try:
        seconds = parse_duration(value) if isinstance(value, str) else _number_to_seconds(value, is_milliseconds)
    except (ValueError, TypeError, OverflowError):
        raise node.error(f"{node.key} must be a duration.", "write 500ms, 30s, 5m or off.") from None
    if seconds is not None and not (isfinite(seconds) and seconds > 0):
        raise node.error(f"{node.key} must be a positive duration.", "write 500ms, 30s, 5m or off.")
    return seconds


def _number_to_seconds(value: Any, is_milliseconds: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value) * (0.001 if is_milliseconds else 1.0)


def _is_in_milliseconds(key: str) -> bool:
    return key != key.lower() or key.endswith("_ms")


def choice_parser(**choices: str) -> NodeParser:
    """A parser for one of some words; each stands for the value that it is given here."""
    values = {to_snake_case(choice): value for choice, value in choices.items()}

    def read_choice(node: FileNode) -> str:
        value = values.get(to_snake_case(str(node.value)))  # `str`, because YAML reads 2026-07-28 as a date
        if value is None:
            raise node.error(f"{node.key} has an unknown value.", f"use {', '.join(choices)}.")
        return value

    return read_choice
