"""The section `builtin`: which of the built-in tools there are, and what they may touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    known_entries,
    read_duration,
    read_flag,
    read_positive_integer,
    read_size,
    read_text,
    read_texts,
)

SettingParser: TypeAlias = Callable[[ConfigNode], Any]
SettingValues: TypeAlias = Mapping[str, Any]


def _parse_ports(node: ConfigNode) -> Any:
    return (
        "any"
        if node.value == "any"
        else [read_positive_integer(item) for item in node.items("write [80, 443], or any.")]
    )


def _parse_allow_private(node: ConfigNode) -> Any:
    return node.value if isinstance(node.value, bool) else read_texts(node)


def _parse_text_mapping(node: ConfigNode) -> dict[str, str]:
    return {name: read_text(inside) for name, inside in node.entries().items()}


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """The engine behind `web_search`, with texts whose variables are filled in late."""

    engine: str
    node: ConfigNode
    settings: Mapping[str, ConfigNode] = field(default_factory=dict)


SEARCH_ENGINE_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "tavily": ("key",),
    "google": ("key", "cx"),
    "bing": ("key", "endpoint"),
    "duckduckgo": (),
    "brave": ("key",),
    "searxng": ("url",),
}
_SEARCH_KEY_ALIASES = {"provider": "engine", "api_key": "key"}


def _parse_search(node: ConfigNode) -> SearchSettings:
    """`tavily`, or `{engine: tavily, key: ${TAVILY_API_KEY}}`."""
    if isinstance(node.value, str):
        return SearchSettings(_parse_engine_name(node), node)
    found = known_entries(node, ("engine", "key", "cx", "endpoint", "url"), aliases=_SEARCH_KEY_ALIASES)
    if "engine" not in found:
        raise node.error("search has no engine.", f"write engine: {', '.join(SEARCH_ENGINE_SETTINGS)}.")
    engine = _parse_engine_name(found.pop("engine"))
    for name, inside in found.items():
        if name not in SEARCH_ENGINE_SETTINGS[engine]:
            raise inside.error(
                f"{engine} takes no {name}.", f"it takes: {', '.join(SEARCH_ENGINE_SETTINGS[engine]) or 'nothing'}."
            )
        read_text(inside)
    return SearchSettings(engine, node, found)


def _parse_engine_name(node: ConfigNode) -> str:
    if (engine := read_text(node).strip().lower()) not in SEARCH_ENGINE_SETTINGS:
        raise node.error("There is no such search engine.", f"use one of {', '.join(SEARCH_ENGINE_SETTINGS)}.")
    return engine


def _parse_names(node: ConfigNode) -> str:
    if node.value not in ("short", "long"):
        raise node.error("names must be short or long.")
    return str(node.value)


def _parse_folder(node: ConfigNode) -> ConfigNode:
    read_text(node)
    return node  # its variables are filled in when it is needed


BUILTIN_SETTINGS: Mapping[str, Mapping[str, SettingParser]] = {
    "files": {"names": _parse_names},
    "shell": {
        "network": read_flag, "env": _parse_text_mapping, "read": read_texts, "write": read_texts, "cpu": read_duration, "memory": read_size,
        "processes": read_positive_integer, "background": read_positive_integer, "life": read_duration, "unprotected": read_flag,
    },
    "web": {
        "search": _parse_search, "allow_private": _parse_allow_private, "allow_hosts": read_texts, "deny_hosts": read_texts, "ports": _parse_ports,
        "timeout": read_duration, "max_bytes": read_size, "max_redirects": read_positive_integer,
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
}  # fmt: skip
"""What may be said of each family of tools."""
REQUIRED_SETTINGS = {"env": "allow", "memory": "folder", "tasks": "folder", "sessions": "folder"}


@dataclass(frozen=True, slots=True)
class ToolFamily:
    """One family of built-in tools that is wanted."""

    name: str
    node: ConfigNode
    settings: SettingValues = field(default_factory=dict)


def parse_builtin(node: ConfigNode) -> tuple[ToolFamily, ...]:
    """Names of families, or each with its settings: `{files: {names: long}, data: true}`."""
    if isinstance(node.value, list):
        wanted = {read_text(item): item for item in node.items()}
    else:
        wanted = {name: item for name, item in node.entries("write [files, data].").items() if item.value is not False}
    for name, item in wanted.items():
        if name not in BUILTIN_SETTINGS:
            raise item.error(f"There are no built-in tools {name!r}.", f"use some of {', '.join(BUILTIN_SETTINGS)}.")
    return tuple(_parse_family(name, item) for name, item in wanted.items())


def _parse_family(name: str, node: ConfigNode) -> ToolFamily:
    given = known_entries(node, BUILTIN_SETTINGS[name]) if isinstance(node.value, dict) else {}
    in_list = isinstance(node.key_path[-1], int)
    if not (in_list or isinstance(node.value, dict) or node.value in (True, None)):
        raise node.error(f"{name} must be true, or hold its settings.")
    if (needed := REQUIRED_SETTINGS.get(name)) and needed not in given:
        raise node.error(f"{name} needs {needed}.", f"write {name}: {{{needed}: ...}}.")
    return ToolFamily(name, node, {key: BUILTIN_SETTINGS[name][key](inside) for key, inside in given.items()})
