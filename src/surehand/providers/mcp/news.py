"""News: what a server says by itself. Loaded when a connection is opened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import mcp_types as types

from surehand.core.sanitize import MAX_LOG_CHARS, escape_line
from surehand.providers.mcp.backoff import DELAYS
from surehand.providers.mcp.chores import Chores
from surehand.providers.mcp.transports.connection_errors import failure_of

if TYPE_CHECKING:
    from mcp import Client

RELISTING = 1.0
"""Seconds between two looks at a server's tools, however often it says that they changed."""
LONGEST = 2_000
"""Characters of one thing that a server has to say."""
_CHANGES = (types.ToolListChangedNotification, types.PromptListChangedNotification)


class News:
    """Changes are looked up once, however often they are told."""

    def __init__(self, log: logging.Logger, chores: Chores, relist: Callable[[], Awaitable[object]]) -> None:
        self._log, self._chores, self._relist = log, chores, relist
        self._stale = self._attends = False

    def attend(self, client: Client) -> None:
        """The newer protocol tells of changes on a stream of its own, if it is asked to."""
        self._attends = True
        if self._stale:
            self.changed()
        if client.protocol_version >= "2026" and _tells(client):
            self._chores.start("listen", self._listen(client))

    async def noticed(self, message: Any) -> None:
        """In the older protocol the server simply says so."""
        if isinstance(message, _CHANGES):
            self.changed()
        elif isinstance(message, Exception):
            self._log.debug("Something came that cannot be read: %.200s", message)

    async def logged(self, params: types.LoggingMessageNotificationParams) -> None:
        """What it wants to have in the log."""
        self._log.log(
            _LEVELS.get(params.level, logging.INFO),
            "%s",
            escape_line(str(params.data)[:LONGEST].rstrip(), MAX_LOG_CHARS),
        )

    async def _listen(self, client: Client) -> None:
        """The stream may break; what was missed is looked up."""
        tries = 0
        while True:
            try:
                async with client.listen(tools_list_changed=True, prompts_list_changed=True) as changes:
                    if tries:
                        self.changed()
                    tries = 0
                    async for _ in changes:
                        self.changed()
            except Exception as error:  # noqa: BLE001 - only the news are lost
                trouble = failure_of(error)
                self._log.debug("No news: %s", trouble.message)
                if trouble.answered:
                    return
            tries += 1
            await asyncio.sleep(DELAYS[min(tries, len(DELAYS) - 1)])

    def changed(self) -> None:
        """What it offers is to be looked at again, soon."""
        self._stale = True
        if self._attends:
            self._chores.start("relist", self._look())

    async def _look(self) -> None:
        while self._stale:
            self._stale = False
            try:
                await self._relist()
            except Exception as error:  # noqa: BLE001 - the old list holds
                self._log.warning("It does not say what it offers now: %s", failure_of(error).message)
            await asyncio.sleep(RELISTING)


def _tells(client: Client) -> bool:
    """Whether it says that it tells of changes. Where it was not asked, because its protocol is known, it may."""
    can = client.server_capabilities
    return can == types.ServerCapabilities() or any(each.list_changed for each in (can.tools, can.prompts) if each)


_LEVELS = {
    "debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO, "warning": logging.WARNING,
    "error": logging.ERROR, "critical": logging.ERROR, "alert": logging.ERROR, "emergency": logging.ERROR,
}  # fmt: skip
