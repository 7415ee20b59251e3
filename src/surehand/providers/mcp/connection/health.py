"""The health check of a session: it ends the session when the server is idle or does not answer a probe."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from time import monotonic as _now
from typing import TYPE_CHECKING, Protocol

from surehand.providers.mcp.connection_errors import failure_from_error

if TYPE_CHECKING:
    from mcp import Client

    from surehand.providers.mcp.connection.request import CallRequest
    from surehand.providers.mcp.connection_secrets import ServerLog
    from surehand.providers.mcp.options import ServerOptions

PROBE_TIMEOUT_SECONDS = 3.0
"""Time in which a healthy server answers a probe."""


class MonitoredSession(Protocol):
    """The part of a session that its health check uses."""

    name: str

    @property
    def open_requests(self) -> Mapping[CallRequest, None]:
        """Requests in flight, or with a question that waits for an answer."""
        ...

    def end(self, reason: str = "") -> None:
        """End the session."""
        ...


class SessionHealth:
    """Knows when the server was last used, and when it last sent something."""

    def __init__(self, options: ServerOptions, log: ServerLog, session: MonitoredSession) -> None:
        self._options = options
        self._log = log
        self._session = session
        self._last_used_at = _now()
        self._last_heard_at = _now()

    def record_use(self) -> None:
        """A call started or ended."""
        self._last_used_at = _now()

    def record_message(self) -> None:
        """The server has sent a response."""
        self._last_heard_at = _now()

    def record_answer(self) -> None:
        """The server has answered a call."""
        self._last_used_at = self._last_heard_at = _now()

    async def watch(self, client: Client) -> None:
        """End the session of an idle server, and probe a server that has been silent."""
        idle_limit = _seconds_or_infinity(self._options.idle)
        probe_interval = _seconds_or_infinity(self._options.probe_every)
        check_interval = min(idle_limit, probe_interval) / 2
        while check_interval < inf:
            await asyncio.sleep(check_interval)
            requests = self._session.open_requests
            if not requests and _now() - self._last_used_at >= idle_limit:
                self._log.info("Stopped %s: it was not used for %g s.", self._session.name, idle_limit)
                self._session.end()
                continue
            # A server that works on a call may be too busy to answer a probe; the call has its own timeout.
            is_working = any(request.open_question is None for request in requests)
            if _now() - self._last_heard_at >= probe_interval and not is_working:
                await self.probe(client)

    async def probe(self, client: Client) -> None:
        """Send a probe, and end the session if the server does not answer."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                await self._send_probe(client)
            self.record_message()
        except TimeoutError:
            self._session.end(f"It does not answer within {PROBE_TIMEOUT_SECONDS:g} s.")
        except Exception as error:  # noqa: BLE001 - any failure of the connection ends the session
            failure = failure_from_error(error)
            if not failure.is_server_answer or failure.status is not None:  # an error response is a sign of life
                self._session.end(failure.message)

    async def _send_probe(self, client: Client) -> None:
        if self._options.probe == "list":
            await client.session.list_tools()
        elif client.protocol_version < "2026":
            await client.session.send_ping()
        else:
            await client.session.send_discover(client.protocol_version)


def _seconds_or_infinity(seconds: float | str | None) -> float:
    return inf if seconds is None else float(seconds)
