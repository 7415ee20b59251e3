"""Tools: the list that a client is given, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from surehand.gateway.mcp.caller import current_user, request_user
from surehand.gateway.mcp.pagination import Paginator

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import PaginatedRequestParams

    from surehand.gateway.mcp.served_runtime import ServedRuntime

LIST_CACHE_MILLISECONDS = 60_000
"""Milliseconds for which a client need not ask again; one that listens is told of changes."""


class ToolListHandler:
    """Serves `tools/list`."""

    def __init__(self, served_runtime: ServedRuntime) -> None:
        self._served_runtime, self._paginator = served_runtime, Paginator("tools", served_runtime.options.page)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
        """One page."""
        user = request_user(ctx)
        await self._served_runtime.discover_user_tools(user)
        offered = self._served_runtime.visible_tools(user)
        names, rest = self._paginator.slice_page(list(offered), params.cursor)
        shown = [offered[name].entry for name in names]
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            shown = [_handshake_entry(entry) for entry in shown]
        return {"resultType": "complete", "tools": shown, **rest}

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The schema that the headers of a call are checked against; none for a tool that is not the caller's."""
        found = self._served_runtime.find_tool(name, current_user())
        return None if found is None else found.entry["inputSchema"]


def _handshake_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """In the older protocol results are objects, or of no declared kind."""
    if "outputSchema" not in entry or entry["outputSchema"].get("type") == "object":
        return entry
    return {key: value for key, value in entry.items() if key != "outputSchema"}
