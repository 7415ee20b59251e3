"""News: what a server says by itself. Loaded when a connection is opened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import mcp_types as types

from surehand.core.sanitize import MAX_LOG_CHARS, escape_line
from surehand.providers.mcp.connection.background_tasks import BackgroundTasks
from surehand.providers.mcp.connection.backoff import BACKOFF_DELAYS_SECONDS
from surehand.providers.mcp.transports.connection_errors import failure_from_error

if TYPE_CHECKING:
    from mcp import Client

MIN_RELIST_INTERVAL_SECONDS = 1.0
"""Seconds between two looks at a server's tools, however often it says that they changed."""
MAX_LOG_DATA_LENGTH = 2_000
"""Characters of one thing that a server has to say."""
_LIST_CHANGED_NOTIFICATIONS = (types.ToolListChangedNotification, types.PromptListChangedNotification)


class ServerNotifications:
    """Changes are looked up once, however often they are told."""

    def __init__(
        self, log: logging.Logger, background_tasks: BackgroundTasks, relist: Callable[[], Awaitable[object]]
    ) -> None:
        self._log, self._background_tasks, self._relist = log, background_tasks, relist
        self._is_stale = self._is_listening = False

    def start_listening(self, client: Client) -> None:
        """The newer protocol tells of changes on a stream of its own, if it is asked to."""
        self._is_listening = True
        if self._is_stale:
            self.on_list_changed()
        if client.protocol_version >= "2026" and _announces_changes(client):
            self._background_tasks.start("listen", self._listen(client))

    async def on_message(self, message: Any) -> None:
        """In the older protocol the server simply says so."""
        if isinstance(message, _LIST_CHANGED_NOTIFICATIONS):
            self.on_list_changed()
        elif isinstance(message, Exception):
            self._log.debug("Something came that cannot be read: %.200s", message)

    async def on_log_message(self, params: types.LoggingMessageNotificationParams) -> None:
        """What it wants to have in the log."""
        self._log.log(
            _LOG_LEVELS.get(params.level, logging.INFO),
            "%s",
            escape_line(str(params.data)[:MAX_LOG_DATA_LENGTH].rstrip(), MAX_LOG_CHARS),
        )

    async def _listen(self, client: Client) -> None:
        """The stream may break; what was missed is looked up."""
        tries = 0
        while True:
            try:
                async with client.listen(tools_list_changed=True, prompts_list_changed=True) as changes:
                    if tries:
                        self.on_list_changed()
                    tries = 0
                    async for _ in changes:
                        self.on_list_changed()
            except Exception as error:  # noqa: BLE001 - only the news are lost
                trouble = failure_from_error(error)
                self._log.debug("No news: %s", trouble.message)
                if trouble.is_server_answer:
                    return
            tries += 1
            await asyncio.sleep(BACKOFF_DELAYS_SECONDS[min(tries, len(BACKOFF_DELAYS_SECONDS) - 1)])

    def on_list_changed(self) -> None:
        """What it offers is to be looked at again, soon."""
        self._is_stale = True
        if self._is_listening:
            self._background_tasks.start("relist", self._relist_until_fresh())

    async def _relist_until_fresh(self) -> None:
        while self._is_stale:
            self._is_stale = False
            try:
                await self._relist()
            except Exception as error:  # noqa: BLE001 - the old list holds
                self._log.warning("It does not say what it offers now: %s", failure_from_error(error).message)
            await asyncio.sleep(MIN_RELIST_INTERVAL_SECONDS)


def _announces_changes(client: Client) -> bool:
    """Whether it says that it tells of changes. Where it was not asked, because its protocol is known, it may."""
    can = client.server_capabilities
    return can == types.ServerCapabilities() or any(each.list_changed for each in (can.tools, can.prompts) if each)


_LOG_LEVELS = {
    "debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO, "warning": logging.WARNING,
    "error": logging.ERROR, "critical": logging.ERROR, "alert": logging.ERROR, "emergency": logging.ERROR,
}  # fmt: skip
