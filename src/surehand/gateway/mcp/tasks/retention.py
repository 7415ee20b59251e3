"""How long tasks are retained in a runtime without a durable store.

A task gets a time to live when it is created, and is retained at least that long. With a durable store its own
retention of calls counts, and nothing here does anything.
"""

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

MAX_RETENTION_SECONDS = 600.0
"""The time to live of a task while less than half of the room is used. Beyond that it shrinks."""
MIN_RETENTION_SECONDS = 5.0
START_ALLOWANCE_SECONDS = 10.0
"""Seconds between the start of a call and its row in the ledger, from which the time to live counts."""
MAX_RETAINED_TASKS = 10_000
MAX_RETAINED_TASKS_PER_USER = 2_000
MAX_RETAINED_BYTES_PER_USER = 64 << 20
"""Bytes of the arguments and results of one user's tasks."""


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
    """The retained tasks, with a quota per user. Expired tasks are removed from the ledger."""

    def __init__(self, runtime: Runtime, running_tasks: RunningTasks) -> None:
        self._runtime = runtime
        self._running_tasks = running_tasks
        self._quota: Quota[str] = Quota(
            QuotaLimits(MAX_RETAINED_TASKS_PER_USER, MAX_RETAINED_TASKS, MAX_RETAINED_BYTES_PER_USER)
        )
        self._retained: dict[str, _RetainedTask] = {}

    def has_room(self, user: str | None) -> bool:
        """Whether one more task of this user can be retained. Always true with a durable store."""
        if self._runtime.is_durable or self._has_room_now(user):
            return True
        self._remove_expired()
        return self._has_room_now(user)

    def _has_room_now(self, user: str | None) -> bool:
        return len(self._retained) < MAX_RETAINED_TASKS and self._quota.has_room(user, 1)

    def retain(self, task_id: str, user: str | None, arguments: Any = None) -> None:
        """Retain a task from now on, if there is room and it is not retained yet."""
        if self._runtime.is_durable or task_id in self._retained or not self.has_room(user):
            return
        seconds = self._seconds_for_new_task(user)
        arguments_size = _encoded_size(arguments)

        def record_result_size(result_size: int) -> None:
            self._update_size(task_id, user, arguments_size + result_size)

        self._runtime.retain_call(task_id, record_result_size)
        timer = self._runtime.call_later(seconds + START_ALLOWANCE_SECONDS, lambda: self._expire(task_id))
        now = self._runtime.clock.time()
        self._retained[task_id] = _RetainedTask(user, now, seconds, record_result_size, timer)
        self._quota.acquire(task_id, user, arguments_size)

    def _seconds_for_new_task(self, user: str | None) -> int:
        limit = MAX_RETAINED_TASKS if user is None else MAX_RETAINED_TASKS_PER_USER
        used = max(self._quota.count(user) / limit, len(self._retained) / MAX_RETAINED_TASKS)
        return ceil(max(MAX_RETENTION_SECONDS * min(1, 2 - 2 * used), MIN_RETENTION_SECONDS))

    def _update_size(self, task_id: str, user: str | None, size: int) -> None:
        if task_id in self._quota:
            self._quota.release(task_id)
            self._quota.acquire(task_id, user, size)

    def seconds_retained(self, task_id: str, created_at: float) -> float:
        """Seconds from its creation for which a task is retained at least; if it is not retained, until now."""
        retained = self._retained.get(task_id)
        if retained is None:
            start = self._runtime.clock.time()
            seconds = 0.0
        else:
            start = retained.retained_at
            seconds = retained.seconds
        seconds_before = start - created_at
        return seconds + (seconds_before if seconds_before > START_ALLOWANCE_SECONDS else 0.0)

    async def discard(self, task_id: str) -> None:
        """Remove a task whose id was never sent to a client."""
        retained = self._remove(task_id)
        if retained is not None:
            retained.timer.cancel()
            await self._runtime.forget_retained_call(task_id, retained.record_result_size)

    def _remove(self, task_id: str) -> _RetainedTask | None:
        self._quota.release(task_id)
        return self._retained.pop(task_id, None)

    def _remove_expired(self) -> None:
        """Remove tasks that expired while the runtime was closed: their timers were cancelled."""
        now = self._runtime.clock.time()
        for task_id in [each for each, retained in self._retained.items() if retained.expires_at < now]:
            self._expire(task_id)

    def _expire(self, task_id: str) -> None:
        retained = self._remove(task_id)
        if retained is not None and self._runtime.is_open:
            _ = self._runtime.spawn(self._forget_in_ledger(task_id, retained))

    async def _forget_in_ledger(self, task_id: str, retained: _RetainedTask) -> None:
        state = await self._runtime.forget_retained_call(task_id, retained.record_result_size)
        if state is not None and (state != "idle" or task_id in self._running_tasks):
            self.retain(task_id, retained.user)  # it still runs: retain it again, so that its result expires as well


def _encoded_size(arguments: Any) -> int:
    try:
        return len(to_json(arguments)) if arguments else 0
    except ValueError:
        return 0
