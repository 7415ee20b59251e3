"""The connection of one client over stdio, in the protocol that its first request uses.

The MCP SDK's `Server.run` does the same, but passes every message through a second stream, which takes longer than
reading and writing it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.context import ServerRequestContext
from mcp.server.runner import ServerRunner, aclose_shielded, serve_one
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import INVALID_REQUEST, PROTOCOL_VERSION_META_KEY, UNSUPPORTED_PROTOCOL_VERSION, RequestId
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from surehand.gateway.mcp.direct_calls import TOOLS_CALL_METHOD
from surehand.gateway.mcp.stdio.running_calls import InFlightRequests, MakeContext

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions, DispatchContext

    from surehand.gateway.mcp.runtime_server import RuntimeServer
    from surehand.gateway.mcp.stdio.message_streams import ClientMessages, ServerMessages
    from surehand.gateway.mcp.stdio.tool_call_request import ToolCallRequest

Params = Mapping[str, Any] | None
_DUPLEX_TRANSPORT = TransportContext(kind="jsonrpc", can_send_request=True)
_NOTIFICATIONS_ONLY_TRANSPORT = TransportContext(kind="jsonrpc", can_send_request=False)


async def serve_connection(server: RuntimeServer, incoming: ClientMessages, outgoing: ServerMessages) -> None:
    """Serve one client until it leaves: in the modern protocol if its first request says so, else with a handshake."""
    async with server.lifespan(server) as lifespan_state:
        first = await incoming.first_request()
        if first is not None and first.method != "initialize" and _is_modern(first.params):
            await _ModernConnection(server, incoming, outgoing, lifespan_state).run()
        else:
            await _serve_with_handshake(server, incoming, outgoing, lifespan_state)


def _is_modern(params: Params) -> bool:
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta


async def _serve_with_handshake(
    server: RuntimeServer, incoming: ClientMessages, outgoing: ServerMessages, lifespan_state: Any
) -> None:
    # A client may send its next request right after `initialize`, which has to be handled completely by then.
    inline = frozenset({"initialize"})
    dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(incoming, outgoing, inline_methods=inline)
    connection = Connection.for_loop(dispatcher)
    runner = ServerRunner(server, connection, lifespan_state)

    async def on_request(dctx: DispatchContext[TransportContext], method: str, params: Params) -> dict[str, Any]:
        if method != "initialize" and _is_modern(params):
            message = "This connection began with a handshake: requests of the protocol without one are not accepted."
            raise MCPError(code=INVALID_REQUEST, message=message)
        return await runner.on_request(dctx, method, params)

    def protocol_version() -> str | None:
        return connection.protocol_version if connection.initialize_accepted else None

    def make_context(call: ToolCallRequest) -> ServerRequestContext[Any, Any]:
        return ServerRequestContext(
            session=ServerSession(_DirectCallChannel(dispatcher, call.id), connection),
            lifespan_context=lifespan_state,
            protocol_version=connection.protocol_version,
            method=TOOLS_CALL_METHOD,
            params=call.params,
            request_id=call.id,
        )

    try:
        async with _enable_direct_calls(server, incoming, protocol_version, make_context):
            await dispatcher.run(on_request, runner.on_notify)
    finally:
        await aclose_shielded(connection)


@asynccontextmanager
async def _enable_direct_calls(
    server: RuntimeServer,
    incoming: ClientMessages,
    protocol_version: Callable[[], str | None],
    make_context: MakeContext | None = None,
) -> AsyncIterator[None]:
    """Use the direct path for tool calls, if the server allows it."""
    direct_calls = server.direct_calls
    if direct_calls is None:
        yield
        return
    running_calls = InFlightRequests(direct_calls, incoming.writer, incoming.queue, protocol_version, make_context)
    incoming.running_calls = running_calls
    try:
        yield
    finally:
        await running_calls.close()


@dataclass(frozen=True, slots=True)
class _DirectCallChannel:
    """The way back to the client for a direct call, as the SDK's `DispatchContext` has it for its own requests."""

    dispatcher: JSONRPCDispatcher[TransportContext]
    request_id: RequestId
    transport: TransportContext = field(default=_DUPLEX_TRANSPORT)
    message_metadata: None = None
    can_send_request: bool = True

    @property
    def cancel_requested(self) -> anyio.Event:
        """Never set: a cancellation cancels the task of the call."""
        return anyio.Event()

    async def send_raw_request(self, method: str, params: Params, opts: CallOptions | None = None) -> dict[str, Any]:
        return await self.dispatcher.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Params, opts: CallOptions | None = None) -> None:
        await self.dispatcher.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Does nothing: a request with a progress token does not match the direct path."""


class _ModernConnection:
    """A connection without a handshake: every request names its protocol version and its client's capabilities."""

    def __init__(
        self, server: RuntimeServer, incoming: ClientMessages, outgoing: ServerMessages, lifespan_state: Any
    ) -> None:
        self._server = server
        self._lifespan_state = lifespan_state
        self._incoming = incoming
        self._dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
            incoming, outgoing, transport_builder=lambda _: _NOTIFICATIONS_ONLY_TRANSPORT
        )
        self._outbound = NotifyOnlyOutbound(self._dispatcher)

    async def run(self) -> None:
        async with _enable_direct_calls(self._server, self._incoming, lambda: LATEST_MODERN_VERSION):
            await self._dispatcher.run(self._on_request, self._on_notify)

    async def _on_request(self, dctx: DispatchContext[TransportContext], method: str, params: Params) -> dict[str, Any]:
        if method == "initialize":
            message = "This connection uses the protocol without a handshake: initialize is not accepted."
            requested = str((params or {}).get("protocolVersion", ""))
            versions = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": requested}
            raise MCPError(code=UNSUPPORTED_PROTOCOL_VERSION, message=message, data=versions)
        route = classify_inbound_request({"method": method, "params": params})
        if isinstance(route, InboundLadderRejection):
            raise MCPError(code=route.code, message=route.message, data=route.data)
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=self._outbound
        )
        return await serve_one(
            self._server, dctx, method, params, connection=connection, lifespan_state=self._lifespan_state
        )

    async def _on_notify(self, dctx: DispatchContext[TransportContext], method: str, params: Params) -> None:
        connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, None, outbound=self._outbound)
        try:
            await ServerRunner(self._server, connection, self._lifespan_state).on_notify(dctx, method, params)
        finally:
            await aclose_shielded(connection)
