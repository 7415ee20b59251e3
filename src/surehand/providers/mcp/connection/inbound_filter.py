"""The inbound filter: it stands between a transport and the SDK's session, and drops messages that would flood it.

The SDK makes a task of each message. Excess notifications are dropped; responses to calls are always delivered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import cache
from math import isfinite
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ProgressNotification,
    ProgressNotificationParams,
)
from mcp_types.methods import SERVER_RESULTS, parse_server_notification
from pydantic import TypeAdapter, ValidationError

from surehand.core.argument_errors import short_repr
from surehand.core.sanitize import escape_line
from surehand.jsonrpc.codec import JsonRpcMessage
from surehand.jsonrpc.streams import MessageReadStream, MessageWriteStream
from surehand.providers.mcp.connection.direct_call import DirectToolCalls
from surehand.providers.mcp.connection.tools_list import MAX_LIST_ITEMS
from surehand.providers.mcp.connection_errors import remember_failure, too_large_failure
from surehand.providers.mcp.connection_secrets import ConnectionSecrets, ServerLog
from surehand.providers.mcp.tools.result import MAX_CONTENT_BLOCKS
from surehand.providers.mcp.transports.transport import Transport

MAX_NOTIFICATIONS_PER_SECOND = 200
"""Notifications and requests of a server, and progress notifications of each call. Further ones are dropped."""
MAX_MALFORMED_TOOLS = 20
"""Malformed tools of one list that are left out; with more of them the list is rejected."""
MAX_SERVER_REQUESTS = 64
"""Requests of a server that wait for an answer at a time. Further ones are dropped."""
_PROGRESS_METHOD, _CANCELLED_METHOD = "notifications/progress", "notifications/cancelled"
_LIST_CHANGED_METHODS = ("notifications/tools/list_changed", "notifications/prompts/list_changed")
_OPAQUE_KEYS = frozenset({"nextCursor", "requestState"})
"""Keys of values that are sent back to the server as they are, and never shown."""
_RESULT_ENVELOPE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class InboundFilter:
    """Wraps a transport. The MCP SDK's `Client` enters and leaves it in place of the transport."""

    def __init__(
        self,
        transport: Transport,
        log: ServerLog,
        secrets: ConnectionSecrets,
        *,
        on_list_changed: Callable[[], None],
        is_modern: bool,
    ) -> None:
        self._transport = transport
        self._log = log
        self._secrets = secrets
        self._on_list_changed = on_list_changed
        self._version = "2026-07-28" if is_modern else "2025-11-25"
        self._server_requests: set[Any] = set()
        """Ids of the server's requests that wait for an answer."""
        self._session_requests: set[Any] = set()
        """Ids of the session's own requests that wait for an answer."""
        self.direct_calls: DirectToolCalls | None = None
        """The direct path, once the connection is open."""
        self._window_start = 0.0
        self._dropped = 0
        self._passed_in_window: Counter[Any] = Counter()

    async def __aenter__(self) -> tuple[MessageReadStream, MessageWriteStream]:
        read, write = await self._transport.__aenter__()
        self.direct_calls = DirectToolCalls(self._transport, write)
        return _FilteredReadStream(read, self), _ObservedWriteStream(write, self)

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._transport.__aexit__(*error)

    def passes(self, item: SessionMessage | Exception) -> bool:
        """Whether the session receives a message. Responses to direct calls are delivered here instead."""
        if isinstance(item, Exception):
            return True
        message = item.message
        self._redact(message)
        if isinstance(message, JSONRPCNotification):
            if self._is_within_rate(self._progress_request_id(message)):
                return self._accepts_notification(message)
            return self._record_change(message)
        if isinstance(message, JSONRPCRequest):
            return self._accepts_request(message)
        if isinstance(message, JSONRPCError):
            return not self._is_for_direct_call(message)
        return self._passes_response(item, message)

    def _redact(self, message: JsonRpcMessage) -> None:
        """Mask the secrets of the connection. Results of calls are masked by `ToolCaller`, large ones in a thread."""
        redact = self._secrets.redact_message
        if isinstance(message, JSONRPCNotification | JSONRPCRequest):
            message.params = redact(message.params)
        elif isinstance(message, JSONRPCError):
            message.error.message = self._secrets.redact(message.error.message)
            message.error.data = redact(message.error.data)
        elif self.direct_calls is None or not self.direct_calls.is_in_flight(message.id):
            message.result = {
                key: value if key in _OPAQUE_KEYS else redact(value) for key, value in message.result.items()
            }

    def _passes_response(self, item: SessionMessage, message: JSONRPCResponse) -> bool:
        if len(_list_field(message.result, "content")) > MAX_CONTENT_BLOCKS:
            item.message = _too_many_blocks_error(message)
            return not self._is_for_direct_call(item.message)
        self._repair_lists(message.result)
        if self._version >= "2026":  # some servers omit it, and the SDK requires it
            message.result.setdefault("resultType", "complete")
        return not self._is_for_direct_call(message)

    def _is_for_direct_call(self, message: JSONRPCResponse | JSONRPCError) -> bool:
        self._session_requests.discard(message.id)
        return self.direct_calls is not None and self.direct_calls.receive_response(message)

    def stop_reading(self) -> None:
        """Fail the direct calls: the session reads no more messages."""
        if self.direct_calls is not None:
            self.direct_calls.close()
        self._transport.stop_reading()

    def record_outgoing(self, message: JsonRpcMessage) -> None:
        """Note a message that the session is about to send."""
        if isinstance(message, JSONRPCRequest):
            self._session_requests.add(message.id)
            if self.direct_calls is not None:
                self.direct_calls.record_request(message)
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED_METHOD:
            self._session_requests.discard((message.params or {}).get("requestId"))

    def record_sent(self, message: JsonRpcMessage) -> None:
        """Note a message that the session has sent: it may answer a request of the server."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._server_requests.discard(message.id)

    def _progress_request_id(self, message: JSONRPCNotification) -> Any:
        """The id of the request that a progress notification belongs to. Each has its own rate limit."""
        token = (message.params or {}).get("progressToken") if message.method == _PROGRESS_METHOD else None
        if not isinstance(token, int | str):
            return None
        if token in self._session_requests:
            return token
        return None if self.direct_calls is None else self.direct_calls.find_request_id(token)

    def _is_within_rate(self, request_id: Any = None) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._window_start >= 1:
            if self._dropped:
                self._log.warning("%d notifications over the rate limit were dropped.", self._dropped)
            self._window_start = now
            self._dropped = 0
            self._passed_in_window.clear()
        self._passed_in_window[request_id] += 1
        is_within = self._passed_in_window[request_id] <= MAX_NOTIFICATIONS_PER_SECOND
        self._dropped += not is_within
        return is_within

    def _record_change(self, message: JSONRPCNotification) -> bool:
        """Note a change of the lists although its notification is dropped. Returns False, for `passes`."""
        if message.method in _LIST_CHANGED_METHODS:
            self._on_list_changed()
        return False

    def _accepts_notification(self, message: JSONRPCNotification) -> bool:
        if message.method == _CANCELLED_METHOD:
            request_id = (message.params or {}).get("requestId")
            if isinstance(request_id, int | str):
                self._server_requests.discard(request_id)  # the SDK does not answer a cancelled request
        return self._is_readable(message)

    def _is_readable(self, message: JSONRPCNotification) -> bool:
        """Whether the SDK can parse it: the SDK logs a traceback for each that it cannot. Unknown methods pass."""
        try:
            notification = parse_server_notification(message.method, self._version, message.params)
        except KeyError:
            return True
        except (ValueError, OverflowError):
            self._dropped += 1
            return False
        if not isinstance(notification, ProgressNotification):
            return True
        if not _is_finite_progress(notification.params):
            return False
        return self.direct_calls is None or not self.direct_calls.receive_progress(notification.params)

    def _accepts_request(self, message: JSONRPCRequest) -> bool:
        if not self._is_within_rate() or len(self._server_requests) >= MAX_SERVER_REQUESTS:
            return False
        # The SDK runs each request of a server in a task of its own, which ends when the request is answered.
        self._server_requests.add(message.id)
        return True

    def _repair_lists(self, result: dict[str, Any]) -> None:
        """Cut lists that are too long, and remove malformed tools, so that the SDK accepts the others."""
        # Only the result of `server/discover` has this field, and only servers of the modern protocol know the method.
        if isinstance(result.get("supportedVersions"), list):
            self._version = "2026-07-28"
        for kind in ("tools", "prompts"):
            count = len(_list_field(result, kind))
            if count > MAX_LIST_ITEMS:
                self._log.warning(
                    "The server lists %d %s at once; only the first %d are used.", count, kind, MAX_LIST_ITEMS
                )
                result[kind] = result[kind][:MAX_LIST_ITEMS]
        tools = _list_field(result, "tools")
        if tools and self._find_malformed_tools(tools):
            result["tools"] = self._well_formed_tools([_with_object_type(tool) for tool in tools])

    def _well_formed_tools(self, tools: list[Any]) -> list[Any] | None:
        """The well-formed tools; None if so many are malformed that this is not a list of tools."""
        malformed = self._find_malformed_tools(tools)
        if len(malformed) > MAX_MALFORMED_TOOLS:
            self._log.warning("Rejected the tool list: %d of %d entries are malformed.", len(malformed), len(tools))
            return None
        for index, field in malformed.items():
            self._log.warning("The tool %s is left out: its %s is malformed.", _tool_name(tools[index]), field)
        return [tool for index, tool in enumerate(tools) if index not in malformed]

    def _find_malformed_tools(self, tools: list[Any]) -> dict[int, str]:
        """The malformed field of each malformed tool, by its index."""
        try:
            _tool_list_adapter(self._version).validate_python({"tools": tools, **_RESULT_ENVELOPE}, by_name=False)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            locations = [problem["loc"] for problem in problems]
            return {
                int(location[1]): _field_path(location[2:]) for location in reversed(locations) if len(location) > 1
            }
        return {}


@cache
def _tool_list_adapter(version: str) -> TypeAdapter[Any]:
    """The SDK's parser of a list of tools."""
    kind: Any = SERVER_RESULTS["tools/list", version]
    return TypeAdapter(kind)


def _tool_name(tool: Any) -> str:
    name = tool.get("name") if isinstance(tool, dict) else tool
    return escape_line(name if isinstance(name, str) else short_repr(name), 100)


def _field_path(loc: tuple[int | str, ...]) -> str:
    return escape_line(".".join(map(str, loc)), 100) or "definition"


def _list_field(result: dict[str, Any], name: str) -> list[Any]:
    value = result.get(name)
    return value if isinstance(value, list) else []


def _is_finite_progress(params: ProgressNotificationParams) -> bool:
    return isfinite(params.progress) and isfinite(params.total or 0)


def _too_many_blocks_error(message: JSONRPCResponse) -> JSONRPCError:
    failure = too_large_failure(f"more than {MAX_CONTENT_BLOCKS:,} blocks")
    error = ErrorData(code=INTERNAL_ERROR, message=failure.message, data=remember_failure(failure))
    return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)


def _with_object_type(tool: Any) -> Any:
    """Add the type `object` to an input schema: many servers omit it, and arguments are always an object."""
    schema = tool.get("inputSchema", {}) if isinstance(tool, dict) else None
    return {**tool, "inputSchema": {"type": "object", **schema}} if isinstance(schema, dict) else tool


class _FilteredReadStream(MessageReadStream):
    def __init__(self, stream: MessageReadStream, inbound_filter: InboundFilter) -> None:
        self._stream = stream
        self._filter = inbound_filter

    async def receive(self) -> SessionMessage | Exception:
        while not self._filter.passes(item := await self._stream.receive()):
            pass
        return item

    async def aclose(self) -> None:
        self.is_closed = True
        self._filter.stop_reading()
        await self._stream.aclose()


class _ObservedWriteStream(MessageWriteStream):
    def __init__(self, stream: MessageWriteStream, inbound_filter: InboundFilter) -> None:
        self._stream = stream
        self._filter = inbound_filter

    async def send(self, item: SessionMessage, /) -> None:
        self._filter.record_outgoing(item.message)
        try:
            await self._stream.send(item)
        finally:
            self._filter.record_sent(item.message)

    async def aclose(self) -> None:
        self.is_closed = True
        await self._stream.aclose()
