"""Promises: how long a task is remembered where there is no store. What was promised is kept, whatever follows."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_json

from surehand.core.quotas import Quota, QuotaLimits

if TYPE_CHECKING:
    from surehand.core.clock import Deadline
    from surehand.gateway.mcp.tasks.running_tasks import RunningTasks
    from surehand.runtime.durability.ledger import SizeCallback
    from surehand.runtime.runtime import Runtime

MAX_RETENTION_SECONDS, MIN_RETENTION_SECONDS = 600.0, 5.0
"""Seconds: once half of the room is taken, the next tasks are forgotten the sooner; but none before that."""
START_ALLOWANCE_SECONDS = 10.0
"""Seconds that a call may take to be written down: what is promised counts from then on."""
MAX_RETAINED_TASKS, MAX_RETAINED_TASKS_PER_USER = 10_000, 2_000
"""Tasks that are remembered, in all and of one user."""
MAX_RETAINED_BYTES_PER_USER = 64 << 20
"""Bytes of what the tasks of one user were called with, and of what came of them."""


class _RetainedTask(NamedTuple):
    user: str | None
    retained_at: float
    seconds: float
    record_result_size: SizeCallback
    timer: Deadline

    @property
    def expires_at(self) -> float:
        return self.retained_at + self.seconds + START_ALLOWANCE_SECONDS


class TaskRetention:
    """Until when tasks are remembered; those whose time is up are forgotten, and make room."""

    def __init__(self, runtime: Runtime, running_tasks: RunningTasks) -> None:
        self._runtime, self._running_tasks = runtime, running_tasks
        self._quota: Quota[str] = Quota(
            QuotaLimits(MAX_RETAINED_TASKS_PER_USER, MAX_RETAINED_TASKS, MAX_RETAINED_BYTES_PER_USER)
        )
        self._retained: dict[str, _RetainedTask] = {}

    def has_room(self, user: str | None) -> bool:
        """Whether one more task can be remembered; always, where there is a store."""
        if self._runtime.services.is_durable or self._has_room_now(user):
            return True
        self._remove_expired()
        return self._has_room_now(user)

    def _has_room_now(self, user: str | None) -> bool:
        return len(self._retained) < MAX_RETAINED_TASKS and self._quota.has_room(user, 1)

    def retain(self, task_id: str, user: str | None, arguments: Any = None) -> None:
        """Remember a task from now on; as long as there is room for."""
        parts = self._runtime.services
        if parts.is_durable or task_id in self._retained or not self.has_room(user):
            return
        seconds, size = self._seconds_for_new_task(user), _encoded_size(arguments)
        weigh = parts.ledger.retained_calls[task_id] = lambda result: self._update_size(task_id, user, size + result)
        timer = parts.deadlines.start(seconds + START_ALLOWANCE_SECONDS, lambda: self._expire(task_id))
        self._retained[task_id] = _RetainedTask(user, parts.clock.time(), seconds, weigh, timer)
        self._quota.acquire(task_id, user, size)

    def _seconds_for_new_task(self, user: str | None) -> int:
        most = MAX_RETAINED_TASKS if user is None else MAX_RETAINED_TASKS_PER_USER
        used = max(self._quota.count(user) / most, len(self._retained) / MAX_RETAINED_TASKS)
        return ceil(max(MAX_RETENTION_SECONDS * min(1, 2 - 2 * used), MIN_RETENTION_SECONDS))

    def _update_size(self, task_id: str, user: str | None, size: int) -> None:
        if task_id in self._quota:
            self._quota.release(task_id)
            self._quota.acquire(task_id, user, size)

    def seconds_retained(self, task_id: str, created_at: float) -> float:
        """For how long after it began it is remembered at least: as long as was promised, or as it has been."""
        promise, now = self._retained.get(task_id), self._runtime.services.clock.time()
        made, seconds = (now, 0.0) if promise is None else (promise.retained_at, promise.seconds)
        before = made - created_at
        return seconds + (before if before > START_ALLOWANCE_SECONDS else 0.0)

    async def discard(self, task_id: str) -> None:
        """Forget a task that nobody was told of, and so nobody asks for."""
        if (promise := self._remove(task_id)) is not None:
            promise.timer.cancel()
            await self._runtime.services.ledger.forget_retained(task_id, promise.record_result_size)

    def _remove(self, task_id: str) -> _RetainedTask | None:
        self._quota.release(task_id)
        return self._retained.pop(task_id, None)

    def _remove_expired(self) -> None:
        """No timer rings for what was promised before the runtime closed."""
        now = self._runtime.services.clock.time()
        for task_id in [each for each, promise in self._retained.items() if promise.expires_at < now]:
            self._expire(task_id)

    def _expire(self, task_id: str) -> None:
        promise = self._remove(task_id)
        if promise is not None and self._runtime.services.is_open:
            _ = self._runtime.services.reaper.spawn(self._forget_in_ledger(task_id, promise))

    async def _forget_in_ledger(self, task_id: str, retained: _RetainedTask) -> None:
        left = await self._runtime.services.ledger.forget_retained(task_id, retained.record_result_size)
        if left is not None and (left.state != "idle" or task_id in self._running_tasks):
            self.retain(task_id, retained.user)  # it goes on: what comes of it is to be forgotten, too


def _encoded_size(arguments: Any) -> int:
    try:
        return len(to_json(arguments)) if arguments else 0
    except ValueError:
        return 0
