"""Borne: the names that tools had in this run. Who knows a tool by its name must not reach another's with it."""

from __future__ import annotations

MOST = 100_000
"""Names that are remembered; once there are so many, no new one is given away."""


class Borne:
    """Tools by the names that clients were shown for them. A tool is what the runtime calls it, provider included."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}
        self._known: set[str] = set()

    def may_be(self, name: str, tool: str) -> bool:
        """Whether a tool may have a name: it had it before, or none did."""
        bearer = self._tools.get(name)
        return bearer == tool or (bearer is None and len(self._tools) < MOST)

    def add(self, name: str, tool: str) -> None:
        """A tool is shown by a name; the first to have it keeps it."""
        if len(self._tools) < MOST:
            self._known.add(self._tools.setdefault(name, tool))

    def __contains__(self, tool: str) -> bool:
        return tool in self._known
