"""Calls: what is under way on one connection. They are written past the library's session, and answered past it too.

The session makes a pair of streams, a span and two models for each request; here a request is a row. Loaded with a
connection.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from secrets import randbelow
from typing import TYPE_CHECKING, Any, TypeAlias

from anyio import BrokenResourceError, ClosedResourceError
from mcp import MCPError
from mcp.shared.dispatcher import CallOptions
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ProgressNotificationParams,
)
from mcp_types.methods import validate_server_result
from opentelemetry import trace
from opentelemetry.context import get_current
from opentelemetry.environment_variables import OTEL_PYTHON_TRACER_PROVIDER
from opentelemetry.propagate import inject
from pydantic import TypeAdapter
from pydantic_core import to_json, to_jsonable_python

from toolwright.providers.mcp.plain import is_plain

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

    from toolwright.providers.mcp.request import Request

log = logging.getLogger("toolwright")
Headers: TypeAlias = dict[str, str]
METHOD = "tools/call"
FIRST, SCATTERED = 1 << 30, 1 << 29
"""Where the numbers of our requests begin: beyond those of the library's own, and elsewhere after each start."""
PARTING = 5.0
"""Seconds in which a server that does not read can be told that a call was cancelled."""
_IN_ENVIRONMENT = OTEL_PYTHON_TRACER_PROVIDER in os.environ
_FLAG = TypeAdapter[bool | None](bool | None)
_NEWER = frozenset({"resultType", "inputRequests", "requestState"})
"""Keys of a result that mean nothing in the older protocol."""


class Calls:
    """Requests by their numbers, from the moment that they are written until something comes of them."""

    def __init__(self, write: Any) -> None:
        self._write = write
        self._session: ClientSession | None = None
        self._waiting: dict[int, Request] = {}
        self._last = FIRST + randbelow(SCATTERED)
        self._now: Callable[[SessionMessage], bool] | None = getattr(write, "send_now", None)
        self._put: Callable[[int, bytes], bool] | None = getattr(write, "put_now", None)
        self._post: Callable[[int, dict[str, Any], Headers | None], bool] | None = getattr(write, "post_now", None)
        self._stamp: dict[str, Any] = {}
        """What the session notes on each request."""
        self._version = ""
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False

    def belong_to(self, session: ClientSession) -> None:
        """Speak as the session does, once it knows the protocol and who is who."""
        if hasattr(session, "_stamp"):
            self._session, self._version = session, session.protocol_version or "2025-11-25"
            data: dict[str, Any] = {"method": METHOD, "params": {}}
            session._stamp(data, {})
            self._stamp = data["params"].get("_meta", {})

    @property
    def ready(self) -> bool:
        """Whether they can go past the session; where somebody traces, they go through it, which makes the spans."""
        return self._session is not None and _untraced()

    def send(self, request: Request, params: dict[str, Any]) -> None:
        """Write a request, at once if that can be; it is told what comes of it."""
        number = request.number = self._last = self._last + 1
        self._waiting[number] = request
        try:
            if self._over:
                raise _closed()
            if self._put is not None and self._put(number, self._written(number, params)):
                return
            stamped, headers = self._stamped(number, params)
            if self._post is not None and self._post(number, stamped, headers):
                return
            item = item_of(number, stamped, headers)
        except Exception as error:  # noqa: BLE001 - whoever waits decides what it means
            self._failed(request, error)
            return
        if self._now is None or not self._now(item):
            self._sending[number] = task = asyncio.create_task(self._sent(request, item), name=f"mcp: {request.tool}")
            self._look_after(task)

    def _written(self, number: int, params: dict[str, Any]) -> bytes:
        """The whole message in bytes, for where nobody looks at headers."""
        meta = {**self._stamp, "progressToken": number}
        _trace(meta)
        message = {"jsonrpc": "2.0", "id": number, "method": METHOD, "params": {**params, "_meta": meta}}
        return to_json(message, inf_nan_mode="null")

    def _stamped(self, number: int, params: dict[str, Any]) -> tuple[dict[str, Any], Headers | None]:
        """Parameters and headers as the session would write them; raises here for what JSON cannot hold."""
        data: dict[str, Any] = {"method": METHOD, "params": to_jsonable_python(params)}
        options: CallOptions = {}
        assert self._session is not None
        self._session._stamp(data, options)
        meta = data["params"].setdefault("_meta", {})
        meta["progressToken"] = number
        _trace(meta)
        return data["params"], options.get("headers")

    async def _sent(self, request: Request, item: SessionMessage) -> None:
        try:
            await self._write.send(item)
        except (BrokenResourceError, ClosedResourceError):
            self._failed(request, _closed())
        except Exception as error:  # noqa: BLE001 - whoever waits decides what it means
            self._failed(request, error)
        finally:
            self._sending.pop(request.number or 0, None)

    def _failed(self, request: Request, error: Exception) -> None:
        if self._waiting.pop(request.number or 0, None) is not None:
            request.fail(error)

    def cancel(self, request: Request) -> None:
        """Nobody wants it any more: if it was written, at least in part, the server is told."""
        number = request.number or 0
        if (sending := self._sending.get(number)) is not None:
            sending.cancel()
        if self._waiting.pop(number, None) is not None and not self._over:
            params = {"requestId": number, "reason": "caller cancelled"}
            message = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
            self._look_after(asyncio.create_task(self._tell(message), name="mcp: cancelled"))

    def _look_after(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self, message: JSONRPCNotification) -> None:
        try:
            async with asyncio.timeout(PARTING):
                await self._write.send(SessionMessage(message))
        except TimeoutError:
            log.warning("A server that does not read could not be told that a call was cancelled.")
        except Exception as error:  # noqa: BLE001 - the connection is going; so is the call
            log.debug("A server could not be told that a call was cancelled: %r", error)

    async def ended(self) -> None:
        """Wait until nothing is written any more: the server knows what was cancelled, or cannot."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def close(self) -> None:
        """Nothing more will come."""
        self._over = True
        waiting, self._waiting = list(self._waiting.values()), {}
        for request in waiting:
            request.fail(_closed())

    # What the server says

    def told(self, number: int, result: dict[str, Any]) -> bool:
        """Whether it is the result of one of them, and a plain one; others come as messages."""
        if (request := self._waiting.get(number)) is None or not is_plain(result, modern=self._version >= "2026"):
            return False
        del self._waiting[number]
        request.succeed(result, plain=True)
        return True

    def answered(self, message: JSONRPCResponse | JSONRPCError) -> bool:
        """Whether it is the answer to one of them."""
        if (request := self._waiting.pop(_number(message.id), None)) is None:
            return False
        try:
            result = self._result(message)
        except Exception as error:  # noqa: BLE001 - whoever waits decides what it means
            request.fail(error)
        else:
            request.succeed(result)
        return True

    def _result(self, message: JSONRPCResponse | JSONRPCError) -> dict[str, Any]:
        if isinstance(message, JSONRPCError):
            raise _error(message.error)
        result = message.result
        if is_plain(result, modern=self._version >= "2026"):
            return result
        validate_server_result(METHOD, self._version, result)
        _FLAG.validate_python(result.get("isError"), strict=True)  # the library also takes what may have been meant
        if self._version < "2026" and not _NEWER.isdisjoint(result):
            return {key: value for key, value in result.items() if key not in _NEWER}
        return result

    def number_of(self, token: int | str) -> int | None:
        """Which of them a token means, however it is written."""
        return number if (number := _number(token)) in self._waiting else None

    def progressed(self, params: ProgressNotificationParams) -> bool:
        """Whether it is a sign of one of them."""
        if (request := self._waiting.get(_number(params.progress_token))) is None:
            return False
        try:
            request.progress(params.progress, params.total, params.message)
        except Exception:
            log.exception("Progress of %s could not be told", request.tool)
        return True


def _number(given: Any) -> int:
    """Some servers write the numbers that they were given as text."""
    if isinstance(given, int):
        return given
    return int(given) if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 12 else 0


def _error(error: ErrorData) -> MCPError:
    return MCPError(code=error.code, message=error.message, data=error.data)


def item_of(number: int, params: dict[str, Any], headers: Headers | None) -> SessionMessage:
    """A call as the library hands it on."""
    message = JSONRPCRequest(jsonrpc="2.0", id=number, method=METHOD, params=params)
    return SessionMessage(message, ClientMessageMetadata(headers=headers))


def _untraced() -> bool:
    """Whether nobody has set up tracing; the library looks at the environment for that, each time."""
    if getattr(trace, "_TRACER_PROVIDER", trace) is None and not _IN_ENVIRONMENT:
        return True
    return isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def _trace(meta: dict[str, Any]) -> None:
    """Note which trace a call belongs to, if to any."""
    if get_current():
        inject(meta)


def _closed() -> MCPError:
    return MCPError(code=CONNECTION_CLOSED, message="Connection closed")
