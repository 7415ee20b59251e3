"""Port: an app on a port of this machine, until it is to end."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from uvicorn import Config, Server

from toolwright.core.clock import Clock, Deadlines
from toolwright.gateway.mcp.http.patience import Limits, Patient
from toolwright.gateway.mcp.signals import on_signals

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

BACKLOG = 512
_LAST = 2.0
"""Seconds for requests that were ended to let go."""


class _Listening(Server):
    """The server underneath, with signals that are ours, and a stop that leaves nothing."""

    def __init__(self, config: Config, ready: Callable[[], None], stopping: float) -> None:
        super().__init__(config)
        self._ready, self._stopping, self._ended = ready, stopping, asyncio.Event()
        self.waited, self.left = asyncio.Event(), asyncio.Event()
        """That requests had their time to come to an end; and that the app has ended those that did not."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that it has begun."""
        await super().startup(sockets)
        self._ready()

    async def main_loop(self) -> None:
        """Wait for the end, and set the clock of its answers each second; it would look for both ten times as often."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._ended.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """It would send itself the signal again once it has ended, and so end with an error."""
        yield

    def stop(self) -> None:
        """Accept nothing more, let what runs come to its end for a moment, and then end it."""
        self.should_exit = True
        self._ended.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Leave no task and no connection. It would cancel what runs, which tells nobody anything but the log."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self._rest(self._stopping)
        self.waited.set()
        await self.left.wait()
        await self._rest(_LAST)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
        await self._cancel()

    async def _rest(self, seconds: float) -> None:
        """Wait until nobody is connected, and nothing runs, but no longer than that."""
        until, state = monotonic() + seconds, self.server_state
        while (state.connections or state.tasks) and monotonic() < until:  # noqa: ASYNC110 - the library looks so, too
            await asyncio.sleep(0.01)

    async def _cancel(self) -> None:
        """End what waits for somebody else than its client: the token's judge, say."""
        tasks = set(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST)


def bound(host: str, port: int) -> list[socket.socket]:
    """The sockets of a host and port, on each of its addresses; raises `OSError` where none can be had."""
    found = dict.fromkeys(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE))
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    for family, _, _, _, address in found:
        try:
            sockets.append(_bound(family, (address[0], port, *address[2:])))
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                _close(sockets)
                raise
            missing = error  # `localhost` may have an address that this machine does not have
            continue
        port = sockets[0].getsockname()[1]  # 0 is any that is free, and then the same for all
    if missing is not None and not sockets:
        raise missing
    return sockets


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


async def listen(
    app: Starlette,
    sockets: list[socket.socket],
    *,
    ready: Callable[[], None] = lambda: None,
    limits: Limits | None = None,
) -> None:
    """Serve an app on sockets until SIGTERM or SIGINT comes, or the task is cancelled.

    Args:
        sockets: as `bound` gives them; they are closed afterwards.
        ready: called once the app has started and is served.
    """
    moments, task, limits = Deadlines(Clock()), asyncio.current_task(), limits or Limits()
    made = _Listening(_config(app, limits, moments), ready, limits.stopping)
    assert task is not None

    def stop() -> None:
        made.stop()
        if not made.started:  # what it serves is still starting, which may take long
            task.cancel()

    try:
        with on_signals(stop):
            await _served(app, made, sockets)
    except asyncio.CancelledError:
        if made.started or not made.should_exit or task.uncancel():
            raise
    finally:
        _close(sockets)
        moments.close()


def _config(app: Starlette, limits: Limits, moments: Deadlines) -> Config:
    protocol: Any = partial(Patient, limits=limits, open_ones={}, moments=moments)
    return Config(
        _quiet(app),
        http=protocol,
        ws="none",
        lifespan="off",  # the app's own errors would be lost in it
        log_config=None,
        access_log=False,
        reset_contextvars=True,  # one that is begun at the end of another is not to know what that one set
        proxy_headers=False,  # nobody here asks where a request came from
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=limits.keep_alive,  # type: ignore[arg-type]  # any number of seconds will do
    )


async def _served(app: Starlette, made: _Listening, sockets: list[socket.socket]) -> None:
    """The app ends before the server does, so that its last answers are still sent."""
    serving: asyncio.Task[None] | None = None
    try:
        async with app.router.lifespan_context(app):
            serving = asyncio.create_task(made.serve(sockets))
            try:
                await _first(serving, made.waited)
            finally:
                made.stop()
                await _first(serving, made.waited)
    finally:
        made.left.set()
        if serving is not None:
            await serving


async def _first(serving: asyncio.Task[None], event: asyncio.Event) -> None:
    """Wait for the event, or for the end of what should have brought it about."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def _quiet(app: ASGIApp) -> ASGIApp:
    """An app whose requests may be cancelled: that is no bug, and there is nobody left to answer."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        try:  # noqa: SIM105 - every request comes through here
            await app(scope, receive, send)
        except asyncio.CancelledError:
            pass

    return served
