"""File: somebody's file of servers, and the line on which each part of it stands."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.core.json_with_comments import JsonPath, line_numbers, strip_comments
from surehand.providers.mcp.config.values import FileNode


@dataclass(frozen=True, slots=True)
class ServerFile:
    """What was read; without a path it was never a file."""

    root: FileNode
    path: Path | None = None
    line_numbers: Mapping[JsonPath, int] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """What its own paths are relative to."""
        return self.path.parent if self.path is not None else Path()

    def location_of(self, key_path: JsonPath) -> str:
        """The file and the line, or as much of that as is known."""
        if self.path is None:
            return ""
        line = next(
            (
                self.line_numbers[key_path[:end]]
                for end in range(len(key_path), 0, -1)
                if key_path[:end] in self.line_numbers
            ),
            None,
        )
        return (
            f"{self.path}:{line}"
            if line
            else ", ".join([str(self.path), *filter(None, [".".join(map(str, key_path))])])
        )


def read_server_file(path: Path) -> ServerFile:
    """JSON with comments, YAML or TOML; lines are known of JSON."""
    try:
        written = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise DefinitionError(f"The file cannot be read: {reason}.", where=str(path)) from None
    reader = {".yaml": _parse_yaml, ".yml": _parse_yaml, ".toml": _parse_toml}.get(path.suffix.lower(), _parse_json)
    value, known = reader(path, written)
    return ServerFile(FileNode({} if value is None else value), path, known)


def _parse_json(path: Path, text: str) -> tuple[Any, dict[JsonPath, int]]:
    bare = strip_comments(text)
    try:
        value = json.loads(bare) if bare.strip() else {}
    except json.JSONDecodeError as error:
        raise DefinitionError(f"This is no JSON: {error.msg}.", where=f"{path}:{error.lineno}") from None
    except RecursionError:
        raise DefinitionError("The JSON is nested too deeply.", where=str(path)) from None
    known: dict[JsonPath, int] = {}
    for at, line in line_numbers(bare):
        if at in known:
            raise DefinitionError(f"{at[-1]} is there twice, first in line {known[at]}.", where=f"{path}:{line}")
        known[at] = line
    return value, known


def _parse_toml(path: Path, text: str) -> tuple[Any, dict[JsonPath, int]]:
    try:
        return tomllib.loads(text), {}
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError(f"This is no TOML: {error}.", where=str(path)) from None


def _parse_yaml(path: Path, text: str) -> tuple[Any, dict[JsonPath, int]]:
    try:
        import yaml  # type: ignore[import-untyped]  # it brings no types of its own
    except ImportError:
        raise DefinitionError("YAML needs the package pyyaml.", fix="pip install 'surehand[cli]'.") from None
    try:
        return yaml.safe_load(text), {}
    except (yaml.YAMLError, ValueError, RecursionError):
        raise DefinitionError("This is no YAML.", where=str(path)) from None
