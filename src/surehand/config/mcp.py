"""The section `mcp_servers`: which MCP servers there are. What each may say is known to those who reach them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surehand.config.errors import ConfigError
from surehand.config.place import Place, Step


@dataclass(frozen=True, slots=True)
class McpServers:
    """The servers as they are written, and where."""

    place: Place

    @property
    def value(self) -> Any:
        """Entries by name, or a list of entries that have one."""
        return self.place.value

    def error(self, at: tuple[Step, ...], problem: str, fix: str = "") -> ConfigError:
        """What is wrong at some place of the file."""
        return self._at(at).error(problem, fix)

    def where(self, at: tuple[Step, ...]) -> str:
        """The file and the line."""
        line = self._at(at).line
        return f"{self.place.path}:{line}" if line else str(self.place.path)

    def _at(self, at: tuple[Step, ...]) -> Place:
        return Place(self.place.path, self.place.lines, None, at)


def mcp_servers(place: Place) -> McpServers:
    """Entries by name, or a list of entries that have one; under `mcp`, they may be those of its `servers`."""
    if place.key == "mcp" and isinstance(place.value, dict) and "servers" in place.value:
        place = place.entries()["servers"]
    if not isinstance(place.value, (dict, list)):
        raise place.error(f"{place.key} must hold servers by name.", "write name: {command: ...}, or {url: ...}.")
    return McpServers(place)


def inputs(place: Place) -> McpServers:
    """What VS Code would ask for, beside its `servers`."""
    place.items()
    return McpServers(place)
