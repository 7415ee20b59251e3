"""The section `mcp_servers`: which MCP servers there are. What each may say is known to those who reach them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surehand.config.errors import ConfigError
from surehand.config.node import ConfigNode, KeyOrIndex


@dataclass(frozen=True, slots=True)
class McpSection:
    """The servers as they are written, and where."""

    node: ConfigNode

    @property
    def value(self) -> Any:
        """Entries by name, or a list of entries that have one."""
        return self.node.value

    def error(self, key_path: tuple[KeyOrIndex, ...], problem: str, fix: str = "") -> ConfigError:
        """What is wrong at some place of the file."""
        return self._node_at(key_path).error(problem, fix)

    def location(self, key_path: tuple[KeyOrIndex, ...]) -> str:
        """The file and the line."""
        line = self._node_at(key_path).line
        return f"{self.node.path}:{line}" if line else str(self.node.path)

    def _node_at(self, key_path: tuple[KeyOrIndex, ...]) -> ConfigNode:
        return ConfigNode(self.node.path, self.node.lines, None, key_path)


def parse_mcp_servers(node: ConfigNode) -> McpSection:
    """Entries by name, or a list of entries that have one; under `mcp`, they may be those of its `servers`."""
    if node.key == "mcp" and isinstance(node.value, dict) and "servers" in node.value:
        node = node.entries()["servers"]
    if not isinstance(node.value, (dict, list)):
        raise node.error(f"{node.key} must hold servers by name.", "write name: {command: ...}, or {url: ...}.")
    return McpSection(node)


def parse_inputs(node: ConfigNode) -> McpSection:
    """What VS Code would ask for, beside its `servers`."""
    node.items()
    return McpSection(node)
