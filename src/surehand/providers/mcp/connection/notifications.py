"""Notifications of a server: changes of its lists, which are fetched again, and log messages.

The session owns it. The modern protocol sends changes on a `subscriptions/listen` stream, the handshake protocol as
ordinary notifications.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import mcp_types as types

from surehand.core.sanitize import MAX_LOG_CHARS, escape_line
from surehand.providers.mcp.connection.backoff import BACKOFF_DELAYS_SECONDS
from surehand.providers.mcp.connection.connection_tasks import ConnectionTasks
from surehand.providers.mcp.connection_errors import failure_from_error

if TYPE_CHECKING:
    from mcp import Client

    from surehand.providers.mcp.connection_secrets import ServerLog

MIN_RELIST_INTERVAL_SECONDS = 1.0
"""Shortest time between two lists, however often the server notifies a change."""
MAX_LOG_DATA_LENGTH = 2_000
"""Characters of one log message of a server."""
_LIST_CHANGED_NOTIFICATIONS = (types.ToolListChangedNotification, types.PromptListChangedNotification)


class ServerNotifications:
    """Fetches the lists once for any number of notifications."""

    def __init__(
        self, log: ServerLog, background_tasks: ConnectionTasks, relist: Callable[[], Awaitable[object]]
    ) -> None:
        self._log = log
        self._background_tasks = background_tasks
        self._relist = relist
        self._is_stale = False
        self._is_listening = False

    def start_listening(self, client: Client) -> None:
        """React to changes from now on. In the modern protocol, subscribe to them."""
        self._is_listening = True
        if self._is_stale:
            self.on_list_changed()
        if client.protocol_version >= "2026" and _announces_changes(client):
            self._background_tasks.start("listen", self._listen(client))

    async def on_message(self, message: Any) -> None:
        """Handle a notification of the handshake protocol, or an unreadable message."""
        if isinstance(message, _LIST_CHANGED_NOTIFICATIONS):
            self.on_list_changed()
        elif isinstance(message, Exception):
            self._log.debug("Ignored an unreadable message: %.200s", message)

    async def on_log_message(self, params: types.LoggingMessageNotificationParams) -> None:
        """Write a log message of the server to our log."""
        level = _LOG_LEVELS.get(params.level, logging.INFO)
        text = str(params.data)[:MAX_LOG_DATA_LENGTH].rstrip()
        self._log.log(level, "%s", escape_line(text, MAX_LOG_CHARS))

    async def _listen(self, client: Client) -> None:
        """Keep a subscription open. After a break the lists are fetched again: changes may have been missed."""
        failed_attempts = 0
        while True:
            try:
                async with client.listen(tools_list_changed=True, prompts_list_changed=True) as changes:
                    if failed_attempts:
                        self.on_list_changed()
                    failed_attempts = 0
                    async for _ in changes:
                        self.on_list_changed()
            except Exception as error:  # noqa: BLE001 - a failure costs only notifications
                failure = failure_from_error(error)
                self._log.debug("The subscription to changes failed: %s", failure.message)
                if failure.is_server_answer:  # the server refuses it
                    return
            failed_attempts += 1
            await asyncio.sleep(BACKOFF_DELAYS_SECONDS[min(failed_attempts, len(BACKOFF_DELAYS_SECONDS) - 1)])

    def on_list_changed(self) -> None:
        """Fetch the lists again soon."""
        self._is_stale = True
        if self._is_listening:
            self._background_tasks.start("relist", self._relist_until_fresh())

    async def _relist_until_fresh(self) -> None:
        while self._is_stale:
            self._is_stale = False
            try:
                await self._relist()
            except Exception as error:  # noqa: BLE001 - the earlier list stays valid
                self._log.warning("Its tools could not be listed again: %s", failure_from_error(error).message)
            await asyncio.sleep(MIN_RELIST_INTERVAL_SECONDS)


def _announces_changes(client: Client) -> bool:
    """Whether the server declares `listChanged`; also True if it was not asked for its capabilities."""
    declared = client.server_capabilities
    if declared == types.ServerCapabilities():
        return True
    return any(capability.list_changed for capability in (declared.tools, declared.prompts) if capability)


_LOG_LEVELS = {
    "debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO, "warning": logging.WARNING,
    "error": logging.ERROR, "critical": logging.ERROR, "alert": logging.ERROR, "emergency": logging.ERROR,
}  # fmt: skip
