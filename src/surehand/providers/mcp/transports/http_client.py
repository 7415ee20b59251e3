"""The HTTP client of one MCP connection: a request that fails becomes a JSON-RPC error response.

The MCP SDK closes the whole connection when its HTTP client raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import httpx2
from mcp_types import HEADER_MISMATCH, ErrorData, JSONRPCError

from surehand.core.sanitize import clean_line
from surehand.http.settings import MAX_AUTH_STEPS
from surehand.http.transport import GuardedClient
from surehand.jsonrpc.codec import decode, encode_error
from surehand.jsonrpc.limits import SERVER_MESSAGE_LIMITS, EventStreamLimit, has_too_many_values
from surehand.providers.mcp.connection_errors import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    MAX_ERROR_MESSAGE_LENGTH,
    METHOD_NOT_FOUND,
    ConnectionFailure,
    failure_from_error,
    failure_from_status,
    remember_failure,
    too_large_failure,
)
from surehand.providers.mcp.connection_owner import ConnectionOwner, resolve_headers_or_env
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.transports.transport import OnConnectionEnd, is_being_cancelled

if TYPE_CHECKING:
    import logging

    from surehand.http.settings import HttpSettings
    from surehand.providers.mcp.connection_owner import HeadersOrEnv

SESSION_ID_HEADER = "mcp-session-id"
END_SESSION_TIMEOUT_SECONDS = 2.0
"""Time for a server to answer the DELETE that ends a session."""
DRAIN_TIMEOUT_SECONDS = 1.0
MAX_DRAIN_CHUNKS = 16
"""Time and chunks within which an event stream must end after its response; otherwise its connection is closed."""
MIN_RECONNECT_INTERVAL_SECONDS = 0.1
"""Shortest time between two attempts to open an event stream. A server may ask for a delay of zero."""
_TOO_MANY_VALUES_PROBLEM = f"more than {SERVER_MESSAGE_LIMITS.max_values:,} values"


class HttpEndpoint(Protocol):
    """The part of an HTTP address that transports use."""

    url: str
    headers: HeadersOrEnv
    settings: HttpSettings
    max_frame: int

    @property
    def auth(self) -> Any:
        """An object whose `auth_for(owner, url)` returns an `httpx2.Auth`, or None."""
        ...

    @property
    def log(self) -> logging.Logger:
        """The logger of the server."""
        ...


@runtime_checkable
class SecretHolder(Protocol):
    """An `auth` that can name its secrets, as those of `mcp.oauth` and the other sign-ins do."""

    def secret_values(self) -> list[str]:
        """The client's secret or private key."""
        ...


async def build_client_options(
    address: HttpEndpoint, owner: ConnectionOwner, secrets: ConnectionSecrets
) -> dict[str, Any]:
    """Options of a `GuardedClient`, with the headers and the sign-in of an owner."""
    secrets.add_url(address.url)
    if isinstance(address.auth, SecretHolder):
        secrets.add_secrets(address.auth.secret_values())
    auth: Any = None if address.auth is None else address.auth.auth_for(owner, address.url)
    if isawaitable(auth):
        auth = await auth
    connect_timeout = address.settings.connect_timeout
    return {
        "headers": await resolve_headers_or_env(address.headers, owner, secrets),
        "auth": auth,
        "timeout": httpx2.Timeout(address.settings.read_timeout, connect=connect_timeout, pool=connect_timeout),
        "max_redirects": max(
            address.settings.max_redirects, MAX_AUTH_STEPS
        ),  # each step of a sign-in counts as a redirect
    }


def record_sent_token(response: httpx2.Response, secrets: ConnectionSecrets) -> None:
    """Add the token that a request was sent with: a sign-in obtains and refreshes tokens while the connection is up."""
    authorization = response.request.headers.get("authorization")
    if authorization is not None:
        secrets.add({"authorization": authorization})


async def send_within_origin(
    send: Callable[[httpx2.Request], Awaitable[httpx2.Response]], request: httpx2.Request, max_redirects: int
) -> httpx2.Response:
    """Send a request and follow redirects that stay at its origin; the response to any other redirect is returned."""
    response = await send(request)
    for _ in range(max_redirects):
        following = response.next_request
        if following is None or not _is_within_origin(response.request, following):
            break
        try:
            await response.aread()  # so that its connection can be reused
        finally:
            await response.aclose()
        response = await send(following)
    return response


def _is_within_origin(sent: httpx2.Request, following: httpx2.Request) -> bool:
    """Whether a redirect keeps headers, sign-in and body at the same server. `httpx2` omits default ports."""
    here = sent.url
    there = following.url
    if following.method != sent.method or (there.userinfo and there.userinfo != here.userinfo):
        return False
    if (here.scheme, here.host, here.port) == (there.scheme, there.host, there.port):
        return True
    is_upgrade = (here.scheme, here.port, there.scheme, there.port) == ("http", None, "https", None)
    return is_upgrade and here.host == there.host


class McpHttpClient(GuardedClient):
    """Answers each message that fails with a JSON-RPC error.

    The MCP SDK ends the whole connection, with all its requests, when its client raises. `on_end` is called when the
    server is gone or has forgotten the session.
    """

    def __init__(
        self, address: HttpEndpoint, on_end: OnConnectionEnd, secrets: ConnectionSecrets, **options: Any
    ) -> None:
        super().__init__(address.settings, **options)
        self._secrets = secrets
        self._has_auth = options.get("auth") is not None
        self.session_id: str | None = None
        """The session id of the last message of the MCP SDK, which negotiates it."""
        self._report_end = on_end
        self._is_closing = False
        self._next_event_stream_at = 0.0
        self._background_tasks: set[asyncio.Task[None]] = set()

    def mark_closing(self) -> None:
        """Stop reporting the end of the connection: this side ends it."""
        self._is_closing = True

    async def stop_background_tasks(self) -> None:
        """Stop draining event streams."""
        for task in self._background_tasks:
            task.cancel()
        if self._background_tasks:
            await asyncio.wait(self._background_tasks)

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="mcp: rest of an event stream")
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a message (POST), open an event stream (GET) or end the session (DELETE)."""
        if request.method == "DELETE":
            return await self._end_session(request, options)
        if request.method == "GET":
            return await self._open_event_stream(request, options)
        if request.headers.get("mcp-method") == "subscriptions/listen":
            _remove_read_timeout(request)
        self.session_id = request.headers.get(SESSION_ID_HEADER)
        try:
            response = await self._send_message(request, options)
            if self._has_auth:
                record_sent_token(response, self._secrets)
            return await self._convert_response(request, response)
        except Exception as error:  # noqa: BLE001 - only this message fails, for example after a failed sign-in
            return _error_response(request, 503, CONNECTION_CLOSED, failure_from_error(error))

    async def _send_message(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        send = super().send
        options = {**options, "stream": True, "follow_redirects": False}
        return await send_within_origin(lambda redirected: send(redirected, **options), request, self.max_redirects)

    async def _end_session(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Send DELETE. If the server cannot be reached, its session is gone, and the MCP SDK need not log an error."""
        try:
            async with asyncio.timeout(END_SESSION_TIMEOUT_SECONDS):
                return await super().send(request, **options)
        except httpx2.TransportError as error:
            # Ending a session is optional in MCP: the server forgets an idle one by itself.
            if failure_from_error(error).was_sent:
                raise
            return httpx2.Response(204, request=request)

    async def _open_event_stream(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Open the stream of notifications. The SDK reopens a broken stream, but does not report that this fails."""
        _remove_read_timeout(request)
        now = asyncio.get_running_loop().time()
        delay = self._next_event_stream_at - now
        self._next_event_stream_at = max(now, self._next_event_stream_at) + MIN_RECONNECT_INTERVAL_SECONDS
        if delay > 0:
            await asyncio.sleep(delay)
        try:
            response = await super().send(request, **options)
        except Exception as error:
            self._report_lost_connection(failure_from_error(error))
            raise
        # A server without notifications answers 405, which does not end the connection.
        if response.status_code >= 400:
            has_session = SESSION_ID_HEADER in request.headers
            self._report_lost_connection(
                failure_from_status(request.url.host, response.status_code, has_session=has_session)
            )
        return _with_stream(response, EventStream(response))

    def _report_lost_connection(self, failure: ConnectionFailure) -> None:
        if failure.is_connection_lost and not self._is_closing:
            self._is_closing = True
            self._report_end(failure.message)

    async def _convert_response(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """The response, or a JSON-RPC error in its place if the MCP SDK would lose its meaning."""
        status = response.status_code
        content_type = response.headers.get("content-type", "").lower()
        try:
            if content_type.startswith("application/json"):
                body = await response.aread()
                if has_too_many_values(body, SERVER_MESSAGE_LIMITS.max_values):
                    return _error_response(request, status, INTERNAL_ERROR, too_large_failure(_TOO_MANY_VALUES_PROBLEM))
                if status < 400:
                    return response
                error = None if _is_lost_session(request, status) else _parse_json_error(body)
                if error is not None:
                    is_outdated = error.code == HEADER_MISMATCH
                    return _stale_headers_response(request, status, error.message) if is_outdated else response
            elif status < 300:
                is_event_stream = content_type.startswith("text/event-stream")
                stream = EventStream(response, self._run_in_background)
                return _with_stream(response, stream) if is_event_stream else response
        except BaseException:
            await response.aclose()
            raise
        await response.aclose()
        return _refusal_response(request, response)


def _remove_read_timeout(request: httpx2.Request) -> None:
    """Remove the read timeout: a stream of notifications may be silent for any time."""
    request.extensions = {**request.extensions, "timeout": {**request.extensions["timeout"], "read": None}}


def _with_stream(response: httpx2.Response, stream: httpx2.AsyncByteStream) -> httpx2.Response:
    return httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=stream,
        request=response.request,
        extensions=response.extensions,
    )


def _is_lost_session(request: httpx2.Request, status: int) -> bool:
    return status in (404, 410) and SESSION_ID_HEADER in request.headers


def _refusal_response(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    status = response.status_code
    if response.next_request is not None:
        return _redirect_refusal_response(request, response.next_request.url)
    failure = failure_from_status(request.url.host, status, has_session=SESSION_ID_HEADER in request.headers)
    if status == 404:
        return _error_response(
            request, status, INVALID_REQUEST if failure.is_connection_lost else METHOD_NOT_FOUND, failure
        )
    return _error_response(request, status, INTERNAL_ERROR, failure)


def _redirect_refusal_response(request: httpx2.Request, location_url: httpx2.URL) -> httpx2.Response:
    location = clean_line(str(location_url.copy_with(userinfo=b"", query=None, fragment=None)))
    message = f"{request.url.host} redirects to {location}, which is not followed. Use that URL if it is the server."
    return _error_response(
        request,
        400,
        INVALID_REQUEST,
        ConnectionFailure(was_sent=True, is_connection_lost=False, message=message, is_server_answer=True),
    )


def _parse_json_error(body: bytes) -> ErrorData | None:
    message = decode(body, SERVER_MESSAGE_LIMITS)
    return message.error if isinstance(message, JSONRPCError) else None


def _stale_headers_response(request: httpx2.Request, status: int, message: str) -> httpx2.Response:
    failure = ConnectionFailure(
        was_sent=False,
        is_connection_lost=False,
        message=clean_line(message, MAX_ERROR_MESSAGE_LENGTH),
        has_stale_headers=True,
    )
    return _error_response(request, status, HEADER_MISMATCH, failure)


def _error_response(request: httpx2.Request, status: int, code: int, failure: ConnectionFailure) -> httpx2.Response:
    """A response with a JSON-RPC error. It has no id; the sender of the request knows it."""
    error = ErrorData(code=code, message=failure.message, data=remember_failure(failure))
    headers = {"content-type": "application/json"}
    return httpx2.Response(max(status, 400), content=encode_error(None, error), headers=headers, request=request)


class EventStream(httpx2.AsyncByteStream):
    """The body of an event stream. It breaks off at an event that has too many values to be parsed.

    A reader closes it at the event that it waited for, when the end of the stream is still on its way. Closing the
    connection then would be a waste, so the rest is read in the background. If the reader was cancelled, the
    connection is closed at once: that is how the server learns of it.
    """

    def __init__(
        self,
        response: httpx2.Response,
        run_in_background: Callable[[Coroutine[Any, Any, None]], None] | None = None,
    ) -> None:
        self._response = response
        self._run_in_background = run_in_background
        self._limit = EventStreamLimit(SERVER_MESSAGE_LIMITS.max_values)
        self._chunks: AsyncIterator[bytes] | None = None
        self._is_finished = False
        self._is_closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = b"" if self._is_finished else await self._next_chunk()
        if not chunk:
            raise StopAsyncIteration
        if self._limit.is_exceeded_by(chunk):
            self._is_finished = True
            raise httpx2.SSEError(too_large_failure(_TOO_MANY_VALUES_PROBLEM).message)
        return chunk

    async def _next_chunk(self) -> bytes:
        """The next chunk; empty at the end."""
        if self._chunks is None:
            self._chunks = self._response.aiter_raw()
        try:
            async for chunk in self._chunks:
                if chunk:
                    return chunk
        except BaseException:
            self._is_finished = True
            raise
        self._is_finished = True
        return b""

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._is_finished or self._run_in_background is None or self._chunks is None or is_being_cancelled():
            await self._close()
        else:
            self._run_in_background(self._drain())

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_TIMEOUT_SECONDS):
                for _ in range(MAX_DRAIN_CHUNKS):
                    if not await self._next_chunk():
                        break
        except (TimeoutError, httpx2.HTTPError):
            pass
        finally:
            await self._close()

    async def _close(self) -> None:
        if isinstance(self._chunks, AsyncGenerator):
            await self._chunks.aclose()
        await self._response.aclose()
