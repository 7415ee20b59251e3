"""Place: a value in a configuration file that knows where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from surehand.config.errors import ConfigError

Step: TypeAlias = str | int
Lines: TypeAlias = Mapping[tuple[Step, ...], int]
"""The line of each value, by the keys and numbers that lead to it."""


@dataclass(frozen=True, slots=True)
class Place:
    """One value, and the way to it from the top of its file."""

    path: Path
    lines: Lines
    value: Any
    at: tuple[Step, ...] = ()

    @property
    def key(self) -> str:
        """What it is called in the file."""
        return str(self.at[-1]) if self.at else "the file"

    @property
    def line(self) -> int | None:
        """Its line, or that of the nearest thing around it whose line is known."""
        known = (self.lines[self.at[:end]] for end in range(len(self.at), -1, -1) if self.at[:end] in self.lines)
        return next(known, None)

    def error(self, problem: str, fix: str = "") -> ConfigError:
        """What is wrong here."""
        return ConfigError(problem, path=self.path, line=self.line, fix=fix)

    def entries(self, fix: str = "") -> dict[str, Place]:
        """The values of a mapping."""
        if not isinstance(self.value, dict):
            raise self.error(f"{self.key} must hold keys and values.", fix)
        for key in self.value:
            if not isinstance(key, str):
                raise self._inside(str(key), None).error(f"A key in {self.key} is no text.", "put it in quotes.")
        return {key: self._inside(key, value) for key, value in self.value.items()}

    def items(self, fix: str = "") -> list[Place]:
        """The values of a list."""
        if not isinstance(self.value, list):
            raise self.error(f"{self.key} must be a list.", fix)
        return [self._inside(number, value) for number, value in enumerate(self.value)]

    def _inside(self, step: Step, value: Any) -> Place:
        return Place(self.path, self.lines, value, (*self.at, step))
