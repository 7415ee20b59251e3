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

from surehand.core.durations import rate
from surehand.runtime.queues import Granted, Queue, QueueStatus, Standing, Tell
from surehand.store.errors import StoreError, StoreUnavailable
from surehand.store.slots import PATIENCE, Given, Limit, new_slots

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts
    from surehand.store.store import Store

log = logging.getLogger("surehand")
POLL = 0.05
"""Seconds between two looks whether another process gave a slot back."""
HANDED_ON = 0.25
"""Seconds for which a slot goes from one call to the next in this process; then others get their chance."""
AT_ONCE = 8
"""Slots that are asked for in one write."""
LONGEST = 1.0
"""Seconds between two tries to reach a store that is away, and between two looks at a rate that lets nobody start."""


class Held(NamedTuple):
    """A slot of this process, and since when."""

    slot_id: str
    since: float


class SharedLine:
    """One shared queue, as this process sees it; which of its slots is which call's, nobody needs to know."""

    def __init__(self, name: str, queue: Queue, parts: Parts) -> None:
        self.name, self.capacity, self._parts = name, queue.concurrent, parts
        self._limit = Limit(name, queue.concurrent, *(rate(queue.rate) if queue.rate else (0, 0.0)))
        self._waiting: Standing = OrderedDict()
        self._inside: Standing = OrderedDict()
        """Those who only wait for the rate: they have their ancestor's slot, and others wait for that."""
        self._held: deque[Held] = deque()
        self._back: deque[Held] = deque()
        """Slots that are not needed here any more, and are still ours in the store."""
        self._elsewhere = 0
        self._full = False
        """Whether the last turn was in vain: then a look comes before the next."""
        self._wants = False
        """Whether the next turn is also to say that somebody waits here."""
        self._failures = 0
        self._stir = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = True
        self._quiet: Callable[[], None] = lambda: None

    def open(self, store: Store) -> None:
        """The store is there, and says when another process gave a slot back, if it can."""
        self._stir = asyncio.Event()  # of the loop that the runtime lives on now
        self._closed, self._quiet = False, store.database.on_announce(self._stir.set)

    def close(self) -> None:
        """Nobody is let in any more. What is held is given back when the runtime leaves its store."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        self._quiet()
        self._held.clear()
        self._back.clear()

    @property
    def status(self) -> QueueStatus:
        """How full it is: here as it is now, and elsewhere as it was seen last."""
        return QueueStatus(self.capacity, self._elsewhere + len(self._held), self.depth)

    @property
    def depth(self) -> int:
        """How many wait here."""
        return len(self._waiting) + len(self._inside)

    @property
    def paced(self) -> bool:
        """Whether starts are limited too."""
        return self._limit.rate > 0

    def seen(self, in_use: int) -> None:
        """How many slots are held in all processes together."""
        self._elsewhere = max(in_use - len(self._held) - len(self._back), 0)

    def try_enter(self) -> bool:
        """Take a slot without waiting, if one is still here that nobody else waits for."""
        if self.depth or not self._back or not self._may_hand_on(self._back[-1]):
            return False
        self._held.append(self._back.pop())
        return True

    def join(self, tell: Tell | None = None, *, needs_slot: bool = True) -> Granted:
        """Stand in line, behind all who came earlier; the future is done when it is one's turn."""
        granted: Granted = asyncio.get_running_loop().create_future()
        if tell is not None and (self.depth or self._full):
            tell(self.depth + 1)
            tell = None
        (self._waiting if needs_slot else self._inside)[granted] = tell
        if not self._full or not needs_slot or self._task is None:
            self._wake()
        return granted

    def give_up(self, granted: Granted) -> None:
        """Whoever stood in line for a slot was cancelled."""
        if granted in self._waiting:
            del self._waiting[granted]
        elif not granted.cancelled() and granted.result() is None:
            self.leave()  # granted in the very moment of the cancellation

    async def enter_inside(self) -> StoreError | None:
        """Wait for the rate alone, with an ancestor's slot."""
        granted = self.join(needs_slot=False)
        try:
            return await granted
        finally:
            self._inside.pop(granted, None)

    def leave(self) -> None:
        """Give the slot back: to the next in line here, unless it was here for long enough."""
        if not self._held:
            return  # the runtime has been closed meanwhile, and has left its store
        slot = self._held.popleft()
        if not self._may_hand_on(slot) or not self._grant(slot):
            self._back.append(slot)
            self._wake()

    def _may_hand_on(self, slot: Held) -> bool:
        """Not where each start is counted. A slot so young is still ours, even if the process was paused."""
        return not self.paced and monotonic() - slot.since < HANDED_ON

    def _grant(self, slot: Held) -> bool:
        granted = _next(self._waiting)
        if granted is None:
            return False
        self._held.append(slot)
        granted.set_result(None)
        return True

    def _wake(self) -> None:
        self._stir.set()
        if self._task is None and not self._closed:
            self._task = self._parts.reaper.own(self._serve())

    async def _serve(self) -> None:
        try:
            while self.depth or self._back:
                self._stir.clear()
                await self._rest(await self._step())
        finally:
            self._task, self._full = None, False

    async def _rest(self, seconds: float) -> None:
        """Until somebody here comes or goes, another process announces something, or the time is up."""
        if seconds <= 0:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == inf else seconds):
                await self._stir.wait()

    async def _step(self) -> float:
        """One look or turn at the store; gives the seconds to rest before the next."""
        looks = self._full and not self._back
        try:
            pause = await self._look() if looks else 0.0
            return pause or await self._turn(looked=looks)
        except StoreError as error:
            return self._refuse(error)
        except Exception as error:  # a line that nobody serves any more would keep its callers waiting
            log.exception("The shared queue %r could not be served", self.name)
            return self._refuse(StoreUnavailable(f"{type(error).__name__}: {error}"))

    def _asked(self) -> int:
        """How many slots could be of use here."""
        room = AT_ONCE if self.capacity is None else self.capacity - len(self._held)
        return max(min(len(self._waiting), room, AT_ONCE), 0)

    async def _look(self) -> float:
        """Seconds to rest where a turn would be in vain. Whoever is first to come in vain is the next to get a slot."""
        if not self._asked() and not self._inside:
            return inf
        store = await self._parts.remembered()
        view = await store.slots.look(self._limit, self._parts.owner)
        self.seen(view.in_use)
        if view.pause > 0:
            return min(view.pause, LONGEST)
        self._wants = not view.room and not view.wanted and view.patience < PATIENCE / 2
        return 0.0 if view.room or self._wants or self._inside else POLL

    async def _turn(self, *, looked: bool) -> float:
        store, asked, inside = await self._parts.remembered(), self._asked(), min(len(self._inside), AT_ONCE)
        if not (asked or inside or self._back):
            self._full = True
            return inf if self._waiting else 0.0
        given = await self._written(store, new_slots(asked), inside)
        self._failures, self._full = 0, len(given.slots) < asked or given.starts < inside
        if not self._full:
            return 0.0
        self._tell_the_first()
        return POLL if looked and not given.slots else 0.0  # whoever got one looks at once: it is to ask for more

    async def _written(self, store: Store, ids: list[str], starts: int) -> Given:
        since, back = monotonic(), [slot.slot_id for slot in self._back]
        wants, self._wants = self._wants, False
        self._back.clear()  # from here on nobody is handed one of these
        try:
            given = await store.slots.turn(
                self._limit, self._parts.owner, back=back, ids=ids, starts=starts, wants=wants
            )
        except StoreUnavailable:
            self._back.extend(Held(slot_id, -inf) for slot_id in (*back, *ids))  # in doubt, all of them are ours
            raise
        self._give_out(given, since)
        if back and given.wanted:
            with suppress(StoreError):  # then they find out when they next look
                await store.slots.announce()
        return given

    def _give_out(self, given: Given, since: float) -> None:
        for slot_id in given.slots:
            if not self._grant(slot := Held(slot_id, since)):
                self._back.append(slot)  # whoever it was for is gone
        for _ in range(given.starts):
            if (granted := _next(self._inside)) is not None:
                granted.set_result(None)

    def _tell_the_first(self) -> None:
        """All others knew when they came that they would wait."""
        for granted, tell in self._waiting.items():
            self._waiting[granted] = None
            if tell is not None:
                tell(1)
            return

    def _refuse(self, error: StoreError) -> float:
        """Nobody waits for a store that is away; what is to be given back stays until it is written."""
        for standing in (self._inside, self._waiting):
            while (granted := _next(standing)) is not None:
                granted.set_result(error)
        self._full, self._failures = False, self._failures + 1
        return min(POLL * 2.0 ** min(self._failures, 10), LONGEST)


def _next(standing: Standing) -> Granted | None:
    """The first who has not been cancelled."""
    while standing:
        granted, _ = standing.popitem(last=False)
        if not granted.done():
            return granted
    return None
