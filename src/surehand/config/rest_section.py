"""The section `rest_tools`: HTTP requests as tools. `surehand.assemble` builds them with `rest(...)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from surehand.config.http_options import read_http_options
from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    known_entries,
    or_off,
    read_count,
    read_duration,
    read_flag,
    read_on_conflict,
    read_size,
    read_text,
    read_texts,
    to_snake_case,
)
from surehand.core.facets import EFFECTS
from surehand.core.provider import OnConflict

REST_NAMESPACE = "rest"
DEFAULT_METHOD = "GET"
CAMEL_CASE_SECTION = "restTools"
"""The name of the section in files that write times in milliseconds."""


@dataclass(frozen=True, slots=True)
class RestToolEntry:
    """One tool of the section: its name there, and the keyword arguments of `rest(...)`."""

    name: str
    node: ConfigNode
    method: str
    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    on_conflict: OnConflict = "error"


def parse_rest_tools(node: ConfigNode) -> tuple[RestToolEntry, ...]:
    """Parse the section: entries by name."""
    fix = "write weather: {method: GET, url: https://...}."
    return tuple(_parse_entry(name, entry) for name, entry in node.entries(fix).items())


def _read_headers(node: ConfigNode) -> dict[str, str]:
    return {name: _read_scalar(entry) for name, entry in node.entries("write {X-Name: value}.").items()}


def _read_scalar(node: ConfigNode) -> str:
    """A text, or a number or boolean as it is written in JSON."""
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        raise node.error(f"{node.key} must be a text.")
    return str(value)


def _read_mapping(node: ConfigNode) -> dict[str, Any]:
    node.entries()
    return dict(node.value)


def _read_effects(node: ConfigNode) -> tuple[str, ...]:
    effects = tuple(read_texts(node))
    if set(effects) - EFFECTS:
        raise node.error("effects has an unknown effect.", f"use some of {', '.join(sorted(EFFECTS))}.")
    return effects


def _read_time(node: ConfigNode) -> float | str:
    seconds = or_off(lambda each: read_duration(each, is_milliseconds=_is_in_milliseconds(node)))(node)
    return "off" if seconds is None else float(seconds)


def _is_in_milliseconds(node: ConfigNode) -> bool:
    return node.key_path[0] == CAMEL_CASE_SECTION


def _read_http(node: ConfigNode) -> dict[str, Any]:
    return read_http_options(node, is_milliseconds=_is_in_milliseconds(node))


def _read_snake_case(node: ConfigNode) -> Any:
    """A value whose keys may be written in camelCase, at any depth."""
    return _with_snake_case_keys(node.value)


def _with_snake_case_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {to_snake_case(str(key)): _with_snake_case_keys(item) for key, item in value.items()}
    return [_with_snake_case_keys(item) for item in value] if isinstance(value, list) else value


def _read_as_it_is(node: ConfigNode) -> Any:
    return node.value


_PARSERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "description": read_text,
    "parameters": _read_mapping,
    "query": _read_as_it_is,
    "headers": _read_headers,
    "body": _read_as_it_is,
    "body_type": read_text,
    "query_style": read_text,
    "pick": read_text,
    "redact": read_texts,
    "auth": _read_snake_case,
    "paginate": _read_snake_case,
    "stream": _read_snake_case,
    "env": read_texts,
    "http": _read_http,
    "effects": _read_effects,
    "timeout": _read_time,
    "retries": read_count,
    "cache": _read_time,
    "queue": read_text,
    "repeatable": read_flag,
    "max_bytes": read_size,
    "confirm": read_flag,
    "confirm_message": read_text,
    "display": _read_mapping,
    "visible": read_flag,
    "aliases": read_texts,
    "toolsets": read_texts,
    "category": read_text,
}
"""How each key is read that is an argument of `rest(...)`."""
_ALIASES = {
    "parameters_schema": "parameters",
    "input_schema": "parameters",
    "body_template": "body",
    "streaming": "stream",
}
REST_TOOL_KEYS = ("method", "url", *_PARSERS, "on_conflict", "has_complex_query_params", "query_param_names")


def _parse_entry(name: str, node: ConfigNode) -> RestToolEntry:
    entries = known_entries(node, REST_TOOL_KEYS, aliases=_ALIASES)
    if "url" not in entries:
        raise node.error(f"The REST tool {name} has no url.", "write url: https://....")
    options = {key: _PARSERS[key](entry) for key, entry in entries.items() if key in _PARSERS}
    _merge_query_keys(options, entries)
    if isinstance(options.get("stream"), dict) and options["stream"].pop("timeout_ms", None) is not None:
        options.setdefault("timeout", _read_stream_timeout(entries["stream"]))
    return RestToolEntry(
        name,
        node,
        read_text(entries["method"]) if "method" in entries else DEFAULT_METHOD,
        read_text(entries["url"]),
        options,
        read_on_conflict(entries["on_conflict"]) if "on_conflict" in entries else "error",
    )


def _read_stream_timeout(stream: ConfigNode) -> float:
    """`timeoutMs` of a stream: a number of milliseconds, or a duration with its unit."""
    node = next(entry for key, entry in stream.entries().items() if to_snake_case(key) == "timeout_ms")
    return read_duration(node, is_milliseconds=True)


def _merge_query_keys(options: dict[str, Any], entries: Mapping[str, ConfigNode]) -> None:
    """Take over `queryParamNames` and `hasComplexQueryParams`, which files of ai-agent have."""
    if "query_param_names" in entries:
        names = entries["query_param_names"]
        if "query" in options:
            raise names.error(f"query and {names.key} set the same value.", "keep one of them.")
        options["query"] = read_texts(names)
    if "has_complex_query_params" in entries and read_flag(entries["has_complex_query_params"]):
        options.setdefault("query_style", "indexed")
