"""The running direct calls of one stdio connection, each in an asyncio task that also writes the response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp_types import CONNECTION_CLOSED, ErrorData, JSONRPCNotification, JSONRPCRequest, RequestId

from surehand.core.outcome import Outcome, Pending
from surehand.gateway.mcp.stdio.tool_call_request import ToolCallRequest
from surehand.jsonrpc.codec import encode_error, encode_result

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import JSONRPCMessage

    from surehand.gateway.mcp.direct_calls import DirectCalls
    from surehand.gateway.mcp.served_runtime import ServedTool
    from surehand.gateway.mcp.stdio.descriptors import DescriptorWriter
    from surehand.gateway.mcp.stdio.request_queue import RequestQueue

MakeContext: TypeAlias = Callable[[ToolCallRequest], "ServerRequestContext[Any, Any]"]
_CONNECTION_CLOSED_ERROR = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")


class _RunningCall(NamedTuple):
    task: asyncio.Task[None]
    request_id: RequestId
    """The id as it was sent. The keys of `InFlightRequests` are coerced ids: `"7"` and `7` are the same request."""


class InFlightRequests:
    """Takes tool calls that match the direct path, and cancellations of them, out of a connection's messages."""

    def __init__(
        self,
        direct_calls: DirectCalls,
        writer: DescriptorWriter,
        queue: RequestQueue,
        protocol_version: Callable[[], str | None],
        make_context: MakeContext | None,
    ) -> None:
        """`protocol_version` gives None before the handshake. `make_context` is None in the modern protocol, in which
        clients are not asked within a request.
        """
        self._direct_calls = direct_calls
        self._writer = writer
        self._queue = queue
        self._protocol_version = protocol_version
        self._make_context = make_context
        self._running: dict[RequestId, _RunningCall] = {}
        self._is_closing = False
        self._loop = asyncio.get_running_loop()
        # A call may start in the task of the call whose end made room for it, and must not inherit its context.
        self._context = copy_context()

    def try_handle(self, message: ToolCallRequest | JSONRPCMessage) -> bool:
        """Handle a message if it matches. False if the MCP SDK has to handle it."""
        if isinstance(message, ToolCallRequest):
            return self._start(message)
        if isinstance(message, JSONRPCRequest):
            return message.method == "tools/call" and self._start(ToolCallRequest(message.id, message.params or {}))
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            return self._cancel_request((message.params or {}).get("requestId"))
        return False

    async def close(self) -> None:
        """Cancel all calls, and wait until they have ended."""
        self._is_closing = True
        tasks = [call.task for call in self._running.values()]
        for key in list(self._running):
            self._cancel(key)
        if tasks:
            await asyncio.wait(tasks)

    def _start(self, call: ToolCallRequest) -> bool:
        version = self._protocol_version()
        if version is None:
            return False
        served_tool = self._direct_calls.find_direct_tool(call.params, None, is_modern=self._make_context is None)
        if served_tool is None:
            return False
        key = coerce_request_id(call.id)
        work = self._run(key, call, served_tool, version)
        task = self._loop.create_task(work, name="mcp: tools/call", context=self._context.copy())
        self._running[key] = _RunningCall(task, call.id)
        return True

    def _cancel_request(self, given_id: Any) -> bool:
        request_id = as_request_id(given_id)
        key = None if request_id is None else coerce_request_id(request_id)
        return key is not None and key in self._running and self._cancel(key)

    def _cancel(self, key: RequestId) -> bool:
        task = self._running[key].task
        # A task that is cancelled before its first step never enters `_run`, which would call `_end`.
        task.add_done_callback(partial(self._end_if_unstarted, key))
        return task.cancel()

    def _end_if_unstarted(self, key: RequestId, task: asyncio.Task[None]) -> None:
        call = self._running.get(key)
        if call is not None and call.task is task:
            self._end(key, None)

    async def _run(self, key: RequestId, call: ToolCallRequest, served_tool: ServedTool, protocol_version: str) -> None:
        response = None
        try:
            encoded = await self._call(call, served_tool, protocol_version)
            if self._writer.is_full:
                await self._writer.wait_for_room()
            response = encoded
        finally:
            self._end(key, response)

    async def _call(self, call: ToolCallRequest, served_tool: ServedTool, protocol_version: str) -> bytes:
        try:
            outcome = await self._direct_calls.call(served_tool, call.params, None)
            if isinstance(outcome, Pending):
                result = await self._pending_result(call, served_tool, outcome)
            else:
                result = self._direct_calls.render_result(outcome, served_tool, protocol_version)
            return encode_result(call.id, result)
        except Exception as error:  # noqa: BLE001 - `error_data` logs unexpected exceptions
            return encode_error(call.id, self._direct_calls.error_data(error))

    async def _pending_result(self, call: ToolCallRequest, served_tool: ServedTool, outcome: Outcome) -> dict[str, Any]:
        if self._make_context is None:
            return await self._direct_calls.pending_result(outcome, served_tool, call.params, None)
        return await self._direct_calls.ask_in_request(self._make_context(call), outcome, served_tool, call.params)

    def _end(self, key: RequestId, response: bytes | None) -> None:
        """Write the response. A call that its client cancelled gets none."""
        request_id = self._running.pop(key).request_id
        if response is None and self._is_closing:
            response = encode_error(request_id, _CONNECTION_CLOSED_ERROR)
        if response is not None:
            self._writer.write(response + b"\n", is_last=not self._running)
        self._queue.release(key)
