"""Frames: messages over a WebSocket.

Imported when a connection is opened, and not before: the library takes a second to load.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from anyio import CancelScope

from toolwright.core.errors import NotStarted, ToolError
from toolwright.core.sanitize import clean_line
from toolwright.http.connector import Connector
from toolwright.http.failures import unsent, why
from toolwright.providers.mcp.routes.route import Ended, Who, resolved
from toolwright.providers.mcp.routes.trouble import CannotStart
from toolwright.providers.mcp.routes.web import refused
from toolwright.providers.mcp.routes.wire import Reading, TooLarge, Wire, Writing

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
    from websockets.typing import Subprotocol
except ImportError:
    raise CannotStart("WebSockets need the package websockets: pip install 'toolwright[mcp]'") from None

if TYPE_CHECKING:
    from toolwright.providers.mcp.routes.websocket import WebSocket

PARTING = 2.0
"""Seconds for the other side to answer that it has seen our leave."""
_TOO_LARGE = 1009


class Framed:
    """A WebSocket while it is open: what the library's `Client` enters and leaves."""

    def __init__(self, route: WebSocket, who: Who, ended: Ended) -> None:
        self._route, self._who, self._ended = route, who, ended

    async def __aenter__(self) -> tuple[Reading, Writing]:
        self._socket = await _opened(self._route, await resolved(self._route.headers, self._who))
        self._wire = Wire(Frames(self._socket, self._route.max_frame), log=self._route.log, ended=self._ended)
        return Reading(self._wire), Writing(self._wire)

    async def __aexit__(self, *_: object) -> None:
        self._wire.leave()
        try:
            with CancelScope(shield=True):
                await self._socket.close()
        finally:
            self._socket.transport.abort()


async def _opened(route: WebSocket, headers: dict[str, str]) -> ClientConnection:
    settings, host = route.settings, route.target.host
    sock = await _dialled(route)
    try:
        return await connect(
            route.url,
            sock=sock,
            ssl=(settings.verify or ssl.create_default_context()) if route.url.lower().startswith("wss") else None,
            subprotocols=[Subprotocol("mcp")],
            additional_headers=headers,
            user_agent_header=settings.user_agent,
            compression=None,
            open_timeout=settings.connect_timeout,
            ping_interval=route.ping,
            ping_timeout=route.ping,
            close_timeout=PARTING,
            max_size=route.max_frame,
        )
    except InvalidStatus as error:
        met = refused(host, error.response.status_code)
        raise (CannotStart if met.hopeless else NotStarted)(met.message) from error
    except ssl.SSLError as error:
        raise unsent(ToolError(f"No secure connection to {host}: {error.reason or error}.")) from error
    except (InvalidHandshake, OSError, TimeoutError, EOFError, ValueError) as error:
        raise NotStarted(f"{host} did not open a WebSocket ({type(error).__name__}).") from error


async def _dialled(route: WebSocket) -> socket.socket:
    """A socket to an address that the guard has judged."""
    settings, target = route.settings, route.target
    connector = Connector(settings.guard(), resolver=settings.resolver, dialer=cast(Any, _dial))
    try:
        opened: Any = await connector.connect_tcp(target.host, target.port, settings.connect_timeout)
        return cast(socket.socket, opened)
    except OSError as error:
        raise NotStarted(f"{target.host} could not be reached{why(error)}. Try again later.") from error
    finally:
        connector.close()


async def _dial(address: str, port: int, timeout: float | None) -> socket.socket:
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


class Frames:
    """Each message is a frame of text."""

    def __init__(self, opened: ClientConnection, max_frame: int) -> None:
        self._socket, self._max_frame = opened, max_frame

    async def take(self) -> list[bytes | str]:
        """The next message."""
        try:
            return [await self._socket.recv()]
        except ConnectionClosed as error:
            if error.sent is not None and error.sent.code == _TOO_LARGE:
                most = self._max_frame
                raise TooLarge(f"The server sent a message of more than {most} bytes, which is not read.") from error
            return []

    async def put(self, frame: str) -> None:
        """Send one message."""
        try:
            await self._socket.send(frame)
        except ConnectionClosed as error:
            raise BrokenPipeError("The WebSocket is closed.") from error

    async def last_words(self) -> str:
        """How the connection was closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PARTING):
                await self._socket.wait_closed()
        code = self._socket.close_code
        if code == 1006 or code is None:
            return "The connection to the server broke off."
        said = clean_line(self._socket.close_reason)
        return f"The server closed the connection ({code}{f': {said}' if said else ''})."
