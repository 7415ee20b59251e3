"""The handler of `subscriptions/listen`: the MCP SDK's handler, extended by notifications of tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, SubscriptionsAcknowledgedNotification
from pydantic import BaseModel

from surehand.core.quotas import Quota, QuotaLimits
from surehand.gateway.mcp.caller import request_user
from surehand.gateway.mcp.tasks.call_watcher import POLL_SECONDS
from surehand.gateway.mcp.tasks.wire_format import FINAL_STATUSES
from surehand.store.errors import StoreError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.subscriptions import ListenHandler
    from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult

    from surehand.gateway.mcp.caller import Caller
    from surehand.gateway.mcp.tasks.task_handlers import TaskHandlers

log = logging.getLogger("surehand")
MAX_TASKS_PER_STREAM = 100
MAX_STREAMS_PER_USER = 32
POLL_SECONDS_PER_TASK = 0.1
"""Seconds per task of a stream between two polls of all its tasks."""


class SubscriptionHandler:
    """Serves `subscriptions/listen`."""

    def __init__(self, listen_handler: ListenHandler, task_handlers: TaskHandlers) -> None:
        self._listen_handler = listen_handler
        self._task_handlers = task_handlers
        self._quota: Quota[object] = Quota(QuotaLimits(per_user=MAX_STREAMS_PER_USER))

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream until the client closes it or the server stops."""
        user = request_user(ctx)
        if not self._quota.has_room(user):
            message = f"Too many streams: {MAX_STREAMS_PER_USER} of this user are open. Close one first."
            raise MCPError(INTERNAL_ERROR, message)
        key = object()
        self._quota.acquire(key, user)
        try:
            return await self._serve_stream(ctx, params)
        finally:
            self._quota.release(key)

    async def _serve_stream(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        requested_ids = (params.notifications.model_extra or {}).get("taskIds")
        if requested_ids is None:
            return await self._listen_handler(ctx, params)
        caller = self._task_handlers.require_caller(ctx)
        task_ids = [
            each
            for each in _validate_task_ids(requested_ids)
            if await self._task_handlers.find_task(caller, each) is not None
        ]
        session: Any = _AcknowledgingSession(ctx.session, task_ids)
        stream = _TaskStream(ctx, self._task_handlers, caller)
        loop = asyncio.get_running_loop()
        stream_task = loop.create_task(stream.send_changes(task_ids, session.acknowledged), name="mcp: tasks")
        try:
            return await self._listen_handler(replace(ctx, session=session), params)
        finally:
            stream_task.cancel()
            stream_task.add_done_callback(_log_stream_error)

    def close(self) -> None:
        """End every stream."""
        self._listen_handler.close()


def _log_stream_error(stream_task: asyncio.Task[None]) -> None:
    error = None if stream_task.cancelled() else stream_task.exception()
    if error is not None:
        log.debug("A client could not be notified of its tasks: %r", error)


def _validate_task_ids(task_ids: Any) -> Sequence[str]:
    if not isinstance(task_ids, list) or not all(isinstance(each, str) for each in task_ids):
        raise MCPError(INVALID_PARAMS, "taskIds must be a list of the ids of tasks.")
    if len(task_ids) > MAX_TASKS_PER_STREAM:
        raise MCPError(INVALID_PARAMS, f"One stream tells of {MAX_TASKS_PER_STREAM} tasks at most.")
    return list(dict.fromkeys(task_ids))


class _AcknowledgingSession:
    """The one method of a session that the SDK's handler uses. It adds the task ids to the acknowledgement."""

    def __init__(self, session: Any, task_ids: Sequence[str]) -> None:
        self._session = session
        self._task_ids = task_ids
        self.acknowledged = asyncio.Event()

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        """Send a notification of the SDK's handler."""
        if isinstance(notification, SubscriptionsAcknowledgedNotification):
            accepted = notification.params.notifications.model_copy(update={"taskIds": list(self._task_ids)})
            params = notification.params.model_copy(update={"notifications": accepted})
            notification = notification.model_copy(update={"params": params})
        await self._session.send_notification(notification, related_request_id=related_request_id)
        self.acknowledged.set()


class _TaskNotification(BaseModel):
    method: str
    params: dict[str, Any]


class _TaskStream:
    """Sends the changes of tasks to one client. A slow client gets the latest state of each task, not every change."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], task_handlers: TaskHandlers, caller: Caller) -> None:
        self._ctx = ctx
        self._task_handlers = task_handlers
        self._caller = caller
        self._last_sent: dict[str, Any] = {}

    async def send_changes(self, task_ids: Sequence[str], acknowledged: asyncio.Event) -> None:
        """Send each change until all tasks have ended. Tasks that have changed since their start are sent first."""
        self._last_sent = dict.fromkeys(task_ids, ("working", ()))
        with self._task_handlers.call_watcher.watch(*task_ids) as signal:
            await acknowledged.wait()
            changed_ids: Sequence[str] = task_ids
            while self._last_sent:
                try:
                    for task_id in changed_ids or list(self._last_sent):
                        await self._send_if_changed(task_id)
                except StoreError as error:
                    log.warning("The status of tasks could not be loaded; retrying: %s", error)
                timeout_seconds = max(POLL_SECONDS, len(self._last_sent) * POLL_SECONDS_PER_TASK)
                changed_ids = await signal.wait(timeout_seconds)

    async def _send_if_changed(self, task_id: str) -> None:
        if task_id not in self._last_sent:
            return
        task = await self._task_handlers.find_task(self._caller, task_id)
        if task is None:
            del self._last_sent[task_id]
            return
        state = (task["status"], tuple(task.get("inputRequests", ())))
        if state != self._last_sent[task_id]:
            self._last_sent[task_id] = state
            meta = {SUBSCRIPTION_ID_META_KEY: self._ctx.request_id}
            notification: Any = _TaskNotification(method="notifications/tasks", params={**task, "_meta": meta})
            await self._ctx.session.send_notification(notification, related_request_id=self._ctx.request_id)
            if task["status"] in FINAL_STATUSES:
                del self._last_sent[task_id]
