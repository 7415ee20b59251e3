"""The OAuth redirect URI on this machine: a small HTTP server that receives one authorization response.

Used by the authorization code grant in `grants.py`. It listens on loopback only, and only while a person signs in.
"""

from __future__ import annotations

import asyncio
import errno
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

import h11

from surehand.core.errors import DefinitionError, Denied

CALLBACK_HOST = "127.0.0.1"
CALLBACK_PATH = "/callback"
MAX_REQUEST_BYTES = 16 * 1024
REQUEST_TIMEOUT_SECONDS = 5.0
"""Time in which the head of a request has to arrive and the page has to be sent."""
MAX_CONNECTIONS = 32
"""Open connections at one time; a browser needs one or two."""
_READ_BYTES = 4096
_CONTENT_SECURITY_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_CONNECTION_ERRORS = (TimeoutError, OSError, ValueError, h11.RemoteProtocolError)
"""Errors of a peer that sends no usable HTTP request: the connection is dropped, the sign-in waits on."""


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """The parameters with which the authorization server redirected the browser to us."""

    code: str = field(repr=False)
    state: str = field(repr=False)
    issuer: str | None = None


class CallbackServer:
    """Waits for one authorization response, which must carry the `state` of the authorization request."""

    def __init__(self) -> None:
        self.redirect_uri = ""
        self._state: str | None = None
        self._response: asyncio.Future[AuthorizationResponse] = asyncio.get_running_loop().create_future()
        self._connections = set[asyncio.Task[None]]()

    @classmethod
    @asynccontextmanager
    async def listen(cls, port: int = 0, *, preferred_port: int = 0) -> AsyncIterator[CallbackServer]:
        """Listen on `port`; without one, on the preferred port if it is free, else on any free port.

        Raises `DefinitionError` if `port` is given and not free.
        """
        callback = cls()
        server = await callback._start_server(port, preferred_port)
        callback.redirect_uri = f"http://{CALLBACK_HOST}:{server.sockets[0].getsockname()[1]}{CALLBACK_PATH}"
        try:
            yield callback
        finally:
            server.close()
            await callback._close()

    def expect_state_of(self, authorization_url: str) -> None:
        """Accept from now on only a response with the `state` parameter of this URL."""
        self._state = dict(parse_qsl(urlsplit(authorization_url).query)).get("state")

    async def wait_for_response(self) -> AuthorizationResponse:
        """Wait for the authorization response; raises `Denied` if the person or the server refused."""
        # Cancelling one waiter must not cancel the future: a response that arrives later still finds it.
        return await asyncio.shield(self._response)

    async def _start_server(self, port: int, preferred_port: int) -> asyncio.Server:
        try:
            return await asyncio.start_server(
                self._handle_connection, CALLBACK_HOST, port or preferred_port, limit=MAX_REQUEST_BYTES
            )
        except OSError as error:
            if port:
                raise DefinitionError(
                    f"redirect_port={port} is already in use.",
                    fix="stop the program that uses it, or set another redirect_port.",
                ) from error
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            return await asyncio.start_server(self._handle_connection, CALLBACK_HOST, 0, limit=MAX_REQUEST_BYTES)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) <= MAX_CONNECTIONS:
                async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST_BYTES)
                    status, text = self._handle_request(await _read_request(reader, connection))
                    writer.write(_encode_page(connection, status, text))
                    await writer.drain()
        except (*_CONNECTION_ERRORS, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._connections.discard(task)

    async def _close(self) -> None:
        if not self._response.done():
            self._response.cancel()
        elif not self._response.cancelled():
            self._response.exception()  # mark it as retrieved: asyncio logs an exception that no task has read
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(set(self._connections))

    def _handle_request(self, request: h11.Request) -> tuple[int, str]:
        """Decide the status and text of the page for a request."""
        target = urlsplit(request.target.decode("latin-1"))
        if not self._is_addressed_to_us(request) or target.path != CALLBACK_PATH:
            return 404, "There is nothing here."
        if request.method != b"GET":
            return 405, "There is nothing to be sent here."
        parameters = parse_qsl(target.query)
        return self._accept_response(dict(reversed(parameters)))  # of a repeated parameter the first counts

    def _is_addressed_to_us(self, request: h11.Request) -> bool:
        """Whether the Host header is ours; a foreign host name that resolves to loopback is DNS rebinding."""
        here = urlsplit(self.redirect_uri).netloc
        hosts = [value.decode("latin-1") for name, value in request.headers if name == b"host"]
        return hosts in ([here], [here.replace(CALLBACK_HOST, "localhost")])

    def _accept_response(self, parameters: Mapping[str, str]) -> tuple[int, str]:
        state = parameters.get("state", "")
        code = parameters.get("code", "")
        if self._state is None or not secrets.compare_digest(state.encode(), self._state.encode()):
            return 400, "This answer belongs to no sign-in that was begun here."
        if self._response.done():
            return 409, "This sign-in was answered already."
        if not code:
            reason = _error_suffix(parameters.get("error", ""))
            self._response.set_exception(Denied(f"The sign-in was refused{reason}."))
            return 200, "The sign-in was refused. You may close this window."
        self._response.set_result(AuthorizationResponse(code, state, parameters.get("iss")))
        return 200, "Thank you. You may close this window and go back to where you came from."


async def _read_request(reader: asyncio.StreamReader, connection: h11.Connection) -> h11.Request:
    """Read the head of one request; a body, which no redirect has, is left unread."""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            raise ConnectionResetError("The peer closed the connection without a request.")
        connection.receive_data(await reader.read(_READ_BYTES))


def _error_suffix(error: str) -> str:
    """The OAuth error code in brackets; empty for a text that is not a code, which a model must not read."""
    is_code = error.isascii() and error.replace("_", "").isalnum() and len(error) <= 40
    return f" ({error})" if is_code else ""


def _encode_page(connection: h11.Connection, status: int, text: str) -> bytes:
    """Encode the response. The page repeats nothing of the request, so it cannot carry a script."""
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>surehand</title><p>{text}</p></html>\n'
    body = page.encode()
    headers = [
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Content-Security-Policy", _CONTENT_SECURITY_POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        ("Connection", "close"),
    ]
    response = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase)
    parts = [connection.send(event) for event in (response, h11.Data(data=body), h11.EndOfMessage())]
    return b"".join(part for part in parts if part)
