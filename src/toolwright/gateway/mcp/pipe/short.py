"""Short: plain calls of one connection, past the library: each a task, its answer written as soon as it is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
)

from toolwright.core.outcome import Pending
from toolwright.gateway.mcp.pipe.frames import answer, write

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import JSONRPCMessage

    from toolwright.gateway.mcp.pipe.reading import Reading
    from toolwright.gateway.mcp.quick import Quick
    from toolwright.gateway.mcp.served import Offered

log = logging.getLogger("toolwright")
Contexts = Callable[[JSONRPCRequest], "ServerRequestContext[Any, Any]"]


class Short:
    """Takes what is plain out of a connection's messages. Whatever is not goes to the library, as all did."""

    def __init__(
        self, quick: Quick | None, reading: Reading, version: Callable[[], str | None], context: Contexts | None
    ) -> None:
        """Without a context for its requests, the protocol is one in which nothing is asked within them."""
        self._quick, self._outlet, self._gate = quick, reading.outlet, reading.gate
        self._version, self._context = version, context
        self._running: dict[RequestId, asyncio.Task[None]] = {}
        self._closing = False
        self._loop = asyncio.get_running_loop()

    def takes(self, message: JSONRPCMessage) -> bool:
        """Whether a message was taken, and the library need not see it."""
        if isinstance(message, JSONRPCRequest):
            return message.method == "tools/call" and self._begin(message)
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            return self._cancel((message.params or {}).get("requestId"))
        return False

    def _begin(self, message: JSONRPCRequest) -> bool:
        if self._quick is None or (version := self._version()) is None:
            return False
        if (offered := self._quick.plain(message.params, modern=self._context is None)) is None:
            return False
        key, work = coerce_request_id(message.id), self._run(self._quick, message, offered, version)
        task = self._running[key] = self._loop.create_task(work, name="mcp: tools/call")
        task.add_done_callback(partial(self._over, key))
        return True

    def _over(self, key: RequestId, task: asyncio.Task[None]) -> None:
        """It was answered; or it was cancelled, maybe before it began: then it is not, unless the end is ours."""
        del self._running[key]
        if self._closing and task.cancelled():
            told = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")
            self._outlet.put(write(JSONRPCError(jsonrpc="2.0", id=key, error=told)))
        self._gate.done(key)

    def _cancel(self, given: Any) -> bool:
        asked = as_request_id(given)
        task = self._running.get(coerce_request_id(asked)) if asked is not None else None
        return task is not None and task.cancel()

    async def _run(self, quick: Quick, message: JSONRPCRequest, offered: Offered, version: str) -> None:
        line = await self._line(quick, message, offered, version)
        if self._outlet.crowded:
            await self._outlet.room()
        self._outlet.put(line)

    async def _line(self, quick: Quick, message: JSONRPCRequest, offered: Offered, version: str) -> bytes:
        params = message.params or {}
        try:
            outcome = await quick.call(offered, params, None)
            if not isinstance(outcome, Pending):
                return answer(message.id, quick.result(outcome, offered, version))
            if self._context is None:
                return answer(message.id, await quick.waiting(outcome, offered, params, None))
            return answer(message.id, await quick.asking(self._context(message), outcome, offered, params))
        except MCPError as error:
            told = error.error
        except Exception:
            log.exception("tools/call failed")
            told = ErrorData(code=INTERNAL_ERROR, message="Internal server error")
        return write(JSONRPCError(jsonrpc="2.0", id=message.id, error=told))

    async def close(self) -> None:
        """Cancel what runs, and wait until it has let go."""
        tasks, self._closing = list(self._running.values()), True
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
