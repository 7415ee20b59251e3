"""Reading YAML, JSON and TOML files into a `ConfigNode` that knows the line of each value."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surehand.config.errors import ConfigError
from surehand.config.node import ConfigNode, KeyOrIndex, LineNumbers
from surehand.core.bounded_yaml import YamlTooLarge, compose_yaml, construct_yaml
from surehand.core.json_with_comments import strip_comments

_TOML_TABLE = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_TOML_KEY = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")
_TOML_ERROR_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


def read_config_file(path: Path) -> ConfigNode:
    """Read a configuration file and return its top node; an empty file is an empty mapping."""
    parsers = {".yaml": _parse_yaml, ".yml": _parse_yaml, ".json": _parse_json, ".toml": _parse_toml}
    suffix = path.suffix.lower()
    if suffix not in parsers:
        raise ConfigError(f"{path} is not a configuration file.", fix=f"use a file that ends in {', '.join(parsers)}.")
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors of Windows write a byte order mark
    except UnicodeDecodeError:
        raise ConfigError("The file is not UTF-8 text.", path=path) from None
    except OSError as error:
        raise ConfigError(f"The file cannot be read: {error.strerror}.", path=path) from None
    values, lines = parsers[suffix](path, text)
    return ConfigNode(path, lines, {} if values is None else values)


def _parse_yaml(path: Path, text: str) -> tuple[Any, LineNumbers]:
    import yaml  # type: ignore[import-untyped]  # PyYAML has no type hints

    try:
        node = compose_yaml(text)
        lines = _unique_line_numbers(path, node)
        return construct_yaml(node), lines
    except YamlTooLarge as error:
        raise ConfigError(f"The file cannot be read: {error}.", path=path, line=error.line) from None
    except yaml.MarkedYAMLError as error:  # str(error) quotes the file, which may contain secrets
        mark = error.problem_mark or error.context_mark
        # Problems of the scanner and the parser name tokens only; others quote names of aliases or tags.
        is_safe = isinstance(error, (yaml.scanner.ScannerError, yaml.parser.ParserError))
        reason = error.problem if is_safe else "an alias, a key or a tag cannot be used"
        problem = f"The file is not valid YAML: {reason}."
        raise ConfigError(problem, path=path, line=mark.line + 1 if mark else None) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError("The file is not valid YAML.", path=path) from None


def _unique_line_numbers(path: Path, top: Any) -> LineNumbers:
    """The line of each value; a duplicate key, which PyYAML accepts, is an error."""
    lines: dict[tuple[KeyOrIndex, ...], int] = {}
    for key_path, line in _yaml_line_numbers(top, (), set()):
        if key_path in lines:
            raise ConfigError(f"Duplicate key {key_path[-1]}, first in line {lines[key_path]}.", path=path, line=line)
        lines[key_path] = line
    return lines


def _yaml_line_numbers(
    node: Any, key_path: tuple[KeyOrIndex, ...], seen: set[int]
) -> Iterator[tuple[tuple[KeyOrIndex, ...], int]]:
    """Key paths and lines of a YAML node. An aliased node is visited once, because it may contain itself."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if node.id == "mapping":
        for key, value in node.value:
            name = key.value if isinstance(key.value, str) else "?"
            if name != "<<":
                yield (*key_path, name), key.start_mark.line + 1
            yield from _yaml_line_numbers(value, (*key_path, name), seen)
    elif node.id == "sequence":
        for index, value in enumerate(node.value):
            yield (*key_path, index), value.start_mark.line + 1
            yield from _yaml_line_numbers(value, (*key_path, index), seen)


def _parse_json(path: Path, text: str) -> tuple[Any, LineNumbers]:
    text = strip_comments(text)
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"The file is not valid JSON: {error.msg}.", path=path, line=error.lineno) from None
    except RecursionError:
        raise ConfigError("The JSON is nested too deeply.", path=path) from None
    # JSON is also YAML, except for tabs between tokens; strings in JSON cannot contain tabs.
    return values, _parse_yaml(path, text.replace("\t", " "))[1]


def _parse_toml(path: Path, text: str) -> tuple[Any, LineNumbers]:
    try:
        return tomllib.loads(text), dict(_toml_line_numbers(text))
    except tomllib.TOMLDecodeError as error:
        match = _TOML_ERROR_LINE.search(str(error))
        problem = f"The file is not valid TOML: {_TOML_ERROR_LINE.sub('', str(error))}."
        raise ConfigError(problem, path=path, line=int(match[1]) if match else None) from None


def _toml_line_numbers(text: str) -> Iterator[tuple[tuple[KeyOrIndex, ...], int]]:
    """Lines of tables and of keys at the start of a line; `tomllib` reports no positions."""
    table: tuple[KeyOrIndex, ...] = ()
    counts: dict[tuple[KeyOrIndex, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _TOML_TABLE.match(line):
            table = _split_dotted_key(match[2])
            if match[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield table, number
        elif match := _TOML_KEY.match(line):
            yield (*table, *_split_dotted_key(match[1])), number


def _split_dotted_key(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
