"""Health: whether a server that is up is still needed, and still answers. Loaded when a connection is opened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolwright.providers.mcp.routes.trouble import trouble_of

if TYPE_CHECKING:
    from mcp import Client

    from toolwright.providers.mcp.options import Options

PROBING = 3.0
"""Seconds in which a server that is well answers."""


class Health:
    """Knows when the server was last used and last heard of."""

    def __init__(
        self, options: Options, log: logging.Logger, *, busy: Callable[[], bool], leave: Callable[[str], None]
    ) -> None:
        self._options, self._log, self._busy, self._leave = options, log, busy, leave
        self._used = self._heard = _now()

    def used(self) -> None:
        """A call came, or came to an end."""
        self._used = _now()

    def heard(self) -> None:
        """The server has answered something."""
        self._heard = _now()

    @property
    def wanted(self) -> bool:
        """Whether somebody has used it lately."""
        idle = self._options.idle
        return idle is None or _now() - self._used < float(idle)

    async def look_after(self, client: Client) -> None:
        """Leave a server that nobody uses; ask one that has not been heard of whether it is well."""
        every = None if self._options.probe_every is None else float(self._options.probe_every)
        times = [float(time) for time in (every, self._options.idle) if time is not None]
        while times:
            await asyncio.sleep(min(times) / 2)
            if self._busy():
                continue
            if not self.wanted:
                self._log.info("It is stopped: nobody has used it for %s s.", self._options.idle)
                self._leave("")
            elif every is not None and _now() - self._heard >= every:
                await self.probe(client)

    async def probe(self, client: Client) -> None:
        """Have the server answer something; leave it if it does not."""
        try:
            async with asyncio.timeout(PROBING):
                await self._ask(client)
            self.heard()
        except TimeoutError:
            self._leave(f"It does not answer within {PROBING:g} s.")
        except Exception as error:  # noqa: BLE001 - whatever it is
            if not (trouble := trouble_of(error)).answered:
                self._leave(trouble.message)

    async def _ask(self, client: Client) -> None:
        if self._options.probe == "list":
            await client.session.list_tools()
        elif client.protocol_version < "2026":
            await client.session.send_ping()
        else:
            await client.session.send_discover(client.protocol_version)


def _now() -> float:
    return asyncio.get_running_loop().time()
