"""The WebSocket transport: one connection in both directions, one text frame per message."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, cast

from anyio import CancelScope

from surehand.core.errors import NotStarted, ToolError
from surehand.core.extras import install_command
from surehand.core.sanitize import clean_line
from surehand.http.connector import Connector
from surehand.http.errors import connect_failure_reason, mark_unsent
from surehand.jsonrpc.streams import MessageReadStream, MessageWriteStream
from surehand.providers.mcp.connection_errors import PermanentConnectionError, failure_from_status
from surehand.providers.mcp.connection_owner import ConnectionOwner, resolve_headers_or_env
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.transports.message_pump import FrameTooLong, MessagePump
from surehand.providers.mcp.transports.transport import OnConnectionEnd, Transport

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
    from websockets.typing import Subprotocol
except ImportError:
    raise PermanentConnectionError(f"WebSockets need the package websockets: {install_command('mcp')}") from None

if TYPE_CHECKING:
    import logging

    from surehand.http.settings import HttpSettings
    from surehand.http.target import HttpTarget
    from surehand.providers.mcp.connection_owner import HeadersOrEnv

CLOSE_TIMEOUT_SECONDS = 2.0
"""Time for the server to answer the closing handshake."""
_TOO_LARGE_CLOSE_CODE = 1009


class WebSocketEndpoint(Protocol):
    """The part of a WebSocket address that the transport uses."""

    url: str
    target: HttpTarget
    headers: HeadersOrEnv
    settings: HttpSettings
    ping_interval: float | None
    max_frame: int

    @property
    def log(self) -> logging.Logger:
        """The logger of the server."""
        ...


class WebSocketTransport(Transport):
    """An open WebSocket; each message is one text frame."""

    def __init__(
        self,
        address: WebSocketEndpoint,
        owner: ConnectionOwner,
        on_end: OnConnectionEnd,
        secrets: ConnectionSecrets | None = None,
    ) -> None:
        self._address = address
        self._secrets = secrets or ConnectionSecrets()
        self._owner = owner
        self._report_end = on_end

    async def __aenter__(self) -> tuple[MessageReadStream, MessageWriteStream]:
        address = self._address
        self._secrets.add_url(address.url)
        headers = await resolve_headers_or_env(address.headers, self._owner, self._secrets)
        self._socket = await _open_websocket(address, headers)
        channel = _SocketChannel(self._socket, address.max_frame)
        self._pump = MessagePump(channel, log=address.log, on_end=self._report_end, secrets=self._secrets)
        return self._pump.streams()

    async def __aexit__(self, *_: object) -> None:
        self._pump.mark_closing()
        try:
            with CancelScope(shield=True):
                await self._socket.close()
        finally:
            self._socket.transport.abort()


async def _open_websocket(address: WebSocketEndpoint, headers: dict[str, str]) -> ClientConnection:
    settings = address.settings
    host = address.target.host
    sock = await _connect_socket(address)
    try:
        return await connect(
            address.url,
            sock=sock,
            ssl=(settings.verify or ssl.create_default_context()) if address.url.lower().startswith("wss") else None,
            subprotocols=[Subprotocol("mcp")],
            additional_headers=headers,
            user_agent_header=settings.user_agent,
            compression=None,  # a small frame could unpack to gigabytes
            open_timeout=settings.connect_timeout,
            ping_interval=address.ping_interval,
            ping_timeout=address.ping_interval,
            close_timeout=CLOSE_TIMEOUT_SECONDS,
            max_size=address.max_frame,
        )
    except InvalidStatus as error:
        failure = failure_from_status(host, error.response.status_code)
        raise (PermanentConnectionError if failure.is_permanent else NotStarted)(failure.message) from error
    except ssl.SSLError as error:
        raise mark_unsent(ToolError(f"No secure connection to {host}: {error.reason or error}.")) from error
    except (InvalidHandshake, OSError, TimeoutError, EOFError, ValueError) as error:
        raise NotStarted(f"{host} did not open a WebSocket ({type(error).__name__}).") from error


async def _connect_socket(address: WebSocketEndpoint) -> socket.socket:
    """A connected socket. The guard has checked the resolved address."""
    settings = address.settings
    target = address.target
    connector = Connector(settings.build_guard(), resolver=settings.resolver, dialer=cast(Any, _dial_socket))
    try:
        opened: Any = await connector.connect_tcp(target.host, target.port, settings.connect_timeout)
        return cast(socket.socket, opened)
    except OSError as error:
        raise NotStarted(
            f"{target.host} could not be reached{connect_failure_reason(error)}. Try again later."
        ) from error
    finally:
        connector.close()


async def _dial_socket(address: str, port: int, timeout: float | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        async with asyncio.timeout(timeout):
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


class _SocketChannel:
    def __init__(self, opened: ClientConnection, max_bytes: int) -> None:
        self._socket = opened
        self._max_bytes = max_bytes

    async def receive(self) -> list[bytes]:
        try:
            return [await self._socket.recv(decode=False)]
        except ConnectionClosed as error:
            if error.sent is not None and error.sent.code == _TOO_LARGE_CLOSE_CODE:
                raise FrameTooLong(self._max_bytes) from error
            return []

    async def send(self, frame: bytes) -> None:
        try:
            await self._socket.send(frame, text=True)
        except ConnectionClosed as error:
            raise BrokenPipeError("The WebSocket is closed.") from error

    async def closing_reason(self) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self._socket.wait_closed()
        code = self._socket.close_code
        # RFC 6455: 1006 is never sent. It stands for a connection that ended without a closing handshake.
        if code == 1006 or code is None:
            return "The connection to the server broke off."
        reason = clean_line(self._socket.close_reason)
        return f"The server closed the connection ({code}{f': {reason}' if reason else ''})."
