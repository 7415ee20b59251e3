"""Reads a configuration file with MCP servers (JSON with comments, YAML or TOML) and knows the line of each key."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surehand.core.bounded_yaml import YamlTooLarge, compose_yaml, construct_yaml
from surehand.core.errors import DefinitionError
from surehand.core.extras import install_command
from surehand.core.json_with_comments import JsonPath, line_numbers, strip_comments
from surehand.providers.mcp.config.values import FileNode


@dataclass(frozen=True, slots=True)
class ServerFile:
    """A parsed file; the path is None if the servers were given as a mapping."""

    root: FileNode
    path: Path | None = None
    line_numbers: Mapping[JsonPath, int] = field(default_factory=dict)
    """The line of each key, for JSON only."""

    @property
    def folder(self) -> Path:
        """The folder to which paths in the file are relative."""
        return self.path.parent if self.path is not None else Path()

    def location_of(self, key_path: JsonPath) -> str:
        """The file and the line of a key, or of the nearest key above it; without lines, the file and the keys."""
        if self.path is None:
            return ""
        for end in range(len(key_path), 0, -1):
            if key_path[:end] in self.line_numbers:
                return f"{self.path}:{self.line_numbers[key_path[:end]]}"
        return f"{self.path}, {'.'.join(map(str, key_path))}" if key_path else str(self.path)


def read_server_file(path: Path) -> ServerFile:
    """Read and parse a file by its suffix; raises `DefinitionError`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is not UTF-8 text"
        raise DefinitionError(f"The file cannot be read: {reason}.", where=str(path)) from None
    parse = {".yaml": _parse_yaml, ".yml": _parse_yaml, ".toml": _parse_toml}.get(path.suffix.lower(), _parse_json)
    value, lines = parse(path, text)
    return ServerFile(FileNode({} if value is None else value), path, lines)


def _parse_json(path: Path, text: str) -> tuple[Any, dict[JsonPath, int]]:
    stripped = strip_comments(text)
    try:
        value = json.loads(stripped) if stripped.strip() else {}
    except json.JSONDecodeError as error:
        raise DefinitionError(f"The file is not valid JSON: {error.msg}.", where=f"{path}:{error.lineno}") from None
    except RecursionError:
        raise DefinitionError("The JSON is nested too deeply.", where=str(path)) from None
    lines: dict[JsonPath, int] = {}
    for key_path, line in line_numbers(stripped):
        if key_path in lines:
            problem = f"The key {key_path[-1]} occurs twice, first in line {lines[key_path]}."
            raise DefinitionError(problem, where=f"{path}:{line}")
        lines[key_path] = line
    return value, lines


def _parse_toml(path: Path, text: str) -> tuple[Any, dict[JsonPath, int]]:
    try:
        return tomllib.loads(text), {}
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError(f"The file is not valid TOML: {error}.", where=str(path)) from None


def _parse_yaml(path: Path, text: str) -> tuple[Any, dict[JsonPath, int]]:
    try:
        import yaml  # type: ignore[import-untyped]  # pyyaml has no type annotations
    except ImportError:
        raise DefinitionError("YAML needs the package pyyaml.", fix=f"{install_command('cli')}.") from None
    try:
        return construct_yaml(compose_yaml(text)), {}
    except YamlTooLarge as error:
        raise DefinitionError(f"The file cannot be read: {error}.", where=f"{path}:{error.line}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise DefinitionError("The file is not valid YAML.", where=str(path)) from None
