"""The section `builtin`: the families of built-in tools and their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from surehand.config.http_options import read_allow_private, read_ports
from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    known_entries,
    read_duration,
    read_flag,
    read_on_conflict,
    read_positive_integer,
    read_size,
    read_text,
    read_texts,
)
from surehand.core.provider import OnConflict

SettingParser: TypeAlias = Callable[[ConfigNode], Any]
SettingValues: TypeAlias = Mapping[str, Any]


def _parse_text_mapping(node: ConfigNode) -> dict[str, str]:
    return {name: read_text(entry) for name, entry in node.entries().items()}


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """The engine of `web_search`, with settings whose variables are expanded later."""

    engine: str
    node: ConfigNode
    settings: Mapping[str, ConfigNode] = field(default_factory=dict)
    max_results: int | None = None
    """How many results a search gives at most; None for the default of `web`."""
    is_optional: bool = False
    """Whether the tools start without the engine if one of its variables is not set."""


SEARCH_ENGINE_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "tavily": ("key", "endpoint"),
    "google": ("key", "cx", "endpoint"),
    "bing": ("key", "endpoint"),
    "duckduckgo": ("endpoint",),
    "brave": ("key", "endpoint"),
    "searxng": ("url",),
}
_REQUIRED_ADDRESS = {"bing": "endpoint", "searxng": "url"}
"""The setting with the address of engines that have no address of their own."""
_SEARCH_KEYS = ("engine", "key", "cx", "endpoint", "url", "max_results")
_SEARCH_KEY_ALIASES = {"provider": "engine", "api_key": "key"}
_MAX_SEARCH_RESULTS = 20


def parse_search(node: ConfigNode, *, is_optional: bool = False) -> SearchSettings:
    """Parse `tavily`, or `{engine: tavily, key: ${TAVILY_API_KEY}, max_results: 10}`.

    Args:
        is_optional: whether the tools start without the engine if a variable is not set, and a key that the engine
            does not need is left out.
    """
    if isinstance(node.value, str):
        engine = _parse_engine_name(node)
        _require_address(engine, {}, node)
        return SearchSettings(engine, node, is_optional=is_optional)
    settings = known_entries(node, _SEARCH_KEYS, aliases=_SEARCH_KEY_ALIASES)
    if "engine" not in settings:
        word = "provider" if is_optional else "engine"
        fix = f"write {word}: with one of {', '.join(SEARCH_ENGINE_SETTINGS)}."
        raise node.error(f"{node.key} has no {word}.", fix)
    engine = _parse_engine_name(settings.pop("engine"))
    max_results = _parse_max_results(settings.pop("max_results")) if "max_results" in settings else None
    known = SEARCH_ENGINE_SETTINGS[engine]
    if is_optional and "key" not in known:
        settings.pop("key", None)
    for name, setting in settings.items():
        if name not in known:
            raise setting.error(f"{engine} has no setting {name}.", f"its settings: {', '.join(known) or 'none'}.")
        read_text(setting)
    _require_address(engine, settings, node)
    return SearchSettings(engine, node, settings, max_results, is_optional)


def _parse_max_results(node: ConfigNode) -> int:
    count = read_positive_integer(node)
    if count > _MAX_SEARCH_RESULTS:
        raise node.error(f"{node.key} must be at most {_MAX_SEARCH_RESULTS}.", "write a smaller number.")
    return count


def _require_address(engine: str, settings: Mapping[str, ConfigNode], node: ConfigNode) -> None:
    name = _REQUIRED_ADDRESS.get(engine)
    if name is not None and name not in settings:
        word = "provider" if isinstance(node.value, dict) and "provider" in node.value else "engine"
        fix = f'write {node.key}: {{{word}: {engine}, {name}: "https://search.example.com"}}.'
        raise node.error(f"{engine} needs {name}, the URL of the server that it searches with.", fix)


def _parse_engine_name(node: ConfigNode) -> str:
    engine = read_text(node).strip().lower()
    if engine not in SEARCH_ENGINE_SETTINGS:
        raise node.error("Unknown search engine.", f"use one of {', '.join(SEARCH_ENGINE_SETTINGS)}.")
    return engine


def _parse_names(node: ConfigNode) -> str:
    if node.value not in ("short", "long", "both"):
        raise node.error("names must be short, long or both.")
    return str(node.value)


def _parse_folder(node: ConfigNode) -> ConfigNode:
    read_text(node)
    return node  # variables are expanded when the tools are built


BUILTIN_SETTINGS: Mapping[str, Mapping[str, SettingParser]] = {
    "files": {"names": _parse_names},
    "shell": {
        "network": read_flag,
        "env": _parse_text_mapping,
        "read": read_texts,
        "write": read_texts,
        "cpu": read_duration,
        "memory": read_size,
        "processes": read_positive_integer,
        "background": read_positive_integer,
        "life": read_duration,
        "unprotected": read_flag,
    },
    "web": {
        "search": parse_search,
        "allow_private": read_allow_private,
        "allow_hosts": read_texts,
        "deny_hosts": read_texts,
        "ports": read_ports,
        "timeout": read_duration,
        "max_bytes": read_size,
        "max_redirects": read_positive_integer,
    },
    "data": {},
    "clock": {},
    "env": {"allow": read_texts},
    "memory": {"folder": _parse_folder},
    "todo": {},
    "tasks": {"folder": _parse_folder},
    "sessions": {"folder": _parse_folder},
    "goals": {},
    "memories": {},
    "plans": {},
    "spaces": {},
    "inbox": {},
    "delegate": {},
}
"""The settings of each family, with their parsers."""
REQUIRED_SETTINGS = {"env": "allow", "memory": "folder", "tasks": "folder", "sessions": "folder"}


@dataclass(frozen=True, slots=True)
class ToolFamily:
    """A family of built-in tools that the configuration enables."""

    name: str
    node: ConfigNode
    settings: SettingValues = field(default_factory=dict)
    on_conflict: OnConflict = "error"


def parse_builtin(node: ConfigNode) -> tuple[ToolFamily, ...]:
    """Parse a list of families, or families with settings: `{files: {names: long}, data: true}`."""
    if isinstance(node.value, list):
        families = {read_text(item): item for item in node.items()}
    else:
        if not isinstance(node.value, dict):
            raise node.error("builtin must be a list of families, or a mapping with settings.", "write [files, data].")
        entries = node.entries()
        families = {name: entry for name, entry in entries.items() if entry.value is not False}
    for name, family in families.items():
        if name not in BUILTIN_SETTINGS:
            fix = f"use some of {', '.join(BUILTIN_SETTINGS)}."
            raise family.error(f"Unknown family of built-in tools {name!r}.", fix)
    return tuple(_parse_family(name, family) for name, family in families.items())


def _parse_family(name: str, node: ConfigNode) -> ToolFamily:
    has_settings = isinstance(node.value, dict)
    is_list_item = isinstance(node.key_path[-1], int)
    if not (is_list_item or has_settings or node.value in (True, None)):
        raise node.error(f"{name} must be true or a mapping of its settings.")
    parsers = BUILTIN_SETTINGS[name]
    entries = known_entries(node, (*parsers, "on_conflict")) if has_settings else {}
    on_conflict = read_on_conflict(entries.pop("on_conflict")) if "on_conflict" in entries else "error"
    required = REQUIRED_SETTINGS.get(name)
    if required and required not in entries:
        raise node.error(f"{name} needs {required}.", f"write {name}: {{{required}: ...}}.")
    return ToolFamily(name, node, {key: parsers[key](entry) for key, entry in entries.items()}, on_conflict)
