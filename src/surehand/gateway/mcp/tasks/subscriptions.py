"""Listening: `subscriptions/listen`, with the tasks that a client wants to hear of beside what the library knows."""

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
"""Tasks that one stream tells of."""
MAX_STREAMS_PER_USER = 32
"""Streams of one user."""
POLL_SECONDS_PER_TASK = 0.1
"""Seconds that a stream leaves for each of its tasks before it looks at all of them once more."""


class SubscriptionHandler:
    """Serves `subscriptions/listen`."""

    def __init__(self, listen_handler: ListenHandler, task_handlers: TaskHandlers) -> None:
        self._listen_handler, self._task_handlers = listen_handler, task_handlers
        self._quota: Quota[object] = Quota(QuotaLimits(per_user=MAX_STREAMS_PER_USER))

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """One stream, until the client leaves or the server does."""
        user, key = request_user(ctx), object()
        if not self._quota.has_room(user):
            raise MCPError(
                INTERNAL_ERROR, f"Too many streams: {MAX_STREAMS_PER_USER} of this user are open. Close one first."
            )
        self._quota.acquire(key, user)
        try:
            return await self._serve_stream(ctx, params)
        finally:
            self._quota.release(key)

    async def _serve_stream(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        wanted = (params.notifications.model_extra or {}).get("taskIds")
        if wanted is None:
            return await self._listen_handler(ctx, params)
        caller, ids = self._task_handlers.require_caller(ctx), _validate_task_ids(wanted)
        known = [each for each in ids if await self._task_handlers.find_task(caller, each) is not None]
        session = _AcknowledgingSession(ctx.session, known)
        stream = _TaskStream(ctx, self._task_handlers, caller)
        telling = asyncio.get_running_loop().create_task(
            stream.send_changes(known, session.acknowledged), name="mcp: tasks"
        )
        try:
            return await self._listen_handler(replace(ctx, session=session), params)  # type: ignore[arg-type]  # all it needs
        finally:
            telling.cancel()
            telling.add_done_callback(_log_stream_error)

    def close(self) -> None:
        """End every stream."""
        self._listen_handler.close()


def _log_stream_error(stream_task: asyncio.Task[None]) -> None:
    if not stream_task.cancelled() and (error := stream_task.exception()) is not None:
        log.debug("A client could not be told of its tasks: %r", error)


def _validate_task_ids(task_ids: Any) -> Sequence[str]:
    if not isinstance(task_ids, list) or not all(isinstance(each, str) for each in task_ids):
        raise MCPError(INVALID_PARAMS, "taskIds must be a list of the ids of tasks.")
    if len(task_ids) > MAX_TASKS_PER_STREAM:
        raise MCPError(INVALID_PARAMS, f"One stream tells of {MAX_TASKS_PER_STREAM} tasks at most.")
    return list(dict.fromkeys(task_ids))


class _AcknowledgingSession:
    """The client's session, as far as the library's handler uses it: it agrees to what that one does not know."""

    def __init__(self, session: Any, task_ids: Sequence[str]) -> None:
        self._session, self._task_ids = session, task_ids
        self.acknowledged = asyncio.Event()

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        """Hand it on."""
        if isinstance(notification, SubscriptionsAcknowledgedNotification):
            agreed = notification.params.notifications.model_copy(update={"taskIds": list(self._task_ids)})
            params = notification.params.model_copy(update={"notifications": agreed})
            notification = notification.model_copy(update={"params": params})
        await self._session.send_notification(notification, related_request_id=related_request_id)
        self.acknowledged.set()


class _TaskNotification(BaseModel):
    method: str
    params: dict[str, Any]


class _TaskStream:
    """What one client is told of its tasks. One that is slow hears how they stand when it does, and not all between."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], task_handlers: TaskHandlers, caller: Caller) -> None:
        self._ctx, self._task_handlers, self._caller = ctx, task_handlers, caller
        self._last_sent: dict[str, Any] = {}

    async def send_changes(self, task_ids: Sequence[str], acknowledged: asyncio.Event) -> None:
        """Tell of every change, until all have ended; and first of what is no longer as it began."""
        self._last_sent = dict.fromkeys(task_ids, ("working", ()))
        with self._task_handlers.call_watcher.watch(*task_ids) as signal:
            await acknowledged.wait()
            news: Sequence[str] = task_ids
            while self._last_sent:
                try:
                    for each in news or list(self._last_sent):
                        await self._send_if_changed(each)
                except StoreError as error:
                    log.warning("How tasks stand cannot be told now: %s", error)
                news = await signal.wait(max(POLL_SECONDS, len(self._last_sent) * POLL_SECONDS_PER_TASK))

    async def _send_if_changed(self, task_id: str) -> None:
        if task_id not in self._last_sent:
            return
        task = await self._task_handlers.find_task(self._caller, task_id)
        now = None if task is None else (task["status"], tuple(task.get("inputRequests", ())))
        if task is None or now is None:
            del self._last_sent[task_id]
        elif now != self._last_sent[task_id]:
            self._last_sent[task_id] = now
            meta = {SUBSCRIPTION_ID_META_KEY: self._ctx.request_id}
            told: Any = _TaskNotification(method="notifications/tasks", params={**task, "_meta": meta})
            await self._ctx.session.send_notification(told, related_request_id=self._ctx.request_id)
            if task["status"] in FINAL_STATUSES:
                del self._last_sent[task_id]
