"""Shared queue: a queue whose slots are rows in the store, so that its limit holds over all processes on the store.

Within a process, waiting calls are served by priority, then in the order of arrival. While calls wait, one background
task takes slots from the store for them, and returns the slots that this process no longer needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from surehand.core.clock import Clock
from surehand.core.durations import parse_rate
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.limits.admission import QueueAdmission, QueueRefusal
from surehand.runtime.limits.deadlocks import Hold
from surehand.runtime.limits.queues import Queue, QueueSlot, QueueStatus
from surehand.runtime.limits.waiting_calls import PositionCallback, SlotFuture, WaitingCalls
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.errors import StoreError, StoreUnavailable
from surehand.store.tables.slots import RESERVATION_SECONDS, SharedQueueLimit, SlotAllocation, generate_slot_ids

if TYPE_CHECKING:
    from surehand.store.store import Store

log = logging.getLogger("surehand")
POLL_INTERVAL_SECONDS = 0.05
"""Seconds between two checks whether another process returned a slot."""
MAX_HANDOVER_SECONDS = 0.25
"""Seconds for which a slot is handed from call to call in this process; then other processes get it."""
MAX_SLOTS_PER_WRITE = 8
"""Slots that are requested in one write."""
MAX_PAUSE_SECONDS = 1.0
"""Longest pause between two attempts to reach an unavailable store, and between two checks of the rate."""


class HeldSlot(NamedTuple):
    """A slot of this process, and when it was taken."""

    slot_id: str
    since: float


class SharedQueue:
    """One shared queue in this process. Slots are interchangeable: none belongs to a particular call."""

    def __init__(
        self, name: str, queue: Queue, *, store: RuntimeStore, clock: Clock, background_tasks: BackgroundTasks
    ) -> None:
        self.name = name
        self.capacity = queue.concurrent
        self._store = store
        self._clock = clock
        self._background_tasks = background_tasks
        max_starts, period_seconds = parse_rate(queue.rate) if queue.rate else (0, 0.0)
        self._slot_limit = SharedQueueLimit(name, queue.concurrent, max_starts, period_seconds)
        self._waiters = WaitingCalls()
        self._nested_waiters = WaitingCalls()
        """Nested calls that have an outer slot and wait only for the rate. They go first: others wait for that slot."""
        self._held_slots: deque[HeldSlot] = deque()
        self._slots_to_return: deque[HeldSlot] = deque()
        """Slots that this process no longer needs, but still owns in the store."""
        self._in_use_elsewhere = 0
        self._is_full = False
        """Whether the last write got fewer slots than it requested: then the next one is preceded by a cheap check."""
        self._must_announce_demand = False
        """Whether the next write also reserves the next free slot for this process."""
        self._failure_count = 0
        self._wake_event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = True
        self._stop_announcements: Callable[[], None] = lambda: None
        self.admission = QueueAdmission(queue.waiting, queue.concurrent)
        self.nesting_slots: set[QueueSlot] = set()

    def open(self, store: Store) -> None:
        """Connect to the store, which wakes the task when another process returns a slot, if it can."""
        self._wake_event = asyncio.Event()  # belongs to the event loop that the runtime is opened on now
        self._is_closed = False
        self._stop_announcements = store.database.on_announce(self._wake_event.set)

    def close(self) -> None:
        """Stop granting slots. The runtime returns the held ones when it leaves the store."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        self._stop_announcements()
        self._held_slots.clear()
        self._slots_to_return.clear()

    @property
    def status(self) -> QueueStatus:
        """Capacity, slots in use and waiting calls; the use by other processes as of the last check."""
        return QueueStatus(self.capacity, self._in_use_elsewhere + len(self._held_slots), self.waiting_count)

    @property
    def waiting_count(self) -> int:
        """Number of calls that wait in this process."""
        return len(self._waiters) + len(self._nested_waiters)

    @property
    def has_rate(self) -> bool:
        """Whether the queue limits how often calls start."""
        return self._slot_limit.max_starts > 0

    def update_total_in_use(self, in_use: int) -> None:
        """Note how many slots all processes together hold."""
        self._in_use_elsewhere = max(in_use - len(self._held_slots) - len(self._slots_to_return), 0)

    def try_acquire(self) -> bool:
        """Take a slot that this process still owns, if no other call waits for it."""
        if self.waiting_count or not self._slots_to_return or not self._can_hand_over(self._slots_to_return[-1]):
            return False
        self._held_slots.append(self._slots_to_return.pop())
        return True

    def refusal(self, *, priority: int, seconds_left: float | None) -> QueueRefusal | None:
        """Why a call may not wait for a slot behind those of this process; None if it may."""
        now = self._clock.now()
        # As far as this process knows. A call that a free slot will serve waits only for the store.
        room = MAX_SLOTS_PER_WRITE if self.capacity is None else self.capacity - len(self._held_slots)
        free_slots = max(room - self._in_use_elsewhere, 0)
        if self.waiting_count < free_slots:
            return None
        ahead = self.waiting_count - free_slots
        if priority > 0 and ahead < self.admission.max_waiting:
            ahead = min(self._waiters.position(priority=priority, now=now) - 1, ahead)
        return self.admission.refusal(ahead=ahead, now=now, seconds_left=seconds_left)

    def busy_holds(self) -> Collection[Hold] | None:
        """The slots, if calls of this process that may wait for other queues hold all of them."""
        is_busy = self.capacity is not None and len(self.nesting_slots) >= self.capacity
        return self.nesting_slots if is_busy else None

    def enqueue(
        self, on_position: PositionCallback | None = None, *, priority: int = 0, needs_slot: bool = True
    ) -> SlotFuture:
        """Join the queue, behind calls of the same or a higher priority; the future is done when the call may start."""
        slot_future: SlotFuture = asyncio.get_running_loop().create_future()
        now = self._clock.now()
        waiters = self._waiters if needs_slot else self._nested_waiters
        if on_position is not None and (self.waiting_count or self._is_full):
            on_position(waiters.position(priority=priority, now=now) + len(self._nested_waiters))
            on_position = None
        self.admission.begin_busy_period(now)
        waiters.add(slot_future, priority=priority, now=now, on_position=on_position)
        if not self._is_full or not needs_slot or self._task is None:
            self._wake_task()
        return slot_future

    def abandon(self, slot_future: SlotFuture) -> None:
        """Leave the queue after a cancellation; returns a slot that was granted at the same moment."""
        if not self._waiters.remove(slot_future) and not slot_future.cancelled() and slot_future.result() is None:
            self.release()  # the slot was granted at the moment of the cancellation
        self._end_busy_period()

    async def wait_for_rate(self) -> StoreError | None:
        """Wait only until the rate allows a start; the caller already has an outer call's slot."""
        slot_future = self.enqueue(needs_slot=False)
        try:
            return await slot_future
        finally:
            self._nested_waiters.remove(slot_future)

    def release(self) -> None:
        """Return a slot: to the next call in this process, unless the process has had it for long enough."""
        if not self._held_slots:
            return  # the runtime was closed meanwhile, and has returned its slots
        slot = self._held_slots.popleft()
        if not self._can_hand_over(slot) or not self._grant_to_next(slot):
            self._slots_to_return.append(slot)
            self._wake_task()

    def _can_hand_over(self, slot: HeldSlot) -> bool:
        """Whether a slot may go to the next call without a write: never if each start counts against a rate.

        A slot this young is still owned by this process, even if the process was paused meanwhile.
        """
        return not self.has_rate and monotonic() - slot.since < MAX_HANDOVER_SECONDS

    def _grant_to_next(self, slot: HeldSlot) -> bool:
        slot_future = self._waiters.take_first()
        if slot_future is None:
            return False
        self._held_slots.append(slot)
        self.admission.count_served(self._clock.now())
        self._end_busy_period()
        slot_future.set_result(None)
        return True

    def _end_busy_period(self) -> None:
        if not self.waiting_count:
            self.admission.end_busy_period(self._clock.now())

    def _wake_task(self) -> None:
        self._wake_event.set()
        if self._task is None and not self._is_closed:
            self._task = self._background_tasks.spawn(self._run())

    async def _run(self) -> None:
        try:
            while self.waiting_count or self._slots_to_return:
                self._wake_event.clear()
                await self._sleep(await self._poll_store())
        finally:
            self._task = None
            self._is_full = False

    async def _sleep(self, seconds: float) -> None:
        """Sleep until a call arrives or ends here, another process announces a change, or the time is up."""
        if seconds <= 0:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == inf else seconds):
                await self._wake_event.wait()

    async def _poll_store(self) -> float:
        """Check the queue or exchange slots with the store; returns the seconds until the next attempt."""
        checks_first = self._is_full and not self._slots_to_return
        try:
            pause = await self._check_availability() if checks_first else 0.0
            return pause or await self._exchange_slots(has_checked=checks_first)
        except StoreError as error:
            return self._fail_waiters(error)
        except Exception as error:  # without an answer, the waiting calls would wait forever
            log.exception("The shared queue %r failed", self.name)
            return self._fail_waiters(StoreUnavailable(f"{type(error).__name__}: {error}"))

    def _slots_needed(self) -> int:
        """Number of slots that waiting calls of this process could use."""
        room = MAX_SLOTS_PER_WRITE if self.capacity is None else self.capacity - len(self._held_slots)
        return max(min(len(self._waiters), room, MAX_SLOTS_PER_WRITE), 0)

    async def _check_availability(self) -> float:
        """Seconds to wait if a write would get nothing; 0 if it may, or if it should reserve the next free slot."""
        if not self._slots_needed() and not self._nested_waiters:
            return inf
        store = await self._store.open()
        snapshot = await store.slots.snapshot(self._slot_limit, self._store.owner_id)
        self.update_total_in_use(snapshot.in_use)
        if snapshot.next_start_seconds > 0:
            return min(snapshot.next_start_seconds, MAX_PAUSE_SECONDS)
        can_reserve = not snapshot.has_room and not snapshot.has_other_waiter
        self._must_announce_demand = can_reserve and snapshot.reserved_seconds < RESERVATION_SECONDS / 2
        if snapshot.has_room or self._must_announce_demand or self._nested_waiters:
            return 0.0
        return POLL_INTERVAL_SECONDS

    async def _exchange_slots(self, *, has_checked: bool) -> float:
        """Return slots and take new ones in one write; returns the seconds until the next attempt."""
        store = await self._store.open()
        slot_count = self._slots_needed()
        start_count = min(len(self._nested_waiters), MAX_SLOTS_PER_WRITE)
        if not (slot_count or start_count or self._slots_to_return):
            self._is_full = True
            return inf if self._waiters else 0.0
        allocation = await self._write_slots(store, generate_slot_ids(slot_count), start_count)
        self._failure_count = 0
        self._is_full = len(allocation.slot_ids) < slot_count or allocation.start_count < start_count
        if not self._is_full:
            return 0.0
        self._notify_first_waiter()
        # After getting some slots, check at once whether there are more.
        return POLL_INTERVAL_SECONDS if has_checked and not allocation.slot_ids else 0.0

    async def _write_slots(self, store: Store, slot_ids: list[str], starts: int) -> SlotAllocation:
        """Return and take slots in one write, and hand the new ones to waiting calls."""
        since = monotonic()
        returned = [slot.slot_id for slot in self._slots_to_return]
        wants_reservation, self._must_announce_demand = self._must_announce_demand, False
        self._slots_to_return.clear()  # from here on, `try_acquire` must not hand them out
        try:
            allocation = await store.slots.allocate(
                self._slot_limit,
                self._store.owner_id,
                returned_slot_ids=returned,
                new_slot_ids=slot_ids,
                start_count=starts,
                wants_reservation=wants_reservation,
            )
        except StoreUnavailable:
            # The write may have been committed or not: return all of these slots later.
            self._slots_to_return.extend(HeldSlot(slot_id, -inf) for slot_id in (*returned, *slot_ids))
            raise
        self._distribute_slots(allocation, since)
        if returned and allocation.has_other_waiter:
            with suppress(StoreError):  # the other process polls anyway
                await store.slots.announce()
        return allocation

    def _distribute_slots(self, slot_grant: SlotAllocation, since: float) -> None:
        for slot_id in slot_grant.slot_ids:
            slot = HeldSlot(slot_id, since)
            if not self._grant_to_next(slot):
                self._slots_to_return.append(slot)  # the call that it was for was cancelled
        for _ in range(slot_grant.start_count):
            slot_future = self._nested_waiters.take_first()
            if slot_future is not None:
                slot_future.set_result(None)

    def _notify_first_waiter(self) -> None:
        """Report its position to the first waiting call; all others got theirs when they arrived."""
        on_position = self._waiters.take_first_callback()
        if on_position is not None:
            on_position(1)

    def _fail_waiters(self, error: StoreError) -> float:
        """Fail all waiting calls: none waits for an unavailable store. Slots to return are kept for later."""
        for waiters in (self._nested_waiters, self._waiters):
            while (slot_future := waiters.take_first()) is not None:
                slot_future.set_result(error)
        self._end_busy_period()
        self._is_full = False
        self._failure_count += 1
        return min(POLL_INTERVAL_SECONDS * 2.0 ** min(self._failure_count, 10), MAX_PAUSE_SECONDS)
