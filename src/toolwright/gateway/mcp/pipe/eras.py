"""Eras: one connection over a pipe, in the era of the protocol that its client opens it with.

The library's own `Server.run` does the same, and hands every message through a second stream on the way, which takes
longer than reading and writing it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.runner import ServerRunner, aclose_shielded, serve_one
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    RequestId,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from toolwright.gateway.mcp.pipe.short import Contexts, Short

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.context import ServerRequestContext
    from mcp.shared.dispatcher import CallOptions, DispatchContext

    from toolwright.gateway.mcp.direct_call import DirectCalls
    from toolwright.gateway.mcp.messages.frames import Call
    from toolwright.gateway.mcp.pipe.reading import Reading, Writing

Params = Mapping[str, Any] | None
_DUPLEX = TransportContext(kind="jsonrpc", can_send_request=True)


async def converse(server: Server[Any], reading: Reading, writing: Writing) -> None:
    """Serve one client until it has gone: without sessions if its first request says so, else with a handshake."""
    async with server.lifespan(server) as state:
        opening = await reading.opening()
        if opening is not None and opening.method != "initialize" and _is_modern(opening.params):
            await _Modern(server, reading, writing, state).run()
        else:
            await _legacy(server, reading, writing, state)


def _is_modern(params: Params) -> bool:
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta


async def _legacy(server: Server[Any], reading: Reading, writing: Writing, state: Any) -> None:
    # A client may send its next request right after `initialize`, which has to be through by then.
    inline = frozenset({"initialize"})
    dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(reading, writing, inline_methods=inline)
    connection = Connection.for_loop(dispatcher)
    runner = ServerRunner(server, connection, state)

    async def on_request(dctx: DispatchContext[TransportContext], method: str, params: Params) -> dict[str, Any]:
        if method != "initialize" and _is_modern(params):
            told = "This connection began with a handshake: requests of the protocol without one are not taken on it."
            raise MCPError(code=INVALID_REQUEST, message=told)
        return await runner.on_request(dctx, method, params)

    def version() -> str | None:
        return connection.protocol_version if connection.initialize_accepted else None

    def context(call: Call) -> ServerRequestContext[Any, Any]:
        aside = _Aside(dispatcher, call.id)
        return runner._make_context(aside, "tools/call", call.params, None, connection.protocol_version)

    try:
        async with _shortened(server, reading, version, context):
            await dispatcher.run(on_request, runner.on_notify)
    finally:
        await aclose_shielded(connection)


@asynccontextmanager
async def _shortened(
    server: Server[Any], reading: Reading, version: Callable[[], str | None], context: Contexts | None = None
) -> AsyncIterator[None]:
    """With a short way for plain calls, where the server has one."""
    direct_calls: DirectCalls | None = getattr(server, "direct_calls", None)
    if direct_calls is None:
        yield
        return
    short = reading.short = Short(direct_calls, reading, version, context)
    try:
        yield
    finally:
        await short.close()


@dataclass(frozen=True, slots=True)
class _Aside:
    """The way back to a client for a call that was made past the library, and has to ask."""

    dispatcher: JSONRPCDispatcher[TransportContext]
    request_id: RequestId
    transport: TransportContext = field(default=_DUPLEX)
    message_metadata: None = None
    can_send_request: bool = True

    @property
    def cancel_requested(self) -> anyio.Event:
        """Never: the call's own task is cancelled."""
        return anyio.Event()

    async def send_raw_request(self, method: str, params: Params, opts: CallOptions | None = None) -> dict[str, Any]:
        return await self.dispatcher.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Params, opts: CallOptions | None = None) -> None:
        await self.dispatcher.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Nobody asked to be told."""


class _Modern:
    """A connection without a handshake: every request says which protocol it speaks and what its client can."""

    def __init__(self, server: Server[Any], reading: Reading, writing: Writing, state: Any) -> None:
        self._server, self._state, self._reading = server, state, reading
        self._dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
            reading, writing, transport_builder=lambda _: TransportContext(kind="jsonrpc", can_send_request=False)
        )
        self._outbound = NotifyOnlyOutbound(self._dispatcher)

    async def run(self) -> None:
        async with _shortened(self._server, self._reading, lambda: LATEST_MODERN_VERSION):
            await self._dispatcher.run(self._on_request, self._on_notify)

    async def _on_request(self, dctx: DispatchContext[TransportContext], method: str, params: Params) -> dict[str, Any]:
        if method == "initialize":
            told = "This connection speaks the protocol without a handshake: initialize is not taken on it."
            supported = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": _requested(params)}
            raise MCPError(code=UNSUPPORTED_PROTOCOL_VERSION, message=told, data=supported)
        route = classify_inbound_request({"method": method, "params": params})
        if isinstance(route, InboundLadderRejection):
            raise MCPError(code=route.code, message=route.message, data=route.data)
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=self._outbound
        )
        return await serve_one(self._server, dctx, method, params, connection=connection, lifespan_state=self._state)

    async def _on_notify(self, dctx: DispatchContext[TransportContext], method: str, params: Params) -> None:
        connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, None, outbound=self._outbound)
        try:
            await ServerRunner(self._server, connection, self._state).on_notify(dctx, method, params)
        finally:
            await aclose_shielded(connection)


def _requested(params: Params) -> str:
    return str((params or {}).get("protocolVersion", ""))
