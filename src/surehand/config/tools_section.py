"""The section `tools`: a list of sources and tool definitions, or the settings of a `config.yml` (a mapping)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surehand.config.builtin_section import SearchSettings, ToolFamily, parse_search
from surehand.config.errors import ConfigError
from surehand.config.mcp_section import McpSection, parse_mcp_servers
from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    known_entries,
    or_off,
    read_duration,
    read_on_conflict,
    read_positive_integer,
    read_text,
    read_texts,
)
from surehand.config.tool_entry import ToolEntry, parse_tool_entry
from surehand.core.provider import OnConflict

SETTINGS_MAX_CONCURRENT = 3
"""Calls at once in a file whose `tools` is a mapping, unless it sets another limit."""


@dataclass(frozen=True, slots=True)
class ToolSource:
    """A source of tools: a file or a module, or an object in one of them."""

    location: str
    node: ConfigNode
    on_conflict: OnConflict = "error"

    def error(self, problem: str, fix: str = "") -> ConfigError:
        """An error at the position of the source in the file."""
        return self.node.error(problem, fix)


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """`tools` as a mapping: limits, allowed folders, a search engine and MCP servers."""

    node: ConfigNode
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of `Defaults`, by their names there."""
    allowed_paths: ConfigNode | None = None
    search: SearchSettings | None = None
    mcp_servers: McpSection | None = None

    def families(self) -> tuple[ToolFamily, ...]:
        """The built-in tools of such a file: those that need no setting, and those that it configures."""
        families = [ToolFamily(name, self.node) for name in ("clock", "data")]
        families.append(ToolFamily("files", self.node, {"names": "long"}))
        if self.search is not None:
            families.append(ToolFamily("web", self.search.node, {"search": self.search}))
        return tuple(families)


@dataclass(frozen=True, slots=True)
class ToolsSection:
    """All that the section may hold."""

    sources: tuple[ToolSource, ...] = ()
    definitions: tuple[ToolEntry, ...] = ()
    settings: ToolSettings | None = None


def parse_tools(node: ConfigNode) -> ToolsSection:
    """Parse the section."""
    if isinstance(node.value, dict):
        return ToolsSection(settings=_parse_settings(node))
    items = [_parse_item(item) for item in node.items("write - tools.py, or - package.module:object.")]
    return ToolsSection(
        tuple(item for item in items if isinstance(item, ToolSource)),
        tuple(item for item in items if isinstance(item, ToolEntry)),
    )


def _parse_item(node: ConfigNode) -> ToolSource | ToolEntry:
    if isinstance(node.value, dict):
        if "source" not in node.value:
            return parse_tool_entry(node)
        entries = known_entries(node, ("source", "on_conflict"))
        on_conflict = read_on_conflict(entries["on_conflict"]) if "on_conflict" in entries else "error"
        return ToolSource(read_text(entries["source"]).strip(), node, on_conflict)
    if not isinstance(node.value, str) or not node.value.strip():
        raise node.error("A source of tools must be a text.", "write tools.py, or package.module:object.")
    return ToolSource(node.value.strip(), node)


_SETTINGS_KEYS = ("timeout", "max_concurrent", "allowed_paths", "web_search", "mcp_servers")


def _parse_settings(node: ConfigNode) -> ToolSettings:
    entries = known_entries(node, _SETTINGS_KEYS, aliases={"max_concurrent_tools": "max_concurrent"})
    defaults: dict[str, Any] = {"max_concurrent": SETTINGS_MAX_CONCURRENT}
    if "timeout" in entries:
        # Such files give times in milliseconds, also under keys in lower case.
        read = or_off(lambda entry: read_duration(entry, is_milliseconds=True))
        defaults["tool_timeout"] = read(entries["timeout"])
    if "max_concurrent" in entries:
        defaults["max_concurrent"] = or_off(read_positive_integer)(entries["max_concurrent"])
    if "allowed_paths" in entries:
        read_texts(entries["allowed_paths"])
    search = parse_search(entries["web_search"], is_optional=True) if "web_search" in entries else None
    servers = parse_mcp_servers(entries["mcp_servers"]) if "mcp_servers" in entries else None
    return ToolSettings(node, defaults, entries.get("allowed_paths"), search, servers)
