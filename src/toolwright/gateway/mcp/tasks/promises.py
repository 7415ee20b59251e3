"""Promises: how long a task is remembered where there is no store. What was promised is kept, whatever follows."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_json

from toolwright.core.shares import Most, Shares

if TYPE_CHECKING:
    from toolwright.runtime.runtime import Runtime

LONGEST, SHORTEST = 600.0, 5.0
"""Seconds: once half of the room is taken, the next tasks are forgotten the sooner; but none before that."""
BEGINNING = 10.0
"""Seconds that a call may take to be written down: what is promised counts from then on."""
MOST, MOST_OF_USER = 10_000, 2_000
"""Tasks that are remembered, in all and of one user."""
BYTES = 64 << 20
"""Bytes of what the tasks of one user were called with."""


class _Promise(NamedTuple):
    made: float
    seconds: float


class Promises:
    """Until when tasks are remembered; those whose time is up make room."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._shares: Shares[str] = Shares(Most(MOST_OF_USER, MOST, BYTES))
        self._made: dict[str, _Promise] = {}
        self._ends: list[tuple[float, str]] = []

    def have_room(self, user: str | None) -> bool:
        """Whether one more task can be remembered; always, where there is a store."""
        self._tidy()
        return self._runtime.parts.durable or (len(self._made) < MOST and self._shares.have_room(user, 1))

    def make(self, task_id: str, user: str | None, arguments: Any = None) -> None:
        """Remember a task from now on; as long as there is room for."""
        if self._runtime.parts.durable or task_id in self._made or not self.have_room(user):
            return
        most = MOST if user is None else MOST_OF_USER
        used = max(self._shares.number_of(user) / most, len(self._made) / MOST)
        seconds, now = max(LONGEST * min(1, 2 - 2 * used), SHORTEST), self._runtime.parts.clock.time()
        self._made[task_id] = _Promise(now, seconds)
        until = now + seconds + BEGINNING
        self._shares.take(task_id, user, _size(arguments))
        heappush(self._ends, (until, task_id))
        self._runtime.parts.ledger.promised[task_id] = until

    def seconds(self, task_id: str, created_at: float) -> float:
        """For how long after it began it is remembered at least: as long as was promised, or as it has been."""
        made, seconds = self._made.get(task_id) or _Promise(self._runtime.parts.clock.time(), 0.0)
        before = made - created_at
        return seconds + (before if before > BEGINNING else 0.0)

    def _tidy(self) -> None:
        now = self._runtime.parts.clock.time()
        while self._ends and self._ends[0][0] < now:
            _, task_id = heappop(self._ends)
            self._shares.give_back(task_id)
            self._made.pop(task_id, None)


def _size(arguments: Any) -> int:
    try:
        return len(to_json(arguments)) if arguments else 0
    except ValueError:
        return 0
