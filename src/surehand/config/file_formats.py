"""Documents: YAML, JSON and TOML files as values whose lines are known."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surehand.config.errors import ConfigError
from surehand.config.node import ConfigNode, KeyOrIndex, LineNumbers
from surehand.core.json_with_comments import strip_comments

_TOML_TABLE = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_TOML_KEY = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")
_TOML_ERROR_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


def read_config_file(path: Path) -> ConfigNode:
    """The top of a configuration file; an empty file is an empty mapping."""
    readers = {".yaml": _parse_yaml, ".yml": _parse_yaml, ".json": _parse_json, ".toml": _parse_toml}
    if path.suffix.lower() not in readers:
        raise ConfigError(f"{path} is no configuration file.", fix=f"use one that ends in {', '.join(readers)}.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("The file is not UTF-8 text.", path=path) from None
    except OSError as error:
        raise ConfigError(f"The file cannot be read: {error.strerror}.", path=path) from None
    values, lines = readers[path.suffix.lower()](path, text)
    return ConfigNode(path, lines, {} if values is None else values)


def _parse_yaml(path: Path, text: str) -> tuple[Any, LineNumbers]:
    import yaml  # type: ignore[import-untyped]  # it brings no types of its own

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        lines = _unique_line_numbers(path, node)
        return None if node is None else loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:  # its own text quotes the file
        mark = error.problem_mark or error.context_mark
        known = isinstance(error, (yaml.scanner.ScannerError, yaml.parser.ParserError))
        problem = f"This is no YAML: {error.problem if known else 'an alias, a key or a tag that cannot be used'}."
        raise ConfigError(problem, path=path, line=mark.line + 1 if mark else None) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError("This is no YAML.", path=path) from None
    finally:
        loader.dispose()


def _unique_line_numbers(path: Path, top: Any) -> LineNumbers:
    lines: dict[tuple[KeyOrIndex, ...], int] = {}
    for at, line in _yaml_line_numbers(top, (), set()):
        if at in lines:
            raise ConfigError(f"{at[-1]} is there twice, first in line {lines[at]}.", path=path, line=line)
        lines[at] = line
    return lines


def _yaml_line_numbers(
    node: Any, key_path: tuple[KeyOrIndex, ...], seen: set[int]
) -> Iterator[tuple[tuple[KeyOrIndex, ...], int]]:
    """Where each value stands. What an alias repeats is looked at once: it may even hold itself."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if node.id == "mapping":
        for key, value in node.value:
            step = key.value if isinstance(key.value, str) else "?"
            if step != "<<":
                yield (*key_path, step), key.start_mark.line + 1
            yield from _yaml_line_numbers(value, (*key_path, step), seen)
    elif node.id == "sequence":
        for number, value in enumerate(node.value):
            yield (*key_path, number), value.start_mark.line + 1
            yield from _yaml_line_numbers(value, (*key_path, number), seen)


def _parse_json(path: Path, text: str) -> tuple[Any, LineNumbers]:
    text = strip_comments(text)
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"This is no JSON: {error.msg}.", path=path, line=error.lineno) from None
    except RecursionError:
        raise ConfigError("The JSON is nested too deeply.", path=path) from None
    # JSON is YAML but for tabs between its parts, and inside its strings there are none.
    return values, _parse_yaml(path, text.replace("\t", " "))[1]


def _parse_toml(path: Path, text: str) -> tuple[Any, LineNumbers]:
    try:
        return tomllib.loads(text), dict(_toml_line_numbers(text))
    except tomllib.TOMLDecodeError as error:
        found = _TOML_ERROR_LINE.search(str(error))
        problem = f"This is no TOML: {_TOML_ERROR_LINE.sub('', str(error))}."
        raise ConfigError(problem, path=path, line=int(found[1]) if found else None) from None


def _toml_line_numbers(text: str) -> Iterator[tuple[tuple[KeyOrIndex, ...], int]]:
    """The lines of tables and of the keys that begin a line: all that can be known without a parser."""
    table: tuple[KeyOrIndex, ...] = ()
    counts: dict[tuple[KeyOrIndex, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _TOML_TABLE.match(line):
            table = _split_dotted_key(found[2])
            if found[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield table, number
        elif found := _TOML_KEY.match(line):
            yield (*table, *_split_dotted_key(found[1])), number


def _split_dotted_key(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
