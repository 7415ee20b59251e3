"""SSE transport: the older HTTP transport. Messages are POSTed, and responses arrive on one long event stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2

from surehand.core.errors import NotStarted
from surehand.core.sanitize import clean_line
from surehand.http.transport import GuardedClient
from surehand.jsonrpc.streams import MessageReadStream, MessageWriteStream
from surehand.providers.mcp.addresses.address import Ended, Who
from surehand.providers.mcp.transports.connection_errors import (
    CannotStart,
    RequestFailed,
    http_failure,
    status_failure,
)
from surehand.providers.mcp.transports.http_client import client_options, send_within_origin
from surehand.providers.mcp.transports.message_pump import FrameTooLong, MessagePump
from surehand.providers.mcp.transports.transport import Transport

if TYPE_CHECKING:
    from surehand.providers.mcp.addresses.http import Http


class SseTransport(Transport):
    """An open event stream, and the URL that messages are posted to."""

    def __init__(self, address: Http, who: Who, ended: Ended) -> None:
        self._address = address
        self._who = who
        self._report_end = ended
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> tuple[MessageReadStream, MessageWriteStream]:
        address = self._address
        async with AsyncExitStack() as stack:
            options = await client_options(address, self._who)
            client = await stack.enter_async_context(GuardedClient(address.settings, **options))
            channel = _EventChannel(client, address.max_frame)
            stack.push_async_callback(channel.aclose)
            await channel.open(address.url, address.settings.connect_timeout)
            self._pump = MessagePump(channel, log=address.log, ended=self._report_end)
            self._stack = stack.pop_all()
        return self._pump.streams()

    async def __aexit__(self, *error: Any) -> bool | None:
        self._pump.leave()
        return await self._stack.__aexit__(*error)


class _EventChannel:
    def __init__(self, client: httpx2.AsyncClient, max_bytes: int) -> None:
        self._client = client
        self._max_bytes = max_bytes
        self._send_request = partial(client.send, stream=True, follow_redirects=False)
        self._response: httpx2.Response | None = None
        self._end_reason = "The server ended the stream of its answers."

    async def open(self, url: str, connect_timeout: float) -> None:
        """Open the stream. Its first event says where messages are posted to."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        # The stream may be silent for as long as it likes.
        timeout = httpx2.Timeout(connect_timeout, read=None)
        request = self._client.build_request("GET", url, headers=headers, timeout=timeout)
        response = await send_within_origin(self._send_request, request, self._client.max_redirects)
        self._response = response
        if response.status_code != 200:
            response.raise_for_status()
            raise CannotStart(f"{response.url.host} leads elsewhere, which is not followed. Is the URL right?")
        source = httpx2.EventSource(response, max_event_size=self._max_bytes)
        self._events: AsyncIterator[httpx2.ServerSentEvent] = aiter(source)
        self._endpoint = await self._receive_endpoint(response.url)

    async def _receive_endpoint(self, here: httpx2.URL) -> str:
        async for event in self._events:
            if event.event == "endpoint":
                there = here.join(event.data)
                if (there.scheme, there.host, there.port) != (here.scheme, here.host, here.port):
                    raise CannotStart(
                        f"{here.host} wants messages to be sent to {clean_line(there.host)}, which is another server."
                    )
                return str(there)
        raise NotStarted(f"{here.host} ended the stream before it had begun.")

    async def aclose(self) -> None:
        if self._response is not None:
            await self._response.aclose()

    async def receive(self) -> list[bytes]:
        try:
            async for event in self._events:
                if event.event == "message" and event.data:
                    return [event.data.encode()]
        except httpx2.SSEError as error:
            raise FrameTooLong(self._max_bytes) from error
        except httpx2.RequestError as error:
            self._end_reason = http_failure(error).message
        return []

    async def send(self, frame: bytes) -> None:
        """Post one message. The server only confirms that it has it, and answers on the stream."""
        headers = {"Content-Type": "application/json"}
        request = self._client.build_request("POST", self._endpoint, content=frame, headers=headers)
        try:
            response = await send_within_origin(self._send_request, request, self._client.max_redirects)
            try:
                await response.aread()
            finally:
                await response.aclose()
        except httpx2.RequestError as error:
            raise RequestFailed(http_failure(error)) from error
        if response.status_code >= 300:
            raise RequestFailed(status_failure(response.url.host, response.status_code, session=True))

    async def closing_reason(self) -> str:
        return self._end_reason
