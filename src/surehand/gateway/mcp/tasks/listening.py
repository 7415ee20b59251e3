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
from surehand.gateway.mcp.caller import user_of
from surehand.gateway.mcp.tasks.task import OVER
from surehand.gateway.mcp.tasks.watch import BEAT
from surehand.store.errors import StoreError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.subscriptions import ListenHandler
    from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult

    from surehand.gateway.mcp.caller import Caller
    from surehand.gateway.mcp.tasks.tasks import Tasks

log = logging.getLogger("surehand")
MOST_IDS = 100
"""Tasks that one stream tells of."""
MOST_OF_USER = 32
"""Streams of one user."""
EACH = 0.1
"""Seconds that a stream leaves for each of its tasks before it looks at all of them once more."""


class Listening:
    """Serves `subscriptions/listen`."""

    def __init__(self, lists: ListenHandler, tasks: Tasks) -> None:
        self._lists, self._tasks = lists, tasks
        self._quota: Quota[object] = Quota(QuotaLimits(per_user=MOST_OF_USER))

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """One stream, until the client leaves or the server does."""
        user, key = user_of(ctx), object()
        if not self._quota.has_room(user):
            raise MCPError(INTERNAL_ERROR, f"Too many streams: {MOST_OF_USER} of this user are open. Close one first.")
        self._quota.acquire(key, user)
        try:
            return await self._listen(ctx, params)
        finally:
            self._quota.release(key)

    async def _listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        wanted = (params.notifications.model_extra or {}).get("taskIds")
        if wanted is None:
            return await self._lists(ctx, params)
        caller, ids = self._tasks.caller(ctx), _ids(wanted)
        known = [each for each in ids if await self._tasks.find(caller, each) is not None]
        session = _Session(ctx.session, known)
        stream = _Stream(ctx, self._tasks, caller)
        telling = asyncio.get_running_loop().create_task(stream.tell(known, session.acknowledged), name="mcp: tasks")
        try:
            return await self._lists(replace(ctx, session=session), params)  # type: ignore[arg-type]  # all it needs
        finally:
            telling.cancel()
            telling.add_done_callback(_parted)

    def close(self) -> None:
        """End every stream."""
        self._lists.close()


def _parted(telling: asyncio.Task[None]) -> None:
    if not telling.cancelled() and (error := telling.exception()) is not None:
        log.debug("A client could not be told of its tasks: %r", error)


def _ids(wanted: Any) -> Sequence[str]:
    if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
        raise MCPError(INVALID_PARAMS, "taskIds must be a list of the ids of tasks.")
    if len(wanted) > MOST_IDS:
        raise MCPError(INVALID_PARAMS, f"One stream tells of {MOST_IDS} tasks at most.")
    return list(dict.fromkeys(wanted))


class _Session:
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


class _Told(BaseModel):
    method: str
    params: dict[str, Any]


class _Stream:
    """What one client is told of its tasks. One that is slow hears how they stand when it does, and not all between."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], tasks: Tasks, caller: Caller) -> None:
        self._ctx, self._tasks, self._caller = ctx, tasks, caller
        self._last: dict[str, Any] = {}

    async def tell(self, task_ids: Sequence[str], acknowledged: asyncio.Event) -> None:
        """Tell of every change, until all have ended; and first of what is no longer as it began."""
        self._last = dict.fromkeys(task_ids, ("working", ()))
        with self._tasks.watch.on(*task_ids) as signal:
            await acknowledged.wait()
            news: Sequence[str] = task_ids
            while self._last:
                try:
                    for each in news or list(self._last):
                        await self._look(each)
                except StoreError as error:
                    log.warning("How tasks stand cannot be told now: %s", error)
                news = await signal.news(max(BEAT, len(self._last) * EACH))

    async def _look(self, task_id: str) -> None:
        if task_id not in self._last:
            return
        task = await self._tasks.find(self._caller, task_id)
        now = None if task is None else (task["status"], tuple(task.get("inputRequests", ())))
        if task is None or now is None:
            del self._last[task_id]
        elif now != self._last[task_id]:
            self._last[task_id] = now
            meta = {SUBSCRIPTION_ID_META_KEY: self._ctx.request_id}
            told: Any = _Told(method="notifications/tasks", params={**task, "_meta": meta})
            await self._ctx.session.send_notification(told, related_request_id=self._ctx.request_id)
            if task["status"] in OVER:
                del self._last[task_id]
