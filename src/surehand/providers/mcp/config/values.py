"""Written: a value of somebody's file, and the way to it. Whoever has the file knows the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

from surehand.core.durations import parse_duration, parse_size
from surehand.core.json_with_comments import JsonPath
from surehand.core.names import nearest_names

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class FileNodeError(Exception):
    """Something in a file that means nothing. It never quotes values: they may be secrets."""

    def __init__(self, key_path: JsonPath, problem: str, fix: str = "") -> None:
        self.key_path, self.problem, self.fix = key_path, problem, fix
        super().__init__(f"{problem}{' Fix: ' + fix if fix else ''}")


@dataclass(frozen=True, slots=True)
class FileNode:
    """One value, and the keys and numbers that lead to it from the top of its file."""

    value: Any
    key_path: JsonPath = ()

    @property
    def key(self) -> str:
        """What it is called there."""
        return str(self.key_path[-1]) if self.key_path else "the file"

    def error(self, problem: str, fix: str = "") -> FileNodeError:
        """What is wrong here."""
        return FileNodeError(self.key_path, problem, fix)

    def entries(self, fix: str = "") -> dict[str, FileNode]:
        """The values of a mapping."""
        if not isinstance(self.value, Mapping):
            raise self.error(f"{self.key} must hold keys and values.", fix)
        if any(not isinstance(key, str) for key in self.value):
            raise self.error(f"A key in {self.key} is no text.", "put it in quotes.")
        return {key: FileNode(value, (*self.key_path, key)) for key, value in self.value.items()}

    def items(self, fix: str = "") -> list[FileNode]:
        """The values of a list."""
        if not isinstance(self.value, (list, tuple)):
            raise self.error(f"{self.key} must be a list.", fix)
        return [FileNode(value, (*self.key_path, number)) for number, value in enumerate(self.value)]

    def known_entries(
        self, names: Iterable[str], aliases: Mapping[str, str] | None = None, undocumented: Iterable[str] = ()
    ) -> dict[str, FileNode]:
        """The entries by their proper names; a key that means nothing is a mistake that says what was meant.

        Args:
            others: other words for some of them.
            further: names that are taken too, but that nobody is told of.
        """
        names, aliases, found = list(names), aliases or {}, dict[str, FileNode]()
        taken = {*names, *undocumented}
        for key, inside in self.entries().items():
            name = aliases.get(to_snake_case(key), to_snake_case(key))
            if name not in taken:
                near = nearest_names(to_snake_case(key), [*names, *aliases], 1)
                meant = f"did you mean {near[0]!r}? " if near else ""
                raise inside.error(f"Unknown key {key!r}.", f"{meant}Known here: {', '.join(names)}.")
            if name in found:
                raise inside.error(f"{key} says the same as {found[name].key}.", "keep one of them.")
            found[name] = inside
        return found


NodeParser: TypeAlias = Callable[[FileNode], Any]


def to_snake_case(key: str) -> str:
    """`toolsAllowed` and `tools-allowed` as `tools_allowed`."""
    return _CAMEL_CASE_BOUNDARY.sub("_", key).replace("-", "_").lower()


def read_text(node: FileNode) -> str:
    """Words that are there."""
    if not isinstance(node.value, str) or not node.value.strip() or "\0" in node.value:
        raise node.error(f"{node.key} must be text.")
    return node.value


def read_texts(node: FileNode) -> list[str]:
    """One text, or a list of them."""
    return [read_text(node)] if isinstance(node.value, str) else [read_text(item) for item in node.items()]


def read_scalar_text(node: FileNode) -> str:
    """Text for another program, which may be empty; numbers and truth are written out as JSON has them."""
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)) or "\0" in str(value):
        raise node.error(f"{node.key} must be text.")
    return str(value)


def read_text_mapping(node: FileNode) -> dict[str, str]:
    """Text by name; nothing is said by null."""
    return {name: read_scalar_text(inside) for name, inside in node.entries().items() if inside.value is not None}


def read_flag(node: FileNode) -> bool:
    """True or false."""
    if not isinstance(node.value, bool):
        raise node.error(f"{node.key} must be true or false.")
    return node.value


def read_positive_integer(node: FileNode) -> int:
    """A whole number from one on."""
    if isinstance(node.value, bool) or not isinstance(node.value, int) or node.value < 1:
        raise node.error(f"{node.key} must be a whole number, one at least.")
    return node.value


def read_non_negative_integer(node: FileNode) -> int:
    """A whole number, zero too."""
    return 0 if node.value == 0 and node.value is not False else read_positive_integer(node)


def read_size(node: FileNode) -> int:
    """A number of bytes, or `4MiB`."""
    try:
        found = parse_size(node.value) if isinstance(node.value, (int, str)) else 0
    except (ValueError, OverflowError):
        found = 0
    if found < 1 or isinstance(node.value, bool):
        raise node.error(f"{node.key} must be a size.", "write 4194304, 500kB or 4MiB.")
    return found


def read_duration(node: FileNode, *, is_milliseconds: bool | None = None) -> float | None:
    """Seconds, or None for `off`; a bare number is seconds, and under a key in camelCase, or in `_ms`, milliseconds."""
    value = node.value
    if value is False:  # as YAML reads `off`
        return None
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value.strip()):
        value = float(value)
    try:
        found = (
            parse_duration(value)
            if isinstance(value, str)
            else _number_to_seconds(
                value, _is_in_milliseconds(node.key) if is_milliseconds is None else is_milliseconds
            )
        )
    except (ValueError, TypeError, OverflowError):
        raise node.error(f"{node.key} must be a duration.", "write 500ms, 30s, 5m or off.") from None
    if found is not None and not (isfinite(found) and found > 0):
        raise node.error(f"{node.key} must be a duration above zero.", "write 500ms, 30s, 5m or off.")
    return found


def _number_to_seconds(value: Any, is_milliseconds: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value) * (0.001 if is_milliseconds else 1.0)


def _is_in_milliseconds(key: str) -> bool:
    return key != key.lower() or key.endswith("_ms")


def choice_parser(**choices: str) -> NodeParser:
    """One of some words, each with what it means here."""
    known = {to_snake_case(choice): meant for choice, meant in choices.items()}

    def read(given: FileNode) -> str:
        found = known.get(to_snake_case(str(given.value)))  # YAML takes 2026-07-28 for a date
        if found is None:
            raise given.error(f"{given.key} is none that is known.", f"use {', '.join(choices)}.")
        return found

    return read
