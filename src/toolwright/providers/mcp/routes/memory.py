"""Memory: a server that is an object in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolwright.core.errors import DefinitionError
from toolwright.providers.mcp.routes.label import legal
from toolwright.providers.mcp.routes.route import Ended, Route, Who


class Memory(Route):
    """A `Server` or `MCPServer` of the library, spoken to without a wire in between; both eras."""

    def __init__(self, server: Any) -> None:
        if isinstance(server, type) or not any(_is_librarys(kind) for kind in type(server).__mro__):
            raise DefinitionError(
                f"{server!r:.100} is no server of the package mcp.", fix="give an object of `mcp.server.MCPServer`."
            )
        self._server = server
        name = str(server.name or "server")
        self.label = f"{name} (in this process)"
        self.identity = f"memory:{name}"
        self.namespace = legal(name)

    def targets(self, who: Who, ended: Ended) -> Sequence[Any]:
        """The object itself; it does not go away by itself."""
        return [self._server]


def _is_librarys(kind: type) -> bool:
    """Without importing the library, which takes a second: whoever has such an object has it already."""
    return kind.__module__.startswith("mcp.server.") and kind.__name__ in ("Server", "MCPServer")
