"""Written: a value of somebody's file, and the way to it. Whoever has the file knows the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

from surehand.core.durations import seconds, size
from surehand.core.jsonc import Way
from surehand.core.names import nearest

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Mistake(Exception):
    """Something in a file that means nothing. It never quotes values: they may be secrets."""

    def __init__(self, at: Way, problem: str, fix: str = "") -> None:
        self.at, self.problem, self.fix = at, problem, fix
        super().__init__(f"{problem}{' Fix: ' + fix if fix else ''}")


@dataclass(frozen=True, slots=True)
class Written:
    """One value, and the keys and numbers that lead to it from the top of its file."""

    value: Any
    at: Way = ()

    @property
    def key(self) -> str:
        """What it is called there."""
        return str(self.at[-1]) if self.at else "the file"

    def mistake(self, problem: str, fix: str = "") -> Mistake:
        """What is wrong here."""
        return Mistake(self.at, problem, fix)

    def entries(self, fix: str = "") -> dict[str, Written]:
        """The values of a mapping."""
        if not isinstance(self.value, Mapping):
            raise self.mistake(f"{self.key} must hold keys and values.", fix)
        if any(not isinstance(key, str) for key in self.value):
            raise self.mistake(f"A key in {self.key} is no text.", "put it in quotes.")
        return {key: Written(value, (*self.at, key)) for key, value in self.value.items()}

    def items(self, fix: str = "") -> list[Written]:
        """The values of a list."""
        if not isinstance(self.value, (list, tuple)):
            raise self.mistake(f"{self.key} must be a list.", fix)
        return [Written(value, (*self.at, number)) for number, value in enumerate(self.value)]

    def known(
        self, names: Iterable[str], others: Mapping[str, str] | None = None, further: Iterable[str] = ()
    ) -> dict[str, Written]:
        """The entries by their proper names; a key that means nothing is a mistake that says what was meant.

        Args:
            others: other words for some of them.
            further: names that are taken too, but that nobody is told of.
        """
        names, others, found = list(names), others or {}, dict[str, Written]()
        taken = {*names, *further}
        for key, inside in self.entries().items():
            name = others.get(snake(key), snake(key))
            if name not in taken:
                near = nearest(snake(key), [*names, *others], 1)
                meant = f"did you mean {near[0]!r}? " if near else ""
                raise inside.mistake(f"Unknown key {key!r}.", f"{meant}Known here: {', '.join(names)}.")
            if name in found:
                raise inside.mistake(f"{key} says the same as {found[name].key}.", "keep one of them.")
            found[name] = inside
        return found


Reader: TypeAlias = Callable[[Written], Any]


def snake(key: str) -> str:
    """`toolsAllowed` and `tools-allowed` as `tools_allowed`."""
    return _HUMP.sub("_", key).replace("-", "_").lower()


def text(given: Written) -> str:
    """Words that are there."""
    if not isinstance(given.value, str) or not given.value.strip() or "\0" in given.value:
        raise given.mistake(f"{given.key} must be text.")
    return given.value


def texts(given: Written) -> list[str]:
    """One text, or a list of them."""
    return [text(given)] if isinstance(given.value, str) else [text(item) for item in given.items()]


def word(given: Written) -> str:
    """Text for another program, which may be empty; numbers and truth are written out as JSON has them."""
    value = given.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)) or "\0" in str(value):
        raise given.mistake(f"{given.key} must be text.")
    return str(value)


def words(given: Written) -> dict[str, str]:
    """Text by name; nothing is said by null."""
    return {name: word(inside) for name, inside in given.entries().items() if inside.value is not None}


def flag(given: Written) -> bool:
    """True or false."""
    if not isinstance(given.value, bool):
        raise given.mistake(f"{given.key} must be true or false.")
    return given.value


def whole(given: Written) -> int:
    """A whole number from one on."""
    if isinstance(given.value, bool) or not isinstance(given.value, int) or given.value < 1:
        raise given.mistake(f"{given.key} must be a whole number, one at least.")
    return given.value


def number(given: Written) -> int:
    """A whole number, zero too."""
    return 0 if given.value == 0 and given.value is not False else whole(given)


def bytes_of(given: Written) -> int:
    """A number of bytes, or `4MiB`."""
    try:
        found = size(given.value) if isinstance(given.value, (int, str)) else 0
    except (ValueError, OverflowError):
        found = 0
    if found < 1 or isinstance(given.value, bool):
        raise given.mistake(f"{given.key} must be a size.", "write 4194304, 500kB or 4MiB.")
    return found


def duration(given: Written, *, ms: bool | None = None) -> float | None:
    """Seconds, or None for `off`; a bare number is seconds, and under a key in camelCase, or in `_ms`, milliseconds."""
    value = given.value
    if value is False:  # as YAML reads `off`
        return None
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value.strip()):
        value = float(value)
    try:
        found = seconds(value) if isinstance(value, str) else _scaled(value, _in_ms(given.key) if ms is None else ms)
    except (ValueError, TypeError, OverflowError):
        raise given.mistake(f"{given.key} must be a duration.", "write 500ms, 30s, 5m or off.") from None
    if found is not None and not (isfinite(found) and found > 0):
        raise given.mistake(f"{given.key} must be a duration above zero.", "write 500ms, 30s, 5m or off.")
    return found


def _scaled(value: Any, ms: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value) * (0.001 if ms else 1.0)


def _in_ms(key: str) -> bool:
    return key != key.lower() or key.endswith("_ms")


def one_of(**choices: str) -> Reader:
    """One of some words, each with what it means here."""
    known = {snake(choice): meant for choice, meant in choices.items()}

    def read(given: Written) -> str:
        found = known.get(snake(str(given.value)))  # YAML takes 2026-07-28 for a date
        if found is None:
            raise given.mistake(f"{given.key} is none that is known.", f"use {', '.join(choices)}.")
        return found

    return read
