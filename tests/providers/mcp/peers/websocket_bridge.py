"""Connects a WebSocket to a server of the MCP SDK."""

import anyio
from mcp.server import MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from websockets.asyncio.server import ServerConnection


async def bridge_websocket(socket: ServerConnection, server: MCPServer) -> None:
    """Serve one connection until the other side leaves."""
    lowlevel = server._lowlevel_server
    to_server, reading = anyio.create_memory_object_stream[SessionMessage | Exception](10)
    writing, from_server = anyio.create_memory_object_stream[SessionMessage](10)

    async def out() -> None:
        async for item in from_server:
            await socket.send(item.message.model_dump_json(by_alias=True, exclude_unset=True))

    async with anyio.create_task_group() as group, to_server, from_server, reading, writing:
        group.start_soon(out)
        group.start_soon(lambda: lowlevel.run(reading, writing, lowlevel.create_initialization_options()))
        async for text in socket:
            await to_server.send(SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False)))
        group.cancel_scope.cancel()
