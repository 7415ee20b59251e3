"""The streamable HTTP transport: the MCP SDK's own, except that this file posts `tools/call` requests itself.

The SDK's transport makes three tasks, four streams and two models for each request. Here a call is one task: a POST
over the same HTTP client, whose response goes to the waiting call at once. Everything else in a response (progress,
requests of the server, errors) is read by the session, in order with the messages of the SDK's transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import httpx2
from anyio import BrokenResourceError, ClosedResourceError, create_memory_object_stream
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCResponse
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from surehand.jsonrpc.codec import (
    JsonRpcMessage,
    MalformedMessage,
    encode_request,
    message_from_dict,
    parse_frame,
    simple_response,
)
from surehand.jsonrpc.limits import SERVER_MESSAGE_LIMITS
from surehand.jsonrpc.streams import MessageReadStream, MessageWriteStream
from surehand.providers.mcp.connection_errors import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    failure_from_error,
    remember_failure,
)
from surehand.providers.mcp.connection_owner import ConnectionOwner
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.tools.plain_result import MAX_DIRECT_BYTES
from surehand.providers.mcp.transports.http_client import (
    SESSION_ID_HEADER,
    HttpEndpoint,
    McpHttpClient,
    build_client_options,
)
from surehand.providers.mcp.transports.transport import TOOLS_CALL, Headers, OnConnectionEnd, ResultReceiver, Transport

RESUME_DELAY_SECONDS = 1.0
"""Delay before a broken event stream is resumed, unless the server sets another."""
MAX_RESUME_ATTEMPTS = 2
"""Failed attempts in a row to resume an event stream. Both are the values of the MCP SDK."""
_MESSAGE_HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class StreamableHttpTransport(Transport):
    """A connection over streamable HTTP."""

    uses_headers = True

    def __init__(
        self,
        address: HttpEndpoint,
        owner: ConnectionOwner,
        on_end: OnConnectionEnd,
        secrets: ConnectionSecrets | None = None,
    ) -> None:
        self._address = address
        self._secrets = secrets or ConnectionSecrets()
        self._url = httpx2.URL(address.url)
        self._owner = owner
        self._report_end = on_end
        self._calls: dict[int, _PostedCall] = {}
        # The answer to a question that a server asks during a call needs a connection of its own. Calls beyond this
        # number therefore go through the MCP SDK, and share the other half of the connections with all messages.
        self._max_calls = address.settings.max_connections // 2
        self._receive_result: ResultReceiver = _accept_no_result
        self._is_closing = False
        self._is_reading = True
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> tuple[MessageReadStream, MessageWriteStream]:
        address = self._address
        options = await build_client_options(address, self._owner, self._secrets)
        async with AsyncExitStack() as stack:
            self._client = await stack.enter_async_context(
                McpHttpClient(address, self._report_end, self._secrets, **options)
            )
            stack.push_async_callback(self._client.stop_background_tasks)
            self._request_template = self._client.build_request("POST", self._url, headers=_MESSAGE_HEADERS)
            sdk_transport = streamable_http_client(
                address.url, http_client=self._client, max_sse_event_size=address.max_frame
            )
            sdk_read, sdk_write = await stack.enter_async_context(sdk_transport)
            self._messages, receiver = create_memory_object_stream[SessionMessage | Exception](0)
            stack.callback(receiver.close)
            stack.callback(self._messages.close)
            self._forward_task = asyncio.create_task(
                self._forward(sdk_read), name="mcp: messages of the SDK's transport"
            )
            stack.push_async_callback(self._cancel_tasks)
            self._stack = stack.pop_all()
        return _ReadStream(receiver), _WriteStream(self, sdk_write)

    async def __aexit__(self, *error: Any) -> bool | None:
        self._is_closing = True
        self._client.mark_closing()
        return await self._stack.__aexit__(*error)

    async def _cancel_tasks(self) -> None:
        tasks = {self._forward_task, *(call.task for call in self._calls.values())}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _forward(self, sdk_read: AsyncIterator[SessionMessage | Exception]) -> None:
        """Forward messages of the SDK's transport. They must always be read: otherwise the SDK logs errors."""
        try:
            async for item in sdk_read:
                await self._hand_over(item)
        except ClosedResourceError:  # the SDK's transport has ended
            pass
        finally:
            self._messages.close()

    async def _hand_over(self, item: SessionMessage | Exception) -> None:
        if self._is_reading:
            with suppress(BrokenResourceError, ClosedResourceError):
                await self._messages.send(item)

    def stop_reading(self) -> None:
        """Drop all further messages."""
        self._is_reading = False

    def deliver_results_to(self, receiver: ResultReceiver) -> None:
        """Give a plain result to the receiver if it is the first message of its response."""
        self._receive_result = receiver

    def try_send_call(self, request_id: int, params: dict[str, Any], headers: Headers) -> bool:
        """Post a call in a task of its own, unless too many are in flight."""
        if self._is_closing or len(self._calls) >= self._max_calls:
            return False
        call = _PostedCall(request_id, encode_request(request_id, TOOLS_CALL, params), headers)
        self._calls[request_id] = call
        call.task = asyncio.get_running_loop().create_task(self._post(call), name="mcp: tools/call")
        return True

    def cancel_call(self, message: JsonRpcMessage) -> bool:
        """Cancel the call that a `notifications/cancelled` names. Returns whether the message need not be sent.

        In the modern protocol closing the response cancels the call; in the handshake protocol the message does.
        """
        if not isinstance(message, JSONRPCNotification) or message.method != "notifications/cancelled":
            return False
        call = self._calls.get((message.params or {}).get("requestId", 0))
        if call is None or not (call.is_modern or not call.body.is_sent):
            return False
        call.task.cancel()
        return True

    async def _post(self, call: _PostedCall) -> None:
        try:
            response = await self._client.send(self._build_request(call), stream=True)
            try:
                await self._read_response(call, response)
            finally:
                await response.aclose()
        except Exception as error:  # noqa: BLE001 - only this call fails
            failure = failure_from_error(error)
            await self._fail(call, CONNECTION_CLOSED, failure.message, remember_failure(failure))
        finally:
            del self._calls[call.request_id]

    def _build_request(self, call: _PostedCall) -> httpx2.Request:
        """Equals `build_request` of the client, which would merge and encode the same headers for each call again."""
        headers = {**call.headers, "content-length": str(len(call.body.data))}
        if self._client.session_id:
            headers[SESSION_ID_HEADER] = self._client.session_id
        names = {name.lower().encode() for name in headers}
        common = [header for header in self._request_template.headers.raw if header[0].lower() not in names]
        own = [(name.encode(), value.encode("ascii")) for name, value in headers.items()]
        template = self._request_template
        return httpx2.Request(
            "POST", template.url, headers=[*common, *own], stream=call.body, extensions=template.extensions
        )

    async def _read_response(self, call: _PostedCall, response: httpx2.Response) -> None:
        content_type = response.headers.get("content-type", "").lower()
        # 202 acknowledges notifications and responses. A request has to be answered.
        if response.status_code == 202:
            await self._fail(call, INVALID_REQUEST, "server answered a request with 202 Accepted")
        elif content_type.startswith("application/json"):
            if not await self._deliver_message(call, await response.aread()):
                await self._fail(call, PARSE_ERROR, "Failed to parse the response: it is not a JSON-RPC response.")
        elif content_type.startswith("text/event-stream"):
            await self._read_events(call, response)
        else:
            await self._fail(call, INVALID_REQUEST, f"Unexpected content type: {content_type}")

    async def _read_events(self, call: _PostedCall, response: httpx2.Response) -> None:
        """Read events until the response arrives. A stream that breaks before is resumed if the server supports it."""
        try:
            if await self._read_until_response(call, response):
                return
            attempts = 0
            while call.last_event_id and attempts < MAX_RESUME_ATTEMPTS:
                await asyncio.sleep(call.resume_seconds)
                resumed = await self._resume_stream(call)
                attempts = attempts + 1 if resumed is None else 0
                if resumed:
                    return
        except httpx2.SSEError as error:
            await self._fail(call, CONNECTION_CLOSED, f"SSE stream failed: {error}")
            return
        exhausted = "and reconnection attempts were exhausted" if call.last_event_id else "without a response"
        await self._fail(call, CONNECTION_CLOSED, f"SSE stream ended {exhausted}")

    async def _read_until_response(self, call: _PostedCall, response: httpx2.Response) -> bool:
        """Deliver events. Returns whether the response arrived before the stream ended or broke."""
        with suppress(httpx2.NetworkError, httpx2.TimeoutException, httpx2.ProtocolError):
            async for event in httpx2.EventSource(response, max_event_size=self._address.max_frame):
                call.last_event_id = event.id or call.last_event_id
                if event.retry is not None:
                    call.resume_seconds = event.retry / 1000
                if event.event == "message" and event.data and await self._deliver_message(call, event.data.encode()):
                    return True
        return False

    async def _resume_stream(self, call: _PostedCall) -> bool | None:
        """Whether the response arrived on a resumed stream; None if the stream cannot be resumed."""
        # A GET with the id of the last event asks for the events after it, of the same stream.
        headers = {**_MESSAGE_HEADERS, "last-event-id": call.last_event_id, "cache-control": "no-store"}
        headers[MCP_PROTOCOL_VERSION_HEADER] = call.headers[MCP_PROTOCOL_VERSION_HEADER]
        if self._client.session_id:
            headers[SESSION_ID_HEADER] = self._client.session_id
        request = self._client.build_request("GET", self._url, headers=headers)
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.HTTPError:
            return None
        try:
            is_event_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
            if response.status_code != 200 or not is_event_stream:
                return None
            return await self._read_until_response(call, response)
        finally:
            await response.aclose()

    async def _deliver_message(self, call: _PostedCall, frame: bytes) -> bool:
        """Deliver one message. Returns whether it was the response."""
        value = parse_frame(frame, SERVER_MESSAGE_LIMITS)
        message = value if isinstance(value, MalformedMessage) else self._to_message(call, value, len(frame))
        if message is None:
            return True
        if isinstance(message, MalformedMessage):
            await self._fail(call, PARSE_ERROR, f"Failed to parse the response: {message.description}")
            return True
        is_response = isinstance(message, (JSONRPCResponse, JSONRPCError))
        if isinstance(message, (JSONRPCResponse, JSONRPCError)):
            message.id = call.request_id  # an error of ours has no id, and some servers send it as text
        call.has_other_messages = True
        await self._hand_over(SessionMessage(message))
        return is_response

    def _to_message(
        self, call: _PostedCall, value: dict[str, Any], size: int
    ) -> JsonRpcMessage | MalformedMessage | None:
        """The message; None if it was a plain result that is delivered already."""
        # A result must not overtake earlier messages of its stream, and a large one must not block the event loop.
        if not call.has_other_messages and size <= MAX_DIRECT_BYTES:
            response = simple_response(value)
            if response is not None and response[0] == call.request_id and self._receive_result(*response):
                return None
        return message_from_dict(value)

    async def _fail(self, call: _PostedCall, code: int, message: str, data: Any = None) -> None:
        error = ErrorData(code=code, message=message, data=data)
        await self._hand_over(SessionMessage(JSONRPCError(jsonrpc="2.0", id=call.request_id, error=error)))


class _PostedCall:
    """A call that is posted by this file."""

    task: asyncio.Task[None]

    def __init__(self, request_id: int, data: bytes, headers: Headers) -> None:
        self.request_id = request_id
        self.headers = headers
        self.body = _CallBody(data)
        self.is_modern = headers.get(MCP_PROTOCOL_VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS
        self.has_other_messages = False
        self.last_event_id = ""
        self.resume_seconds = RESUME_DELAY_SECONDS


class _CallBody(httpx2.AsyncByteStream):
    """The body of a request, which knows whether any of it was sent."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.is_sent = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.is_sent = True  # the HTTP client reads the body after it has connected and sent the headers
        yield self.data


class _ReadStream(MessageReadStream):
    def __init__(self, messages: MemoryObjectReceiveStream[SessionMessage | Exception]) -> None:
        self._messages = messages

    async def receive(self) -> SessionMessage | Exception:
        return await self._messages.receive()

    async def aclose(self) -> None:
        self.is_closed = True
        self._messages.close()


class _WriteStream(MessageWriteStream):
    """Messages go to the SDK's transport, except those that cancel a call of this file.

    Closing it does not close the stream of the SDK's transport, which would then log an error for each message that
    still arrives: that stream is closed when the connection is left.
    """

    def __init__(self, transport: StreamableHttpTransport, sdk_write: Any) -> None:
        self._transport = transport
        self._sdk_write = sdk_write

    async def send(self, item: SessionMessage, /) -> None:
        if self.is_closed:
            raise ClosedResourceError
        if not self._transport.cancel_call(item.message):
            await self._sdk_write.send(item)


def _accept_no_result(request_id: int, result: dict[str, Any]) -> bool:
    return False
