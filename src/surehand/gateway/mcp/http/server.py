"""Serve an ASGI app on sockets of this machine, with uvicorn and httptools, until a signal or a cancellation."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from uvicorn import Config, Server

from surehand.core.clock import Clock, Deadlines
from surehand.core.errors import DefinitionError
from surehand.core.extras import install_command
from surehand.gateway.mcp.http.connection import ClientConnection
from surehand.gateway.mcp.http.connection_table import ConnectionLimits, ConnectionTable
from surehand.gateway.mcp.http.early_refusal import EarlyRefusal
from surehand.gateway.mcp.http.request_monitor import RequestMonitor
from surehand.gateway.mcp.log_throttle import LogThrottle
from surehand.gateway.mcp.signals import on_stop_signals

if TYPE_CHECKING:
    from starlette.applications import Starlette

SOCKET_BACKLOG = 512
TICK_INTERVAL_SECONDS = 1.0
LAST_WRITES_TIMEOUT_SECONDS = 2.0
"""Time for responses that the app has ended to be written, and for cancelled requests to end."""
UNACKNOWLEDGED_TIMEOUT_MILLISECONDS = 60_000


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Bind sockets to a port on each address of a host; raises `OSError` if no address can be used."""
    addresses = dict.fromkeys(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE))
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    for family, _, _, _, address in addresses:
        try:
            sockets.append(_bind_socket(family, (address[0], port, *address[2:])))
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                _close_sockets(sockets)
                raise
            missing = error  # `localhost` may have an address that this machine does not have
            continue
        port = sockets[0].getsockname()[1]  # port 0 is any free one, and then the same for all addresses
    if missing is not None and not sockets:
        raise missing
    return sockets


def _bind_socket(family: int, address: tuple[Any, ...]) -> socket.socket:
    new_socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        new_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Accepted sockets inherit it. A client that vanished without closing its connection acknowledges nothing:
            # by itself, the kernel would repeat the pings of an event stream for a quarter of an hour.
            new_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_TIMEOUT_MILLISECONDS)
        if family == socket.AF_INET6:
            new_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        new_socket.bind(address)
    except OSError:
        new_socket.close()
        raise
    return new_socket


def _close_sockets(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


async def listen(
    app: Starlette,
    sockets: list[socket.socket],
    *,
    ready: Callable[[], None] = lambda: None,
    on_stop: Callable[[], None] = lambda: None,
    limits: ConnectionLimits | None = None,
    refusal: EarlyRefusal | None = None,
) -> None:
    """Serve an app on sockets until SIGTERM or SIGINT arrives, or the task is cancelled.

    Args:
        sockets: as `bind_sockets` returns them; they are closed afterwards.
        ready: called once the app has started and is served.
        refusal: refuses requests while the app has as many in flight as it may.
        on_stop: called when the server begins to stop; running requests then have `limits.stop_timeout` to end.
    """
    deadlines = Deadlines(Clock())
    table = ConnectionTable(limits or ConnectionLimits(), deadlines)
    task = asyncio.current_task()
    assert task is not None
    try:
        uvicorn_run = _UvicornRun(app, table, sockets, ready, on_stop, refusal)

        def stop() -> None:
            uvicorn_run.stop()
            if not uvicorn_run.has_started:  # the app may take long to start
                task.cancel()

        with on_stop_signals(stop), _throttle_uvicorn_warnings():
            await uvicorn_run.run()
    except asyncio.CancelledError:
        # A signal during the start cancels this task, which is a regular end. Any other cancellation is the caller's.
        if uvicorn_run.has_started or not uvicorn_run.is_stopping or task.uncancel():
            raise
    finally:
        _close_sockets(sockets)
        deadlines.close()


class _UvicornRun:
    """One run of uvicorn and the app behind it."""

    def __init__(
        self,
        app: Starlette,
        table: ConnectionTable,
        sockets: list[socket.socket],
        ready: Callable[[], None],
        on_stop: Callable[[], None],
        refusal: EarlyRefusal | None,
    ) -> None:
        self._app = app
        self._table = table
        self._sockets = sockets
        self._ready = ready
        self._on_stop = on_stop
        self._server = Server(_uvicorn_config(app, table, refusal))
        self._stop_event = asyncio.Event()

    @property
    def has_started(self) -> bool:
        return self._server.started

    @property
    def is_stopping(self) -> bool:
        return self._stop_event.is_set()

    def stop(self) -> None:
        """Accept no more connections, and end running requests."""
        self._server.should_exit = True
        self._stop_event.set()

    async def run(self) -> None:
        """Serve until `stop` is called. The app ends before uvicorn does, so that its last responses are sent."""
        uvicorn_task: asyncio.Task[None] | None = None
        try:
            async with self._app.router.lifespan_context(self._app):
                uvicorn_task = asyncio.create_task(self._run_uvicorn(), name="mcp: uvicorn")
                try:
                    await self._wait_until_stopped(uvicorn_task)
                finally:
                    self.stop()
                    self._on_stop()
                    await asyncio.wait({uvicorn_task}, timeout=self._table.limits.stop_timeout)
        finally:
            if uvicorn_task is not None:
                await self._shut_down(uvicorn_task)

    async def _run_uvicorn(self) -> None:
        # These are the steps of `Server.serve` without its signal handlers, which would replace those of the program
        # and of other servers in it, and raise the signal once more at the end, so that the process fails.
        server = self._server
        if not server.config.loaded:
            server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup(sockets=self._sockets)
        self._ready()
        while not await server.on_tick(0):  # it updates the date header
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_INTERVAL_SECONDS):
                    await self._stop_event.wait()
        await server.shutdown(sockets=self._sockets)

    async def _wait_until_stopped(self, uvicorn_task: asyncio.Task[None]) -> None:
        stopped = asyncio.create_task(self._stop_event.wait())
        try:
            await asyncio.wait({uvicorn_task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()

    async def _shut_down(self, uvicorn_task: asyncio.Task[None]) -> None:
        """Wait until uvicorn has ended, even if this is cancelled. After a time limit, abort connections, then it."""
        cancelled: asyncio.CancelledError | None = None
        steps = iter((self._table.abort_all, self._force_exit))
        while not uvicorn_task.done():
            try:
                await asyncio.wait({uvicorn_task}, timeout=LAST_WRITES_TIMEOUT_SECONDS)
            except asyncio.CancelledError as error:
                cancelled = error
            if not uvicorn_task.done() and (next_step := next(steps, None)) is not None:
                next_step()
        if cancelled is not None:
            raise cancelled
        uvicorn_task.result()

    def _force_exit(self) -> None:
        self._server.force_exit = True


def _uvicorn_config(app: Starlette, table: ConnectionTable, refusal: EarlyRefusal | None) -> Config:
    limits = table.limits
    monitor = RequestMonitor(app)
    protocol: Any = partial(
        ClientConnection, http_protocol=_uvicorn_http_protocol(monitor), table=table, refusal=refusal
    )
    return Config(
        monitor,
        http=protocol,
        ws="none",
        lifespan="off",  # uvicorn would swallow errors of the app's start, so `_UvicornRun` enters the lifespan
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # the client's address is used only for the limit of connections
        server_header=False,
        backlog=SOCKET_BACKLOG,
        timeout_keep_alive=limits.keep_alive_timeout,  # type: ignore[arg-type]  # it is passed to `call_later`
    )


def _uvicorn_http_protocol(app: RequestMonitor) -> Callable[..., asyncio.Protocol]:
    """uvicorn's protocol class for httptools."""
    if find_spec("httptools") is None:
        raise DefinitionError("Serving over HTTP needs httptools.", fix=install_command("mcp", "server"))
    config = Config(app, http="httptools", ws="none", lifespan="off", interface="asgi3", log_config=None)
    config.load()
    return config.http_protocol_class


class _WarningThrottle(logging.Filter):
    """Throttles the warnings of uvicorn: it warns of every malformed request, so any client could fill the log."""

    def __init__(self) -> None:
        super().__init__()
        self._log_throttle = LogThrottle()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        self._log_throttle.warn(record.getMessage(), "uvicorn: %s", record.getMessage())
        return False


@contextmanager
def _throttle_uvicorn_warnings() -> Iterator[None]:
    log = logging.getLogger("uvicorn.error")
    throttle = _WarningThrottle()
    log.addFilter(throttle)
    try:
        yield
    finally:
        log.removeFilter(throttle)
