"""Borne: the names that tools had in this run. Who knows a tool by its name must not reach another's with it."""

from __future__ import annotations

MAX_REMEMBERED_NAMES = 100_000
"""Names that are remembered; once there are so many, no new one is given away."""


class ToolNameHistory:
    """Tools by the names that clients were shown for them. A tool is what the runtime calls it, provider included."""

    def __init__(self) -> None:
        self._tool_by_name: dict[str, str] = {}
        self._shown_tools: set[str] = set()

    def is_available(self, name: str, tool_name: str) -> bool:
        """Whether a tool may have a name: it had it before, or none did."""
        bearer = self._tool_by_name.get(name)
        return bearer == tool_name or (bearer is None and len(self._tool_by_name) < MAX_REMEMBERED_NAMES)

    def add(self, name: str, tool_name: str) -> None:
        """A tool is shown by a name; the first to have it keeps it."""
        if len(self._tool_by_name) < MAX_REMEMBERED_NAMES:
            self._shown_tools.add(self._tool_by_name.setdefault(name, tool_name))

    def __contains__(self, tool_name: str) -> bool:
        return tool_name in self._shown_tools
