"""File: somebody's file of servers, and the line on which each part of it stands."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.core.jsonc import Way, lines, plain
from surehand.providers.mcp.written.written import Written


@dataclass(frozen=True, slots=True)
class File:
    """What was read; without a path it was never a file."""

    top: Written
    path: Path | None = None
    lines: Mapping[Way, int] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """What its own paths are relative to."""
        return self.path.parent if self.path is not None else Path()

    def where(self, at: Way) -> str:
        """The file and the line, or as much of that as is known."""
        if self.path is None:
            return ""
        line = next((self.lines[at[:end]] for end in range(len(at), 0, -1) if at[:end] in self.lines), None)
        return f"{self.path}:{line}" if line else ", ".join([str(self.path), *filter(None, [".".join(map(str, at))])])


def read_file(path: Path) -> File:
    """JSON with comments, YAML or TOML; lines are known of JSON."""
    try:
        written = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise DefinitionError(f"The file cannot be read: {reason}.", where=str(path)) from None
    reader = {".yaml": _yaml, ".yml": _yaml, ".toml": _toml}.get(path.suffix.lower(), _json)
    value, known = reader(path, written)
    return File(Written({} if value is None else value), path, known)


def _json(path: Path, written: str) -> tuple[Any, dict[Way, int]]:
    bare = plain(written)
    try:
        value = json.loads(bare) if bare.strip() else {}
    except json.JSONDecodeError as error:
        raise DefinitionError(f"This is no JSON: {error.msg}.", where=f"{path}:{error.lineno}") from None
    except RecursionError:
        raise DefinitionError("The JSON is nested too deeply.", where=str(path)) from None
    known: dict[Way, int] = {}
    for at, line in lines(bare):
        if at in known:
            raise DefinitionError(f"{at[-1]} is there twice, first in line {known[at]}.", where=f"{path}:{line}")
        known[at] = line
    return value, known


def _toml(path: Path, written: str) -> tuple[Any, dict[Way, int]]:
    try:
        return tomllib.loads(written), {}
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError(f"This is no TOML: {error}.", where=str(path)) from None


def _yaml(path: Path, written: str) -> tuple[Any, dict[Way, int]]:
    try:
        import yaml  # type: ignore[import-untyped]  # it brings no types of its own
    except ImportError:
        raise DefinitionError("YAML needs the package pyyaml.", fix="pip install 'surehand[cli]'.") from None
    try:
        return yaml.safe_load(written), {}
    except (yaml.YAMLError, ValueError, RecursionError):
        raise DefinitionError("This is no YAML.", where=str(path)) from None
