"""Health: whether a server that is up is still needed, and still answers. Loaded when a connection is opened."""

from __future__ import annotations

import asyncio
import logging
from math import inf
from time import monotonic as _now
from typing import TYPE_CHECKING

from surehand.providers.mcp.transports.connection_errors import failure_from_error

if TYPE_CHECKING:
    from mcp import Client

    from surehand.providers.mcp.connection.session import McpClientSession
    from surehand.providers.mcp.options import ServerOptions

PROBE_TIMEOUT_SECONDS = 3.0
"""Seconds in which a server that is well answers."""


class SessionHealth:
    """Knows when the server was last used and last heard of."""

    def __init__(self, options: ServerOptions, log: logging.Logger, session: McpClientSession) -> None:
        self._options, self._log, self._session = options, log, session
        self._last_used_at = self._last_heard_at = _now()

    def note_use(self) -> None:
        """A call came, or came to an end."""
        self._last_used_at = _now()

    def note_heard(self) -> None:
        """The server has answered something."""
        self._last_heard_at = _now()

    def note_answer(self) -> None:
        """A call was answered."""
        self._last_used_at = self._last_heard_at = _now()

    async def watch(self, client: Client) -> None:
        """Leave a server that nobody uses; ask one that has not been heard of whether it is well."""
        idle, every = _seconds_or_infinity(self._options.idle), _seconds_or_infinity(self._options.probe_every)
        while min(idle, every) < inf:
            await asyncio.sleep(min(idle, every) / 2)
            requests = self._session.open_requests
            if not requests and _now() - self._last_used_at >= idle:
                self._log.info("%s is stopped: nobody has used it for %g s.", self._session.name, idle)
                self._session.end()
            # One that works may be too busy to answer: it has the time limits of its calls.
            elif _now() - self._last_heard_at >= every and all(request.open_question for request in requests):
                await self.probe(client)

    async def probe(self, client: Client) -> None:
        """Have the server answer something; leave it if it does not."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                await self._send_probe(client)
            self.note_heard()
        except TimeoutError:
            self._session.end(f"It does not answer within {PROBE_TIMEOUT_SECONDS:g} s.")
        except Exception as error:  # noqa: BLE001 - whatever it is
            if not (trouble := failure_from_error(error)).is_server_answer or trouble.status is not None:
                self._session.end(trouble.message)

    async def _send_probe(self, client: Client) -> None:
        if self._options.probe == "list":
            await client.session.list_tools()
        elif client.protocol_version < "2026":
            await client.session.send_ping()
        else:
            await client.session.send_discover(client.protocol_version)


def _seconds_or_infinity(given: float | str | None) -> float:
    return inf if given is None else float(given)
