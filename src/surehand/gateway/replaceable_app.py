"""ReplaceableApp: serves a gateway app, and can replace it by another one while requests run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.shared.inbound import MCP_METHOD_HEADER
from starlette.applications import Starlette

from surehand.gateway.access.overload import early_refusal
from surehand.gateway.http_app import GatewayApp
from surehand.gateway.mcp.http.early_refusal import EarlyRefusal
from surehand.gateway.mcp.http.running_requests import LISTEN_METHOD

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class _ServedApp:
    """An app whose lifespan is entered, with the number of its running requests."""

    def __init__(self, app: GatewayApp) -> None:
        self.app = app
        self._request_count = 0
        self._has_no_requests = asyncio.Event()
        self._has_no_requests.set()
        self._waiting_for_idle: asyncio.Task[None] | None = None
        self._end_requested = asyncio.Event()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # One task enters and leaves the lifespan: the scopes of anyio in it belong to a task.
        self.task = asyncio.create_task(self._run(), name="gateway: app")

    async def start(self) -> None:
        """Wait until the app has started; raises what its start raised."""
        await asyncio.wait({self._started, self.task}, return_when=asyncio.FIRST_COMPLETED)
        if not self._started.done():
            await self.task

    async def _run(self) -> None:
        async with self.app.router.lifespan_context(self.app):
            self._started.set_result(None)
            await self._end_requested.wait()
            if self._waiting_for_idle is not None:
                self._waiting_for_idle.cancel()
                await asyncio.wait({self._waiting_for_idle})

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if _is_mcp_listener(scope):  # it ends with the app, and must not keep it
            await self.app(scope, receive, send)
            return
        self._request_count += 1
        self._has_no_requests.clear()
        try:
            await self.app(scope, receive, send)
        finally:
            self._request_count -= 1
            if not self._request_count:
                self._has_no_requests.set()

    def end_when_idle(self) -> None:
        """End the streams that follow events, and the app once its last request, call and run has ended."""
        self._waiting_for_idle = asyncio.create_task(
            self._end_once_idle(), name="gateway: end an app that was replaced"
        )

    def end_now(self) -> None:
        """End the app now; what still runs has the time of a shutdown."""
        self._end_requested.set()

    async def _end_once_idle(self) -> None:
        try:
            await self.app.gateway.retire()
            while self._request_count or not self.app.gateway.is_idle:
                await self._has_no_requests.wait()
                await self.app.gateway.retire()
        finally:
            self._end_requested.set()


def _is_mcp_listener(scope: Scope) -> bool:
    """Whether a request only waits for notifications, in either protocol of MCP."""
    if scope["type"] != "http" or scope["path"].rstrip("/") != "/mcp":
        return False
    return scope["method"] == "GET" or (MCP_METHOD_HEADER.encode(), LISTEN_METHOD.encode()) in scope["headers"]


class ReplaceableApp(Starlette):
    """An application for `listen` that passes requests on to the current gateway app."""

    def __init__(self, first: GatewayApp) -> None:
        super().__init__(lifespan=self._lifespan_of_all)
        self._first = first
        self._current: _ServedApp | None = None
        self._replaced: set[_ServedApp] = set()

    @asynccontextmanager
    async def _lifespan_of_all(self, _: Starlette) -> AsyncIterator[None]:
        self._current = _ServedApp(self._first)
        await self._current.start()
        try:
            yield
        finally:
            served = [self._current, *self._replaced]
            for each in served:
                each.app.begin_shutdown()
                each.end_now()
            await asyncio.gather(*(each.task for each in served))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request with the app that is current when it arrives."""
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
            return
        assert self._current is not None, "the lifespan was not entered"
        await self._current.serve(scope, receive, send)

    @property
    def early_refusal(self) -> EarlyRefusal:
        """For `listen`: the refusal of requests while the current app has as many in flight as it may."""
        return early_refusal(lambda: self._current is not None and self._current.app.is_full)

    async def replace(self, app: GatewayApp) -> None:
        """Start another app and serve new requests with it; those that run end on the old one.

        Raises what the start of the new app raises, and then keeps the old one.
        """
        new = _ServedApp(app)
        try:
            await new.start()
        except BaseException:
            new.task.cancel()
            await asyncio.wait({new.task})
            raise
        old, self._current = self._current, new
        if old is not None:
            self._replaced.add(old)
            old.task.add_done_callback(lambda _: self._replaced.discard(old))
            old.end_when_idle()

    def begin_shutdown(self) -> None:
        """End the streams that follow events; requests that run go on."""
        for each in (self._current, *self._replaced):
            if each is not None:
                each.app.begin_shutdown()
