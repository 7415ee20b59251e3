"""The SSE transport, used before streamable HTTP: messages are POSTed, and responses arrive on one event stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import httpx2

from surehand.core.errors import NotStarted
from surehand.core.sanitize import clean_line
from surehand.http.transport import GuardedClient
from surehand.jsonrpc.streams import MessageReadStream, MessageWriteStream
from surehand.providers.mcp.connection_errors import (
    PermanentConnectionError,
    RequestFailed,
    failure_from_http_error,
    failure_from_status,
)
from surehand.providers.mcp.connection_owner import ConnectionOwner
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.transports.http_client import (
    HttpEndpoint,
    build_client_options,
    record_sent_token,
    send_within_origin,
)
from surehand.providers.mcp.transports.message_pump import FrameTooLong, MessagePump
from surehand.providers.mcp.transports.transport import OnConnectionEnd, Transport


class SseTransport(Transport):
    """An open event stream, and the URL that messages are posted to."""

    def __init__(
        self,
        address: HttpEndpoint,
        owner: ConnectionOwner,
        on_end: OnConnectionEnd,
        secrets: ConnectionSecrets | None = None,
    ) -> None:
        self._address = address
        self._secrets = secrets or ConnectionSecrets()
        self._owner = owner
        self._report_end = on_end
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> tuple[MessageReadStream, MessageWriteStream]:
        address = self._address
        async with AsyncExitStack() as stack:
            options = await build_client_options(address, self._owner, self._secrets)
            client = await stack.enter_async_context(GuardedClient(address.settings, **options))
            channel = _EventChannel(client, address.max_frame, self._secrets)
            stack.push_async_callback(channel.aclose)
            await channel.open(address.url, address.settings.connect_timeout)
            self._pump = MessagePump(channel, log=address.log, on_end=self._report_end, secrets=self._secrets)
            self._stack = stack.pop_all()
        return self._pump.streams()

    async def __aexit__(self, *error: Any) -> bool | None:
        self._pump.mark_closing()
        return await self._stack.__aexit__(*error)


class _EventChannel:
    def __init__(self, client: httpx2.AsyncClient, max_bytes: int, secrets: ConnectionSecrets) -> None:
        self._client = client
        self._secrets = secrets
        self._max_bytes = max_bytes
        self._send_request = partial(client.send, stream=True, follow_redirects=False)
        self._response: httpx2.Response | None = None
        self._end_reason = "The server ended the stream of its answers."

    async def open(self, url: str, connect_timeout: float) -> None:
        """Open the stream. Its first event says where messages are posted to."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        # No read timeout: the stream may be silent for any time.
        timeout = httpx2.Timeout(connect_timeout, read=None)
        request = self._client.build_request("GET", url, headers=headers, timeout=timeout)
        response = await send_within_origin(self._send_request, request, self._client.max_redirects)
        self._response = response
        record_sent_token(response, self._secrets)
        if response.status_code != 200:
            response.raise_for_status()
            raise PermanentConnectionError(
                f"{response.url.host} leads elsewhere, which is not followed. Is the URL right?"
            )
        source = httpx2.EventSource(response, max_event_size=self._max_bytes)
        self._events: AsyncIterator[httpx2.ServerSentEvent] = aiter(source)
        self._endpoint = await self._receive_endpoint(response.url)

    async def _receive_endpoint(self, stream_url: httpx2.URL) -> str:
        async for event in self._events:
            if event.event == "endpoint":
                endpoint = stream_url.join(event.data)
                # Messages carry the headers and the sign-in of the user, so they go to no other server.
                origin = (stream_url.scheme, stream_url.host, stream_url.port)
                if (endpoint.scheme, endpoint.host, endpoint.port) != origin:
                    raise PermanentConnectionError(
                        f"{stream_url.host} wants messages to be sent to {clean_line(endpoint.host)}, "
                        "which is another server."
                    )
                return str(endpoint)
        raise NotStarted(f"{stream_url.host} ended the stream before it had begun.")

    async def aclose(self) -> None:
        if self._response is not None:
            await self._response.aclose()

    async def receive(self) -> list[bytes]:
        try:
            async for event in self._events:
                if event.event == "message" and event.data:
                    return [event.data.encode()]
        except httpx2.SSEError as error:  # the event is larger than `max_event_size`
            raise FrameTooLong(self._max_bytes) from error
        except httpx2.RequestError as error:
            self._end_reason = failure_from_http_error(error).message
        return []

    async def send(self, frame: bytes) -> None:
        """Post one message. The server only acknowledges it; the response arrives on the stream."""
        headers = {"Content-Type": "application/json"}
        request = self._client.build_request("POST", self._endpoint, content=frame, headers=headers)
        try:
            response = await send_within_origin(self._send_request, request, self._client.max_redirects)
            record_sent_token(response, self._secrets)
            try:
                await response.aread()
            finally:
                await response.aclose()
        except httpx2.RequestError as error:
            raise RequestFailed(failure_from_http_error(error)) from error
        if response.status_code >= 300:
            raise RequestFailed(failure_from_status(response.url.host, response.status_code, has_session=True))

    async def closing_reason(self) -> str:
        return self._end_reason
