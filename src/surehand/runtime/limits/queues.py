"""Queues: named limits on how many calls run at once and how often they start."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from math import inf
from typing import Protocol, TypeAlias

from surehand.core.clock import Clock, Timer
from surehand.core.durations import parse_rate
from surehand.core.errors import DefinitionError
from surehand.store.errors import StoreError


@dataclass(frozen=True, slots=True)
class Queue:
    """A limit on calls: `concurrent` at once, and at most `rate` ("30/min") starts.

    It holds within the runtime or, where it is `shared`, over all processes on the runtime's store together.
    """

    concurrent: int | None = None
    rate: str | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        if self.concurrent is not None and self.concurrent < 1:
            raise DefinitionError(f"A queue of {self.concurrent} lets nothing run.", fix="allow one call at least.")
        if self.rate is not None:
            try:
                parse_rate(self.rate)
            except ValueError as error:
                raise DefinitionError(str(error)) from None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue at one moment."""

    capacity: int | None
    in_use: int
    waiting: int


SlotFuture: TypeAlias = asyncio.Future[StoreError | None]
"""Done when it is one's turn, or when a shared queue cannot be reached: with the reason."""
PositionCallback: TypeAlias = Callable[[int], None]
"""Hears one's place in line, if one has to wait at all."""


class ActiveQueue(Protocol):
    """A queue at work, as the stage sees it."""

    name: str
    capacity: int | None

    @property
    def status(self) -> QueueStatus: ...
    @property
    def has_rate(self) -> bool: ...
    def try_acquire(self) -> bool: ...
    def enqueue(self, on_position: PositionCallback | None = None) -> SlotFuture: ...
    def abandon(self, slot_future: SlotFuture) -> None: ...
    async def wait_for_rate(self) -> StoreError | None: ...
    def release(self) -> None: ...
    def close(self) -> None: ...


class QueueSlot:
    """A place that a call holds. Its nested calls run in it, one at a time."""

    __slots__ = ("_nested_lock", "active_queue", "is_released", "outer_slot")

    def __init__(self, active_queue: ActiveQueue, outer_slot: QueueSlot | None) -> None:
        self.active_queue, self.outer_slot = active_queue, outer_slot
        """The slot that an ancestor holds, in this queue or another."""
        self.is_released = False
        """Whether its call has ended; a task that it left behind has no place here any more."""
        self._nested_lock: asyncio.Lock | None = None

    @property
    def nested_lock(self) -> asyncio.Lock:
        """Made when first needed: few calls have nested ones in the same queue."""
        if self._nested_lock is None:
            self._nested_lock = asyncio.Lock()
        return self._nested_lock


CURRENT_SLOT: ContextVar[QueueSlot | None] = ContextVar("surehand_held_slots", default=None)


def find_held_slot(active_queue: ActiveQueue) -> QueueSlot | None:
    """The slot of this very queue that the current call or an ancestor holds."""
    slot = CURRENT_SLOT.get()
    while slot is not None and (slot.active_queue is not active_queue or slot.is_released):
        slot = slot.outer_slot
    return slot


Waiters: TypeAlias = OrderedDict[SlotFuture, PositionCallback | None]
"""Those in line, first come first; anyone may step out at no cost, even if ten thousand do at once."""


class LocalQueue:
    """One queue at work: first come, first served."""

    def __init__(self, name: str, queue: Queue, clock: Clock) -> None:
        self.name, self._clock = name, clock
        self.capacity = queue.concurrent
        self._max_in_use = queue.concurrent or inf
        self._max_starts, self._period_seconds = parse_rate(queue.rate) if queue.rate else (0, 0.0)
        self._start_times: deque[float] = deque(maxlen=self._max_starts or 1)
        self._in_use = 0
        self._waiters: Waiters = OrderedDict()
        self._nested_waiters: Waiters = OrderedDict()
        """Those who only wait for the rate: they have their ancestor's slot, and others wait for that."""
        self._timer: Timer | None = None

    @property
    def status(self) -> QueueStatus:
        """How full it is."""
        return QueueStatus(self.capacity, self._in_use, self.waiting_count)

    def try_acquire(self) -> bool:
        """Take a slot without waiting, if nobody else waits and there is one."""
        if (
            self._waiters
            or self._nested_waiters
            or self._in_use >= self._max_in_use
            or (self._max_starts and self._seconds_until_start() > 0)
        ):
            return False
        self._in_use += 1
        if self._max_starts:
            self._start_times.append(self._clock.now())
        return True

    def enqueue(self, on_position: PositionCallback | None = None, *, needs_slot: bool = True) -> SlotFuture:
        """Stand in line, behind all who came earlier; the future is done when it is one's turn."""
        if on_position is not None:
            on_position(self.waiting_count + 1)
        granted: SlotFuture = asyncio.get_running_loop().create_future()
        (self._waiters if needs_slot else self._nested_waiters)[granted] = None
        self._grant_slots()
        return granted

    def abandon(self, slot_future: SlotFuture) -> None:
        """Whoever stood in line for a slot was cancelled."""
        if self._waiters.pop(slot_future, slot_future) is slot_future and not slot_future.cancelled():
            self._in_use -= 1  # granted in the very moment of the cancellation
        self._grant_slots()

    async def wait_for_rate(self) -> StoreError | None:
        """Wait for the rate alone, with an ancestor's slot."""
        granted = self.enqueue(needs_slot=False)
        try:
            return await granted
        finally:
            self._nested_waiters.pop(granted, None)

    def release(self) -> None:
        """Give the slot back; the next in line gets it."""
        self._in_use -= 1
        if self._waiters or self._nested_waiters:
            self._grant_slots()

    @property
    def waiting_count(self) -> int:
        """How many wait."""
        return len(self._waiters) + len(self._nested_waiters)

    @property
    def has_rate(self) -> bool:
        """Whether starts are limited too."""
        return self._max_starts > 0

    def _seconds_until_start(self) -> float:
        """Seconds until another call may start."""
        if not self._max_starts or len(self._start_times) < self._max_starts:
            return 0.0
        return self._start_times[0] + self._period_seconds - self._clock.now()

    def _grant_slots(self) -> None:
        while self._nested_waiters or (self._waiters and self._in_use < self._max_in_use):
            if self._max_starts and (pause := self._seconds_until_start()) > 0:
                self._start_timer(pause)
                return
            line = self._nested_waiters or self._waiters
            granted, _ = line.popitem(last=False)
            if granted.done():
                continue
            if line is self._waiters:
                self._in_use += 1
            if self._max_starts:
                self._start_times.append(self._clock.now())
            granted.set_result(None)

    def _start_timer(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._grant_slots()

    def close(self) -> None:
        """Nobody is let in any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def enter_slot(active_queue: ActiveQueue) -> Token[QueueSlot | None]:
    """Let nested calls know whose slot they may run in, until it is let go."""
    return CURRENT_SLOT.set(QueueSlot(active_queue, CURRENT_SLOT.get()))


def leave_slot(token: Token[QueueSlot | None]) -> None:
    """The call has ended."""
    if (slot := CURRENT_SLOT.get()) is not None:
        slot.is_released = True
    CURRENT_SLOT.reset(token)
