"""Shared line: a queue whose slots are rows in the store, so that its limit holds over all processes there.

Those who wait in this process stand in one line, first come, first served. One task takes slots for whoever is first,
for as long as somebody waits, and gives back what nobody here needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from surehand.core.durations import parse_rate
from surehand.runtime.limits.queues import PositionCallback, Queue, QueueStatus, SlotFuture, Waiters
from surehand.store.errors import StoreError, StoreUnavailable
from surehand.store.tables.slots import RESERVATION_SECONDS, SharedQueueLimit, SlotAllocation, generate_slot_ids

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices
    from surehand.store.store import Store

log = logging.getLogger("surehand")
POLL_INTERVAL_SECONDS = 0.05
"""Seconds between two looks whether another process gave a slot back."""
MAX_HANDOVER_SECONDS = 0.25
"""Seconds for which a slot goes from one call to the next in this process; then others get their chance."""
MAX_SLOTS_PER_WRITE = 8
"""Slots that are asked for in one write."""
MAX_PAUSE_SECONDS = 1.0
"""Seconds between two tries to reach a store that is away, and between two looks at a rate that lets nobody start."""


class HeldSlot(NamedTuple):
    """A slot of this process, and since when."""

    slot_id: str
    since: float


class SharedQueue:
    """One shared queue, as this process sees it; which of its slots is which call's, nobody needs to know."""

    def __init__(self, name: str, queue: Queue, services: RuntimeServices) -> None:
        self.name, self.capacity, self._services = name, queue.concurrent, services
        self._slot_limit = SharedQueueLimit(
            name, queue.concurrent, *(parse_rate(queue.rate) if queue.rate else (0, 0.0))
        )
        self._waiters: Waiters = OrderedDict()
        self._nested_waiters: Waiters = OrderedDict()
        """Those who only wait for the rate: they have their ancestor's slot, and others wait for that."""
        self._held_slots: deque[HeldSlot] = deque()
        self._slots_to_return: deque[HeldSlot] = deque()
        """Slots that are not needed here any more, and are still ours in the store."""
        self._in_use_elsewhere = 0
        self._is_full = False
        """Whether the last turn was in vain: then a look comes before the next."""
        self._must_announce_demand = False
        """Whether the next turn is also to say that somebody waits here."""
        self._failure_count = 0
        self._wake_event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = True
        self._stop_announcements: Callable[[], None] = lambda: None

    def open(self, store: Store) -> None:
        """The store is there, and says when another process gave a slot back, if it can."""
        self._wake_event = asyncio.Event()  # of the loop that the runtime lives on now
        self._is_closed, self._stop_announcements = False, store.database.on_announce(self._wake_event.set)

    def close(self) -> None:
        """Nobody is let in any more. What is held is given back when the runtime leaves its store."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        self._stop_announcements()
        self._held_slots.clear()
        self._slots_to_return.clear()

    @property
    def status(self) -> QueueStatus:
        """How full it is: here as it is now, and elsewhere as it was seen last."""
        return QueueStatus(self.capacity, self._in_use_elsewhere + len(self._held_slots), self.waiting_count)

    @property
    def waiting_count(self) -> int:
        """How many wait here."""
        return len(self._waiters) + len(self._nested_waiters)

    @property
    def has_rate(self) -> bool:
        """Whether starts are limited too."""
        return self._slot_limit.max_starts > 0

    def update_total_in_use(self, in_use: int) -> None:
        """How many slots are held in all processes together."""
        self._in_use_elsewhere = max(in_use - len(self._held_slots) - len(self._slots_to_return), 0)

    def try_acquire(self) -> bool:
        """Take a slot without waiting, if one is still here that nobody else waits for."""
        if self.waiting_count or not self._slots_to_return or not self._can_hand_over(self._slots_to_return[-1]):
            return False
        self._held_slots.append(self._slots_to_return.pop())
        return True

    def enqueue(self, on_position: PositionCallback | None = None, *, needs_slot: bool = True) -> SlotFuture:
        """Stand in line, behind all who came earlier; the future is done when it is one's turn."""
        granted: SlotFuture = asyncio.get_running_loop().create_future()
        if on_position is not None and (self.waiting_count or self._is_full):
            on_position(self.waiting_count + 1)
            on_position = None
        (self._waiters if needs_slot else self._nested_waiters)[granted] = on_position
        if not self._is_full or not needs_slot or self._task is None:
            self._wake_task()
        return granted

    def abandon(self, slot_future: SlotFuture) -> None:
        """Whoever stood in line for a slot was cancelled."""
        if slot_future in self._waiters:
            del self._waiters[slot_future]
        elif not slot_future.cancelled() and slot_future.result() is None:
            self.release()  # granted in the very moment of the cancellation

    async def wait_for_rate(self) -> StoreError | None:
        """Wait for the rate alone, with an ancestor's slot."""
        granted = self.enqueue(needs_slot=False)
        try:
            return await granted
        finally:
            self._nested_waiters.pop(granted, None)

    def release(self) -> None:
        """Give the slot back: to the next in line here, unless it was here for long enough."""
        if not self._held_slots:
            return  # the runtime has been closed meanwhile, and has left its store
        slot = self._held_slots.popleft()
        if not self._can_hand_over(slot) or not self._grant_to_next(slot):
            self._slots_to_return.append(slot)
            self._wake_task()

    def _can_hand_over(self, slot: HeldSlot) -> bool:
        """Not where each start is counted. A slot so young is still ours, even if the process was paused."""
        return not self.has_rate and monotonic() - slot.since < MAX_HANDOVER_SECONDS

    def _grant_to_next(self, slot: HeldSlot) -> bool:
        granted = _pop_waiter(self._waiters)
        if granted is None:
            return False
        self._held_slots.append(slot)
        granted.set_result(None)
        return True

    def _wake_task(self) -> None:
        self._wake_event.set()
        if self._task is None and not self._is_closed:
            self._task = self._services.reaper.spawn(self._run())

    async def _run(self) -> None:
        try:
            while self.waiting_count or self._slots_to_return:
                self._wake_event.clear()
                await self._sleep(await self._poll_store())
        finally:
            self._task, self._is_full = None, False

    async def _sleep(self, seconds: float) -> None:
        """Until somebody here comes or goes, another process announces something, or the time is up."""
        if seconds <= 0:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == inf else seconds):
                await self._wake_event.wait()

    async def _poll_store(self) -> float:
        """One look or turn at the store; gives the seconds to rest before the next."""
        looks = self._is_full and not self._slots_to_return
        try:
            pause = await self._check_availability() if looks else 0.0
            return pause or await self._exchange_slots(has_checked=looks)
        except StoreError as error:
            return self._fail_waiters(error)
        except Exception as error:  # a line that nobody serves any more would keep its callers waiting
            log.exception("The shared queue %r could not be served", self.name)
            return self._fail_waiters(StoreUnavailable(f"{type(error).__name__}: {error}"))

    def _slots_needed(self) -> int:
        """How many slots could be of use here."""
        room = MAX_SLOTS_PER_WRITE if self.capacity is None else self.capacity - len(self._held_slots)
        return max(min(len(self._waiters), room, MAX_SLOTS_PER_WRITE), 0)

    async def _check_availability(self) -> float:
        """Seconds to rest where a turn would be in vain. Whoever is first to come in vain is the next to get a slot."""
        if not self._slots_needed() and not self._nested_waiters:
            return inf
        store = await self._services.open_store()
        view = await store.slots.snapshot(self._slot_limit, self._services.owner_id)
        self.update_total_in_use(view.in_use)
        if view.next_start_seconds > 0:
            return min(view.next_start_seconds, MAX_PAUSE_SECONDS)
        self._must_announce_demand = (
            not view.has_room and not view.has_other_waiter and view.reserved_seconds < RESERVATION_SECONDS / 2
        )
        return 0.0 if view.has_room or self._must_announce_demand or self._nested_waiters else POLL_INTERVAL_SECONDS

    async def _exchange_slots(self, *, has_checked: bool) -> float:
        store, asked, inside = (
            await self._services.open_store(),
            self._slots_needed(),
            min(len(self._nested_waiters), MAX_SLOTS_PER_WRITE),
        )
        if not (asked or inside or self._slots_to_return):
            self._is_full = True
            return inf if self._waiters else 0.0
        given = await self._write_slots(store, generate_slot_ids(asked), inside)
        self._failure_count, self._is_full = 0, len(given.slot_ids) < asked or given.start_count < inside
        if not self._is_full:
            return 0.0
        self._notify_first_waiter()
        return (
            POLL_INTERVAL_SECONDS if has_checked and not given.slot_ids else 0.0
        )  # whoever got one looks at once: it is to ask for more

    async def _write_slots(self, store: Store, slot_ids: list[str], starts: int) -> SlotAllocation:
        since, back = monotonic(), [slot.slot_id for slot in self._slots_to_return]
        wants, self._must_announce_demand = self._must_announce_demand, False
        self._slots_to_return.clear()  # from here on nobody is handed one of these
        try:
            given = await store.slots.allocate(
                self._slot_limit,
                self._services.owner_id,
                returned_slot_ids=back,
                new_slot_ids=slot_ids,
                start_count=starts,
                wants_reservation=wants,
            )
        except StoreUnavailable:
            self._slots_to_return.extend(
                HeldSlot(slot_id, -inf) for slot_id in (*back, *slot_ids)
            )  # in doubt, all of them are ours
            raise
        self._distribute_slots(given, since)
        if back and given.has_other_waiter:
            with suppress(StoreError):  # then they find out when they next look
                await store.slots.announce()
        return given

    def _distribute_slots(self, slot_grant: SlotAllocation, since: float) -> None:
        for slot_id in slot_grant.slot_ids:
            if not self._grant_to_next(slot := HeldSlot(slot_id, since)):
                self._slots_to_return.append(slot)  # whoever it was for is gone
        for _ in range(slot_grant.start_count):
            if (granted := _pop_waiter(self._nested_waiters)) is not None:
                granted.set_result(None)

    def _notify_first_waiter(self) -> None:
        """All others knew when they came that they would wait."""
        for granted, tell in self._waiters.items():
            self._waiters[granted] = None
            if tell is not None:
                tell(1)
            return

    def _fail_waiters(self, error: StoreError) -> float:
        """Nobody waits for a store that is away; what is to be given back stays until it is written."""
        for standing in (self._nested_waiters, self._waiters):
            while (granted := _pop_waiter(standing)) is not None:
                granted.set_result(error)
        self._is_full, self._failure_count = False, self._failure_count + 1
        return min(POLL_INTERVAL_SECONDS * 2.0 ** min(self._failure_count, 10), MAX_PAUSE_SECONDS)


def _pop_waiter(waiters: Waiters) -> SlotFuture | None:
    """The first who has not been cancelled."""
    while waiters:
        granted, _ = waiters.popitem(last=False)
        if not granted.done():
            return granted
    return None
