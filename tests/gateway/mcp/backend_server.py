"""A server behind a proxy: the MCP SDK's server with tools that a test defines."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.message import ServerMessageMetadata

from surehand import mcp
from tests.gateway.mcp.sdk_clients import MODERN

ToolFunction = Callable[[ServerRequestContext[Any, Any], types.CallToolRequestParams], Awaitable[Any]]
ANY_SCHEMA = {"type": "object", "properties": {}}


def returning(**wire: Any) -> ToolFunction:
    """A tool that returns this result on the wire."""

    async def gives(ctx: Any, params: Any) -> Any:
        return {"content": [], "resultType": "complete", **wire}

    return gives


def text_block(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


class _NotifyingServer(Server[Any]):
    """Declares that it notifies of changes."""

    def create_initialization_options(self, *given: Any, **more: Any) -> Any:
        return super().create_initialization_options(NotificationOptions(tools_changed=True))


class BackendServer:
    """A server with tools by name: a definition and a function for each."""

    def __init__(self, protocol: str = MODERN) -> None:
        self.protocol = protocol
        self.definitions: dict[str, dict[str, Any]] = {}
        self.does: dict[str, ToolFunction] = {}
        self.asked: list[types.CallToolRequestParams] = []
        self.runs, self.stopped, self.may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.bus = InMemorySubscriptionBus()
        self._sessions: list[Any] = []
        self.server: Server[Any] = _NotifyingServer(
            "back",
            version="1",
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self.bus),
        )

    def add(self, name: str, does: ToolFunction | None = None, **definition: Any) -> None:
        self.definitions[name] = {"name": name, "inputSchema": ANY_SCHEMA, **definition}
        self.does[name] = does or returning(content=[text_block("done")])

    def provider(self, **options: Any) -> Any:
        given = {"namespace": "back", "protocol": self.protocol, "effects": {"*": ["read"]}, **options}
        return mcp.server(self.server, **given)

    async def changed(self) -> None:
        """Notify that the tools have changed."""
        await self.bus.publish(ToolsListChanged())
        for session in self._sessions:
            await session.send_tool_list_changed()

    async def _list(self, ctx: Any, params: Any) -> Any:
        if self.protocol != MODERN and ctx.session not in self._sessions:
            self._sessions = [ctx.session]
        return {"tools": list(self.definitions.values()), "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        self.asked.append(params)
        return await self.does[params.name](ctx, params)

    # What tools may do

    async def works(self, ctx: Any, params: Any) -> Any:
        """A tool that runs until `may_end` is set, or it is cancelled."""
        self.runs.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return {"content": [text_block("worked")], "resultType": "complete"}

    def asks(self, **requests: dict[str, Any]) -> ToolFunction:
        """A tool that asks these questions, one after the other in the handshake protocol, and returns the answers."""

        async def asking(ctx: Any, params: Any) -> Any:
            if self.protocol == MODERN:
                if params.input_responses is None:
                    asked = {key: {"method": "elicitation/create", "params": each} for key, each in requests.items()}
                    return {"resultType": "input_required", "inputRequests": asked, "requestState": "here"}
                assert params.request_state == "here"
                heard = {key: each.model_dump(exclude_none=True) for key, each in params.input_responses.items()}
            else:
                heard = {key: await _elicit(ctx, each) for key, each in requests.items()}
            return {"content": [text_block("heard")], "structuredContent": heard, "resultType": "complete"}

        return asking


async def _elicit(ctx: Any, params: dict[str, Any]) -> dict[str, Any]:
    made: Any = types.ElicitRequestURLParams if params["mode"] == "url" else types.ElicitRequestFormParams
    more = {"elicitationId": "1"} if params["mode"] == "url" else {}
    sent = ServerMessageMetadata(related_request_id=ctx.request_id)
    request = types.ElicitRequest(params=made.model_validate({**params, **more}))
    result = await ctx.session.send_request(request, types.ElicitResult, metadata=sent)
    return result.model_dump(mode="json", exclude_none=True)
