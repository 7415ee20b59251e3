"""The sections `mcp_servers` and `inputs`, kept as written: `surehand.providers.mcp` parses their entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surehand.config.errors import ConfigError
from surehand.config.node import ConfigNode, KeyOrIndex


@dataclass(frozen=True, slots=True)
class McpSection:
    """A section with its position in the file."""

    node: ConfigNode

    @property
    def value(self) -> Any:
        """The content of the section: entries by name, or a list of entries with a name."""
        return self.node.value

    def error(self, key_path: tuple[KeyOrIndex, ...], problem: str, fix: str = "") -> ConfigError:
        """An error at a key path of the file."""
        return self._node_at(key_path).error(problem, fix)

    def location(self, key_path: tuple[KeyOrIndex, ...]) -> str:
        """File and line of a key path, for messages."""
        line = self._node_at(key_path).line
        return f"{self.node.path}:{line}" if line else str(self.node.path)

    def _node_at(self, key_path: tuple[KeyOrIndex, ...]) -> ConfigNode:
        return ConfigNode(self.node.path, self.node.lines, None, key_path)


def parse_mcp_servers(node: ConfigNode) -> McpSection:
    """Parse `mcp_servers`: entries by name or a list of entries with a name, also below `mcp: {servers: ...}`."""
    if node.key == "mcp" and isinstance(node.value, dict) and "servers" in node.value:
        node = node.entries()["servers"]
    if not isinstance(node.value, (dict, list)):
        fix = "write name: {command: ...}, or {url: ...}."
        raise node.error(f"{node.key} must be a mapping of names to servers.", fix)
    return McpSection(node)


def parse_inputs(node: ConfigNode) -> McpSection:
    """Parse `inputs`: the values that VS Code would ask for, beside its `servers`."""
    node.items()
    return McpSection(node)
