"""Health: whether a server that is up is still needed, and still answers. Loaded when a connection is opened."""

from __future__ import annotations

import asyncio
import logging
from math import inf
from time import monotonic as _now
from typing import TYPE_CHECKING

from surehand.providers.mcp.transports.connection_errors import failure_of

if TYPE_CHECKING:
    from mcp import Client

    from surehand.providers.mcp.life import Life
    from surehand.providers.mcp.options import Options

PROBING = 3.0
"""Seconds in which a server that is well answers."""


class Health:
    """Knows when the server was last used and last heard of."""

    def __init__(self, options: Options, log: logging.Logger, life: Life) -> None:
        self._options, self._log, self._life = options, log, life
        self._used = self._heard = _now()

    def used(self) -> None:
        """A call came, or came to an end."""
        self._used = _now()

    def heard(self) -> None:
        """The server has answered something."""
        self._heard = _now()

    def answered(self) -> None:
        """A call was answered."""
        self._used = self._heard = _now()

    async def look_after(self, client: Client) -> None:
        """Leave a server that nobody uses; ask one that has not been heard of whether it is well."""
        idle, every = _seconds(self._options.idle), _seconds(self._options.probe_every)
        while min(idle, every) < inf:
            await asyncio.sleep(min(idle, every) / 2)
            requests = self._life.requests
            if not requests and _now() - self._used >= idle:
                self._log.info("%s is stopped: nobody has used it for %g s.", self._life.name, idle)
                self._life.leave()
            # One that works may be too busy to answer: it has the time limits of its calls.
            elif _now() - self._heard >= every and all(request.asked for request in requests):
                await self.probe(client)

    async def probe(self, client: Client) -> None:
        """Have the server answer something; leave it if it does not."""
        try:
            async with asyncio.timeout(PROBING):
                await self._ask(client)
            self.heard()
        except TimeoutError:
            self._life.leave(f"It does not answer within {PROBING:g} s.")
        except Exception as error:  # noqa: BLE001 - whatever it is
            if not (trouble := failure_of(error)).answered or trouble.status is not None:
                self._life.leave(trouble.message)

    async def _ask(self, client: Client) -> None:
        if self._options.probe == "list":
            await client.session.list_tools()
        elif client.protocol_version < "2026":
            await client.session.send_ping()
        else:
            await client.session.send_discover(client.protocol_version)


def _seconds(given: float | str | None) -> float:
    return inf if given is None else float(given)
