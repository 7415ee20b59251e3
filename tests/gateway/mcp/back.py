"""A server behind a proxy: the library's own, doing exactly what it is told to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.message import ServerMessageMetadata

from surehand import mcp
from tests.gateway.mcp.talking import NEW

Does = Callable[[ServerRequestContext[Any, Any], types.CallToolRequestParams], Awaitable[Any]]
ANY = {"type": "object", "properties": {}}


def told(**wire: Any) -> Does:
    """A tool that gives back a result as it is on the wire."""

    async def gives(ctx: Any, params: Any) -> Any:
        return {"content": [], "resultType": "complete", **wire}

    return gives


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


class _Telling(Server[Any]):
    """It says that it tells of changes."""

    def create_initialization_options(self, *given: Any, **more: Any) -> Any:
        return super().create_initialization_options(NotificationOptions(tools_changed=True))


class Back:
    """Tools by name: a definition, and what it does."""

    def __init__(self, protocol: str = NEW) -> None:
        self.protocol = protocol
        self.definitions: dict[str, dict[str, Any]] = {}
        self.does: dict[str, Does] = {}
        self.asked: list[types.CallToolRequestParams] = []
        self.runs, self.stopped, self.may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.bus = InMemorySubscriptionBus()
        self._sessions: list[Any] = []
        self.server: Server[Any] = _Telling(
            "back",
            version="1",
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self.bus),
        )

    def add(self, name: str, does: Does | None = None, **definition: Any) -> None:
        self.definitions[name] = {"name": name, "inputSchema": ANY, **definition}
        self.does[name] = does or told(content=[text("done")])

    def provider(self, **options: Any) -> Any:
        given = {"namespace": "back", "protocol": self.protocol, "effects": {"*": ["read"]}, **options}
        return mcp.server(self.server, **given)

    async def changed(self) -> None:
        """Say that there are other tools now."""
        await self.bus.publish(ToolsListChanged())
        for session in self._sessions:
            await session.send_tool_list_changed()

    async def _list(self, ctx: Any, params: Any) -> Any:
        if self.protocol != NEW and ctx.session not in self._sessions:
            self._sessions = [ctx.session]
        return {"tools": list(self.definitions.values()), "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        self.asked.append(params)
        return await self.does[params.name](ctx, params)

    # What tools may do

    async def works(self, ctx: Any, params: Any) -> Any:
        """Until it is let go, or stopped."""
        self.runs.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return {"content": [text("worked")], "resultType": "complete"}

    def asks(self, **requests: dict[str, Any]) -> Does:
        """Ask all of these at once, or one after the other in the older protocol, and tell what came back."""

        async def asking(ctx: Any, params: Any) -> Any:
            if self.protocol == NEW:
                if params.input_responses is None:
                    asked = {key: {"method": "elicitation/create", "params": each} for key, each in requests.items()}
                    return {"resultType": "input_required", "inputRequests": asked, "requestState": "here"}
                assert params.request_state == "here"
                heard = {key: each.model_dump(exclude_none=True) for key, each in params.input_responses.items()}
            else:
                heard = {key: await _elicited(ctx, each) for key, each in requests.items()}
            return {"content": [text("heard")], "structuredContent": heard, "resultType": "complete"}

        return asking


async def _elicited(ctx: Any, params: dict[str, Any]) -> dict[str, Any]:
    made: Any = types.ElicitRequestURLParams if params["mode"] == "url" else types.ElicitRequestFormParams
    more = {"elicitationId": "1"} if params["mode"] == "url" else {}
    sent = ServerMessageMetadata(related_request_id=ctx.request_id)
    request = types.ElicitRequest(params=made.model_validate({**params, **more}))
    result = await ctx.session.send_request(request, types.ElicitResult, metadata=sent)
    return result.model_dump(mode="json", exclude_none=True)
