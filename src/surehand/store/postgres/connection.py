"""Connections to PostgreSQL: how they are opened, and how a request ends when the server does not reply.

The pool and the session use it. A server can stand still without closing its connections: its processes are paused, its
disk hangs, or a firewall swallows the packets. TCP notices only the last, and late, so every request has its own limit.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from surehand.core.ids import new_id
from surehand.store.database import StoreUnavailable

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")
CONNECT_TIMEOUT_SECONDS = 5
MAX_APPLICATION_NAME_LENGTH = 63
_CONNECTION_DEFAULTS: dict[str, Any] = {
    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    # TCP keepalive: a server that vanished from an idle connection is noticed within half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    # Milliseconds for which sent data may stay unacknowledged by the server's kernel, where the system supports it.
    "tcp_user_timeout": 15_000,
}
"""Settings of libpq that the address may override."""
_WAIT_AFTER_SHUTDOWN_SECONDS = 1.0


class ServerNotReplying(StoreUnavailable):
    """The server did not reply in time: a write may have been stored or not, or may be stored later."""


async def connect(url: str, **options: Any) -> AsyncConnection[Any]:
    """Open a connection with an application name of its own, by which the server's process can be found."""
    from psycopg import AsyncConnection
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(url)
    defaults = {name: value for name, value in _CONNECTION_DEFAULTS.items() if name not in given}
    unique_part = f" {new_id()}"
    prefix = str(given.get("application_name") or "surehand")[: MAX_APPLICATION_NAME_LENGTH - len(unique_part)]
    return await AsyncConnection.connect(
        url, autocommit=True, application_name=f"{prefix}{unique_part}", **defaults, **options
    )


async def run_request(
    connection: AsyncConnection[Any],
    request: Coroutine[Any, Any, T],
    *,
    limit_seconds: float | None,
    cancelled_limit_seconds: float = 0.0,
) -> T:
    """Await a request on a connection, and cut the connection when the time is up.

    Args:
        cancelled_limit_seconds: How long to wait for the reply after the caller was cancelled.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(request)
    deadline = None if limit_seconds is None else loop.time() + limit_seconds
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task], timeout=None if deadline is None else max(deadline - loop.time(), 0.0))
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
            latest = loop.time() + cancelled_limit_seconds
            deadline = latest if deadline is None else min(deadline, latest)
        if not task.done() and deadline is not None and loop.time() >= deadline:
            await _abandon(connection, task)
            if cancelled is not None:
                raise cancelled
            raise ServerNotReplying(
                f"PostgreSQL did not reply within {limit_seconds:g} seconds. A write may have been stored or not."
            )
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # retrieved, or asyncio would log it as never retrieved
    raise cancelled


async def _abandon(connection: AsyncConnection[Any], task: asyncio.Task[Any]) -> None:
    """End a request that got no reply."""
    # Not by cancelling the task: psycopg would first ask the server to cancel the query, and wait for its reply.
    cut_connection(connection)
    with suppress(asyncio.CancelledError):
        await asyncio.wait([task], timeout=_WAIT_AFTER_SHUTDOWN_SECONDS)
    if not task.done():
        task.cancel()
    elif not task.cancelled():
        task.exception()  # retrieved, or asyncio would log it as never retrieved
    await connection.close()  # also if the reply came at the last moment: its socket is of no use any more


def cut_connection(connection: AsyncConnection[Any]) -> None:
    """Shut the socket down, so that everything that waits on it ends at once with an error."""
    from psycopg import Error

    # The descriptor is libpq's own, and must not be closed here: a duplicate is shut down, which ends both.
    with suppress(Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)
