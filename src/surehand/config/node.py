"""Place: a value in a configuration file that knows where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from surehand.config.errors import ConfigError

KeyOrIndex: TypeAlias = str | int
LineNumbers: TypeAlias = Mapping[tuple[KeyOrIndex, ...], int]
"""The line of each value, by the keys and numbers that lead to it."""


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """One value, and the way to it from the top of its file."""

    path: Path
    lines: LineNumbers
    value: Any
    key_path: tuple[KeyOrIndex, ...] = ()

    @property
    def key(self) -> str:
        """What it is called in the file."""
        return str(self.key_path[-1]) if self.key_path else "the file"

    @property
    def line(self) -> int | None:
        """Its line, or that of the nearest thing around it whose line is known."""
        known = (
            self.lines[self.key_path[:end]]
            for end in range(len(self.key_path), -1, -1)
            if self.key_path[:end] in self.lines
        )
        return next(known, None)

    def error(self, problem: str, fix: str = "") -> ConfigError:
        """What is wrong here."""
        return ConfigError(problem, path=self.path, line=self.line, fix=fix)

    def entries(self, fix: str = "") -> dict[str, ConfigNode]:
        """The values of a mapping."""
        if not isinstance(self.value, dict):
            raise self.error(f"{self.key} must hold keys and values.", fix)
        for key in self.value:
            if not isinstance(key, str):
                raise self._child(str(key), None).error(f"A key in {self.key} is no text.", "put it in quotes.")
        return {key: self._child(key, value) for key, value in self.value.items()}

    def items(self, fix: str = "") -> list[ConfigNode]:
        """The values of a list."""
        if not isinstance(self.value, list):
            raise self.error(f"{self.key} must be a list.", fix)
        return [self._child(number, value) for number, value in enumerate(self.value)]

    def _child(self, key: KeyOrIndex, value: Any) -> ConfigNode:
        return ConfigNode(self.path, self.lines, value, (*self.key_path, key))
