"""Queues: named limits on how many calls run at once and how often calls start.

`Queue` is the public definition, `LocalQueue` the limit within one process; `shared_queue` has the one over several.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from contextvars import Token
from dataclasses import dataclass
from math import inf
from typing import Protocol

from surehand.core.clock import Clock, Timer
from surehand.core.durations import parse_rate
from surehand.core.errors import DefinitionError
from surehand.runtime.limits.admission import DEFAULT_MAX_WAITING, QueueAdmission, QueueRefusal
from surehand.runtime.limits.deadlocks import CURRENT_HOLD, Hold, current_holds
from surehand.runtime.limits.waiting_calls import PositionCallback, SlotFuture, WaitingCalls
from surehand.store.errors import StoreError


@dataclass(frozen=True, slots=True)
class Queue:
    """A limit on calls: `concurrent` at once, and at most `rate` ("30/min") starts.

    It holds within the runtime or, with `shared=True`, over all processes on the runtime's store together. Of the calls
    that it lets not run at once, `waiting` may wait in each process; further ones fail at once as `rate_limited`.
    """

    concurrent: int | None = None
    rate: str | None = None
    shared: bool = False
    waiting: int = DEFAULT_MAX_WAITING

    def __post_init__(self) -> None:
        if type(self.waiting) is not int or self.waiting < 0:
            raise DefinitionError(
                f"Queue(waiting=...) must be a whole number from 0 on, got {self.waiting!r}.",
                fix="give the number of calls that may wait; with 0, none does.",
            )
        if self.concurrent is not None and self.concurrent < 1:
            raise DefinitionError(
                f"Queue(concurrent=...) must be a positive integer, got {self.concurrent}.",
                fix="allow at least one call.",
            )
        if self.rate is not None:
            try:
                parse_rate(self.rate)
            except ValueError as error:
                raise DefinitionError(str(error)) from None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A snapshot of a queue."""

    capacity: int | None
    in_use: int
    waiting: int


class ActiveQueue(Protocol):
    """What the stage `queue` needs of a queue."""

    name: str
    capacity: int | None
    admission: QueueAdmission
    nesting_slots: set[QueueSlot]
    """The slots of running calls that may make nested calls."""

    @property
    def status(self) -> QueueStatus: ...
    @property
    def has_rate(self) -> bool: ...
    def try_acquire(self) -> bool: ...
    def refusal(self, *, priority: int, seconds_left: float | None) -> QueueRefusal | None: ...
    def busy_holds(self) -> Collection[Hold] | None: ...
    def enqueue(self, on_position: PositionCallback | None = None, *, priority: int = 0) -> SlotFuture: ...
    def abandon(self, slot_future: SlotFuture) -> None: ...
    async def wait_for_rate(self) -> StoreError | None: ...
    def release(self) -> None: ...
    def close(self) -> None: ...


class QueueSlot(Hold):
    """A slot that a call holds. Its nested calls in the same queue run in this slot, one at a time."""

    __slots__ = ("_nested_turn", "active_queue")

    def __init__(self, active_queue: ActiveQueue, outer_hold: Hold | None) -> None:
        super().__init__(outer_hold)
        self.active_queue = active_queue
        self._nested_turn: NestedTurn | None = None

    @property
    def nested_turn(self) -> NestedTurn:
        """The turn of nested calls, created on first use because few calls need it."""
        if self._nested_turn is None:
            self._nested_turn = NestedTurn()
        return self._nested_turn


class NestedTurn:
    """Lets one nested call at a time run in a slot."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.hold: Hold | None = None
        """The slot of the nested call that runs now."""

    def busy_holds(self) -> Collection[Hold] | None:
        """The nested call that runs now."""
        return None if self.hold is None else (self.hold,)


def find_held_slot(active_queue: ActiveQueue) -> QueueSlot | None:
    """The slot of this queue that the current call or an outer one holds."""
    held = (hold for hold in current_holds() if isinstance(hold, QueueSlot) and hold.active_queue is active_queue)
    return next(held, None)


class LocalQueue:
    """The queue within one process: by priority, then first come, first served."""

    def __init__(self, name: str, queue: Queue, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self.capacity = queue.concurrent
        self._max_in_use = queue.concurrent or inf
        self._max_starts, self._period_seconds = parse_rate(queue.rate) if queue.rate else (0, 0.0)
        self._start_times: deque[float] = deque(maxlen=self._max_starts or 1)
        self._in_use = 0
        self._waiters = WaitingCalls()
        self._nested_waiters = WaitingCalls()
        """Nested calls that have an outer slot and wait only for the rate. They go first: others wait for that slot."""
        self._timer: Timer | None = None
        self.admission = QueueAdmission(queue.waiting, queue.concurrent)
        self.nesting_slots: set[QueueSlot] = set()

    @property
    def status(self) -> QueueStatus:
        """Capacity, slots in use and waiting calls."""
        return QueueStatus(self.capacity, self._in_use, self.waiting_count)

    def try_acquire(self) -> bool:
        """Take a slot without waiting, if one is free and no other call waits."""
        if self._waiters or self._nested_waiters or self._in_use >= self._max_in_use:
            return False
        if self._max_starts:
            if self._seconds_until_start() > 0:
                return False
            self._start_times.append(self._clock.now())
        self._in_use += 1
        return True

    def refusal(self, *, priority: int, seconds_left: float | None) -> QueueRefusal | None:
        """Why a call that finds no slot may not wait for one; None if it may."""
        now = self._clock.now()
        ahead = self.waiting_count
        if priority > 0 and ahead < self.admission.max_waiting:
            ahead = self._waiters.position(priority=priority, now=now) - 1
        return self.admission.refusal(ahead=ahead, now=now, seconds_left=seconds_left)

    def busy_holds(self) -> Collection[Hold] | None:
        """The slots, if all of them are held by calls that may wait for other queues."""
        is_busy = self._in_use >= self._max_in_use and len(self.nesting_slots) >= self._in_use
        return self.nesting_slots if is_busy else None

    def enqueue(
        self, on_position: PositionCallback | None = None, *, priority: int = 0, needs_slot: bool = True
    ) -> SlotFuture:
        """Join the queue, behind calls of the same or a higher priority; the future is done when the call may start."""
        now = self._clock.now()
        waiters = self._waiters if needs_slot else self._nested_waiters
        if on_position is not None:
            on_position(waiters.position(priority=priority, now=now) + len(self._nested_waiters))
        slot_future: SlotFuture = asyncio.get_running_loop().create_future()
        self.admission.begin_busy_period(now)
        waiters.add(slot_future, priority=priority, now=now)
        self._grant_slots()
        return slot_future

    def abandon(self, slot_future: SlotFuture) -> None:
        """Leave the queue after a cancellation; returns a slot that was granted at the same moment."""
        if not self._waiters.remove(slot_future) and not slot_future.cancelled():
            self._in_use -= 1  # the slot was granted at the moment of the cancellation
        self._grant_slots()
        self._end_busy_period()

    async def wait_for_rate(self) -> StoreError | None:
        """Wait only until the rate allows a start; the caller already has an outer call's slot."""
        slot_future = self.enqueue(needs_slot=False)
        try:
            return await slot_future
        finally:
            self._nested_waiters.remove(slot_future)

    def release(self) -> None:
        """Return the slot; the next waiting call gets it."""
        self._in_use -= 1
        if self._waiters or self._nested_waiters:
            self._grant_slots()

    @property
    def waiting_count(self) -> int:
        """Number of waiting calls."""
        return len(self._waiters) + len(self._nested_waiters)

    @property
    def has_rate(self) -> bool:
        """Whether the queue limits how often calls start."""
        return self._max_starts > 0

    def _seconds_until_start(self) -> float:
        """Seconds until another call may start."""
        if not self._max_starts or len(self._start_times) < self._max_starts:
            return 0.0
        return self._start_times[0] + self._period_seconds - self._clock.now()

    def _grant_slots(self) -> None:
        """Start waiting calls while there are free slots and the rate allows it."""
        while self._nested_waiters or (self._waiters and self._in_use < self._max_in_use):
            if self._max_starts and (pause := self._seconds_until_start()) > 0:
                self._start_timer(pause)
                return
            waiters = self._nested_waiters or self._waiters
            slot_future = waiters.take_first()
            if slot_future is None:
                continue
            if waiters is self._waiters:
                self._in_use += 1
            if self._max_starts:
                self._start_times.append(self._clock.now())
            self.admission.count_served(self._clock.now())
            slot_future.set_result(None)
        self._end_busy_period()

    def _end_busy_period(self) -> None:
        if not self._waiters and not self._nested_waiters:
            self.admission.end_busy_period(self._clock.now())

    def _start_timer(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._grant_slots()

    def close(self) -> None:
        """Stop the timer: no further call is started."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def enter_slot(active_queue: ActiveQueue, turn: NestedTurn | None = None) -> tuple[QueueSlot, Token[Hold | None]]:
    """Set the slot for nested calls in the current context, until `leave_slot`.

    Args:
        turn: the turn of a nested call, which runs in the slot of its outer call.
    """
    slot = QueueSlot(active_queue, CURRENT_HOLD.get())
    if turn is None:
        active_queue.nesting_slots.add(slot)
    else:
        turn.hold = slot
    return slot, CURRENT_HOLD.set(slot)


def leave_slot(slot: QueueSlot, token: Token[Hold | None], turn: NestedTurn | None = None) -> None:
    """Mark a slot as released, and restore the outer one."""
    slot.is_released = True
    slot.active_queue.nesting_slots.discard(slot)
    if turn is not None:
        turn.hold = None
    CURRENT_HOLD.reset(token)
