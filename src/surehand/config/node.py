"""A value of a configuration file together with its file, line and key path, for precise errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from surehand.config.errors import ConfigError

KeyOrIndex: TypeAlias = str | int
LineNumbers: TypeAlias = Mapping[tuple[KeyOrIndex, ...], int]
"""The line number of each value, by its key path."""


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """One value, and its key path from the top of the file."""

    path: Path
    lines: LineNumbers
    value: Any
    key_path: tuple[KeyOrIndex, ...] = ()

    @property
    def key(self) -> str:
        """The last key of the path, for messages."""
        return str(self.key_path[-1]) if self.key_path else "the file"

    @property
    def line(self) -> int | None:
        """The line of the value, or of the nearest enclosing value whose line is known."""
        # TOML's inline tables, and values behind a YAML alias, have no line of their own.
        for length in range(len(self.key_path), -1, -1):
            line = self.lines.get(self.key_path[:length])
            if line is not None:
                return line
        return None

    def error(self, problem: str, fix: str = "") -> ConfigError:
        """An error at the position of this value."""
        return ConfigError(problem, path=self.path, line=self.line, fix=fix)

    def entries(self, fix: str = "") -> dict[str, ConfigNode]:
        """The values of a mapping, by key."""
        if not isinstance(self.value, dict):
            raise self.error(f"{self.key} must be a mapping of keys to values.", fix)
        for key in self.value:
            if not isinstance(key, str):
                raise self._child(str(key), None).error(f"A key in {self.key} is not a string.", "put it in quotes.")
        return {key: self._child(key, value) for key, value in self.value.items()}

    def items(self, fix: str = "") -> list[ConfigNode]:
        """The values of a list."""
        if not isinstance(self.value, list):
            raise self.error(f"{self.key} must be a list.", fix)
        return [self._child(index, value) for index, value in enumerate(self.value)]

    def _child(self, key: KeyOrIndex, value: Any) -> ConfigNode:
        return ConfigNode(self.path, self.lines, value, (*self.key_path, key))
