"""Waiting calls: the calls that wait for a slot of one queue, ordered by priority and time of arrival."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TypeAlias

from surehand.store.errors import StoreError

SlotFuture: TypeAlias = asyncio.Future[StoreError | None]
"""Done when the call may start; its result is the error if a shared queue is unavailable."""
PositionCallback: TypeAlias = Callable[[int], None]
"""Called with the position in the queue, if the call has to wait."""


class WaitingCalls(dict[SlotFuture, PositionCallback | None]):
    """Calls by priority. A waiting call gains one a second, so that none waits for ever behind more urgent ones.

    All of them gain at the same pace, so their order never changes: it is that of arrival time minus priority.
    It is a dictionary, because every call with a queue asks several times whether any call waits.
    """

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[float, int, SlotFuture]] = []
        """The calls in their order, and some that gave up."""
        self._arrival_count = 0
        self._has_priorities = False
        """Whether any call had a priority other than 0; else a new call is always the last."""

    def add(
        self, slot_future: SlotFuture, *, priority: int, now: float, on_position: PositionCallback | None = None
    ) -> None:
        """Add a call that arrives now; `on_position` is kept for `take_first_callback`."""
        self._has_priorities = self._has_priorities or priority != 0
        self._arrival_count += 1  # of two calls with the same key, the first to come is served first
        heappush(self._heap, (now - priority, self._arrival_count, slot_future))
        self[slot_future] = on_position

    def position(self, *, priority: int, now: float) -> int:
        """The position that a call arriving now would have, from 1."""
        if not self._has_priorities and priority <= 0:
            return len(self) + 1
        key = now - priority
        ahead = sum(each <= key for each, _, slot_future in self._heap if slot_future in self)
        return ahead + 1

    def remove(self, slot_future: SlotFuture) -> bool:
        """Remove a call that gave up; returns whether it still waited."""
        if slot_future not in self:
            return False
        del self[slot_future]
        return True

    def take_first(self) -> SlotFuture | None:
        """Remove and return the next call, skipping those that were cancelled."""
        while self._heap:
            _, _, slot_future = heappop(self._heap)
            if slot_future in self:
                del self[slot_future]
                if not slot_future.done():
                    return slot_future
        return None

    def take_first_callback(self) -> PositionCallback | None:
        """The position callback of the next call, which is then forgotten."""
        while self._heap and self._heap[0][2] not in self:
            heappop(self._heap)
        if not self._heap:
            return None
        slot_future = self._heap[0][2]
        callback = self[slot_future]
        self[slot_future] = None
        return callback
