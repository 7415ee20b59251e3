"""Promises: how long a task is remembered where there is no store. What was promised is kept, whatever follows."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_json

from surehand.core.quotas import Quota, QuotaLimits

if TYPE_CHECKING:
    from surehand.core.clock import Deadline
    from surehand.gateway.mcp.tasks.runs import Runs
    from surehand.runtime.ledger import Weigh
    from surehand.runtime.runtime import Runtime

LONGEST, SHORTEST = 600.0, 5.0
"""Seconds: once half of the room is taken, the next tasks are forgotten the sooner; but none before that."""
BEGINNING = 10.0
"""Seconds that a call may take to be written down: what is promised counts from then on."""
MOST, MOST_OF_USER = 10_000, 2_000
"""Tasks that are remembered, in all and of one user."""
BYTES = 64 << 20
"""Bytes of what the tasks of one user were called with, and of what came of them."""


class _Promise(NamedTuple):
    user: str | None
    made: float
    seconds: float
    weigh: Weigh
    timer: Deadline

    @property
    def until(self) -> float:
        return self.made + self.seconds + BEGINNING


class Promises:
    """Until when tasks are remembered; those whose time is up are forgotten, and make room."""

    def __init__(self, runtime: Runtime, runs: Runs) -> None:
        self._runtime, self._runs = runtime, runs
        self._quota: Quota[str] = Quota(QuotaLimits(MOST_OF_USER, MOST, BYTES))
        self._made: dict[str, _Promise] = {}

    def have_room(self, user: str | None) -> bool:
        """Whether one more task can be remembered; always, where there is a store."""
        if self._runtime.parts.durable or self._has_room(user):
            return True
        self._tidy()
        return self._has_room(user)

    def _has_room(self, user: str | None) -> bool:
        return len(self._made) < MOST and self._quota.has_room(user, 1)

    def make(self, task_id: str, user: str | None, arguments: Any = None) -> None:
        """Remember a task from now on; as long as there is room for."""
        parts = self._runtime.parts
        if parts.durable or task_id in self._made or not self.have_room(user):
            return
        seconds, size = self._long(user), _size(arguments)
        weigh = parts.ledger.promised[task_id] = lambda result: self._weigh(task_id, user, size + result)
        timer = parts.deadlines.start(seconds + BEGINNING, lambda: self._end(task_id))
        self._made[task_id] = _Promise(user, parts.clock.time(), seconds, weigh, timer)
        self._quota.acquire(task_id, user, size)

    def _long(self, user: str | None) -> int:
        most = MOST if user is None else MOST_OF_USER
        used = max(self._quota.count(user) / most, len(self._made) / MOST)
        return ceil(max(LONGEST * min(1, 2 - 2 * used), SHORTEST))

    def _weigh(self, task_id: str, user: str | None, size: int) -> None:
        if task_id in self._quota:
            self._quota.release(task_id)
            self._quota.acquire(task_id, user, size)

    def seconds(self, task_id: str, created_at: float) -> float:
        """For how long after it began it is remembered at least: as long as was promised, or as it has been."""
        promise, now = self._made.get(task_id), self._runtime.parts.clock.time()
        made, seconds = (now, 0.0) if promise is None else (promise.made, promise.seconds)
        before = made - created_at
        return seconds + (before if before > BEGINNING else 0.0)

    async def drop(self, task_id: str) -> None:
        """Forget a task that nobody was told of, and so nobody asks for."""
        if (promise := self._taken(task_id)) is not None:
            promise.timer.cancel()
            await self._runtime.parts.ledger.forget(task_id, promise.weigh)

    def _taken(self, task_id: str) -> _Promise | None:
        self._quota.release(task_id)
        return self._made.pop(task_id, None)

    def _tidy(self) -> None:
        """No timer rings for what was promised before the runtime closed."""
        now = self._runtime.parts.clock.time()
        for task_id in [each for each, promise in self._made.items() if promise.until < now]:
            self._end(task_id)

    def _end(self, task_id: str) -> None:
        promise = self._taken(task_id)
        if promise is not None and self._runtime.parts.open:
            _ = self._runtime.parts.reaper.own(self._forget(task_id, promise))

    async def _forget(self, task_id: str, promise: _Promise) -> None:
        left = await self._runtime.parts.ledger.forget(task_id, promise.weigh)
        if left is not None and (left.state != "idle" or task_id in self._runs):
            self.make(task_id, promise.user)  # it goes on: what comes of it is to be forgotten, too


def _size(arguments: Any) -> int:
    try:
        return len(to_json(arguments)) if arguments else 0
    except ValueError:
        return 0
