"""The handler of `tools/list`, and the input schemas that the MCP SDK checks the headers of calls against."""

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
"""Milliseconds for which a client may cache the list. A client with a subscription is notified of changes."""


class ToolListHandler:
    """Serves `tools/list`."""

    def __init__(self, served_runtime: ServedRuntime) -> None:
        self._served_runtime = served_runtime
        self._paginator = Paginator("tools", served_runtime.options.page)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
        """Return one page of the tools that the user of the request may see."""
        user = request_user(ctx)
        await self._served_runtime.discover_user_tools(user)
        tools = self._served_runtime.visible_tools(user)
        names, next_cursor = self._paginator.slice_page(list(tools), params.cursor)
        entries = [tools[name].entry for name in names]
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            entries = [_handshake_entry(entry) for entry in entries]
        return {"resultType": "complete", "tools": entries, **next_cursor}

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The input schema of a tool; None if the user of the running request may not see the tool."""
        tool = self._served_runtime.find_tool(name, current_user())
        return None if tool is None else tool.entry["inputSchema"]


def _handshake_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry without an output schema that is not an object: the handshake protocol does not allow it."""
    if "outputSchema" not in entry or entry["outputSchema"].get("type") == "object":
        return entry
    return {key: value for key, value in entry.items() if key != "outputSchema"}
