"""Short: plain calls of one connection, past the library: each a task, its answer written as soon as it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp_types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
)

from toolwright.core.outcome import Outcome, Pending
from toolwright.gateway.mcp.messages.frames import Call, answer, write

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import JSONRPCMessage

    from toolwright.gateway.mcp.direct_call import DirectCalls
    from toolwright.gateway.mcp.pipe.reading import Reading
    from toolwright.gateway.mcp.served import Offered

Contexts: TypeAlias = Callable[[Call], "ServerRequestContext[Any, Any]"]


class Short:
    """Takes what is plain out of a connection's messages. Whatever is not goes to the library, as all did."""

    def __init__(
        self, direct_calls: DirectCalls, reading: Reading, version: Callable[[], str | None], context: Contexts | None
    ) -> None:
        """Without a context for its requests, the protocol is one in which nothing is asked within them."""
        self._direct_calls, self._outlet, self._gate = direct_calls, reading.outlet, reading.gate
        self._version, self._context = version, context
        self._running: dict[RequestId, tuple[asyncio.Task[None], RequestId]] = {}
        """What runs, and the ids as they were sent: those of `"7"` and `7` are one and the same."""
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._around = copy_context()
        """What a call runs in: it may begin where another one ends, and has nothing to do with that."""

    def takes(self, message: Call | JSONRPCMessage) -> bool:
        """Whether a message was taken, and the library need not see it."""
        if isinstance(message, Call):
            return self._begin(message)
        if isinstance(message, JSONRPCRequest):
            return message.method == "tools/call" and self._begin(Call(message.id, message.params or {}))
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            return self._cancel((message.params or {}).get("requestId"))
        return False

    def _begin(self, call: Call) -> bool:
        if (version := self._version()) is None:
            return False
        if (offered := self._direct_calls.match(call.params, None, modern=self._context is None)) is None:
            return False
        key = coerce_request_id(call.id)
        work = self._run(key, call, offered, version)
        task = self._loop.create_task(work, name="mcp: tools/call", context=self._around.copy())
        self._running[key] = task, call.id
        return True

    def _cancel(self, given: Any) -> bool:
        asked = as_request_id(given)
        key = coerce_request_id(asked) if asked is not None else None
        return key is not None and key in self._running and self._end(key)

    def _end(self, key: RequestId) -> bool:
        task, _ = self._running[key]
        task.add_done_callback(partial(self._ended, key))
        return task.cancel()

    def _ended(self, key: RequestId, ended: asyncio.Task[None]) -> None:
        """Of what was cancelled before it began, nothing ever runs that could say so."""
        task, _ = self._running.get(key, (None, None))
        if task is ended:
            self._over(key, None)

    async def _run(self, key: RequestId, call: Call, offered: Offered, version: str) -> None:
        line = None
        try:
            try:
                outcome = await self._direct_calls.call(offered, call.params, None)
                if isinstance(outcome, Pending):
                    told = await self._waiting(call, offered, outcome)
                else:
                    told = self._direct_calls.result(outcome, offered, version)
                made = answer(call.id, told)
            except Exception as error:  # noqa: BLE001 - which `error_data` logs, if it is not for the client
                made = _error(call.id, self._direct_calls.error_data(error))
            if self._outlet.crowded:
                await self._outlet.room()
            line = made
        finally:
            self._over(key, line)

    def _over(self, key: RequestId, line: bytes | None) -> None:
        """It was answered; or it was cancelled, and then it is not, unless the end is ours."""
        _, id = self._running.pop(key)
        if line is None and self._closing:
            line = _error(id, ErrorData(code=CONNECTION_CLOSED, message="Connection closed"))
        if line is not None:
            self._outlet.put(line, alone=not self._running)
        self._gate.done(key)

    async def _waiting(self, call: Call, offered: Offered, outcome: Outcome) -> dict[str, Any]:
        if self._context is None:
            return await self._direct_calls.pending_result(outcome, offered, call.params, None)
        return await self._direct_calls.ask_in_request(self._context(call), outcome, offered, call.params)

    async def close(self) -> None:
        """Cancel what runs, and wait until it has let go."""
        tasks, self._closing = [task for task, _ in self._running.values()], True
        for key in list(self._running):
            self._end(key)
        if tasks:
            await asyncio.wait(tasks)


def _error(id: RequestId, told: ErrorData) -> bytes:
    return write(JSONRPCError(jsonrpc="2.0", id=id, error=told))
