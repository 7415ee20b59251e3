"""Queues: named limits on how many calls run at once and how often they start."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from toolwright.core.clock import Clock, Timer
from toolwright.core.durations import rate
from toolwright.core.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Queue:
    """A limit on calls: `concurrent` at once, and at most `rate` ("30/min") starts."""

    concurrent: int | None = None
    rate: str | None = None

    def __post_init__(self) -> None:
        if self.concurrent is not None and self.concurrent < 1:
            raise DefinitionError(f"A queue of {self.concurrent} lets nothing run.", fix="allow one call at least.")
        if self.rate is not None:
            try:
                rate(self.rate)
            except ValueError as error:
                raise DefinitionError(str(error)) from None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue at one moment."""

    capacity: int | None
    in_use: int
    waiting: int


@dataclass(slots=True)
class Slot:
    """A place that a call holds. Its nested calls run in it, one at a time."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True, eq=False)
class _Waiter:
    granted: asyncio.Future[None]
    needs_slot: bool


HELD: ContextVar[Mapping[Line, Slot]] = ContextVar("toolwright_held_slots", default=MappingProxyType({}))
"""By the queue itself: another runtime may have one of the same name."""


class Line:
    """One queue at work: first come, first served."""

    def __init__(self, name: str, queue: Queue, clock: Clock) -> None:
        self.name, self._clock = name, clock
        self.capacity = queue.concurrent
        self._most = queue.concurrent or inf
        self._rate, self._period = rate(queue.rate) if queue.rate else (0, 0.0)
        self._starts: deque[float] = deque(maxlen=self._rate or 1)
        self._in_use = 0
        self._waiting: deque[_Waiter] = deque()
        self._timer: Timer | None = None

    @property
    def status(self) -> QueueStatus:
        """How full it is."""
        return QueueStatus(self.capacity, self._in_use, len(self._waiting))

    def try_enter(self) -> bool:
        """Take a slot without waiting, if nobody else waits and there is one."""
        if self._waiting or self._in_use >= self._most or (self._rate and self._pause() > 0):
            return False
        self._in_use += 1
        if self._rate:
            self._starts.append(self._clock.now())
        return True

    async def enter(self, *, needs_slot: bool = True) -> None:
        """Wait for a slot, behind all who came earlier."""
        waiter = _Waiter(asyncio.get_running_loop().create_future(), needs_slot)
        self._waiting.append(waiter)
        self._advance()
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif needs_slot and not waiter.granted.cancelled():
                self._in_use -= 1  # granted in the very moment of the cancellation
            self._advance()
            raise

    def leave(self) -> None:
        """Give the slot back; the next in line gets it."""
        self._in_use -= 1
        if self._waiting:
            self._advance()

    @property
    def depth(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def paced(self) -> bool:
        """Whether starts are limited too."""
        return self._rate > 0

    def _has_slot(self) -> bool:
        return self._in_use < self._most

    def _pause(self) -> float:
        """Seconds until another call may start."""
        if not self._rate or len(self._starts) < self._rate:
            return 0.0
        return self._starts[0] + self._period - self._clock.now()

    def _start(self, *, needs_slot: bool) -> None:
        self._in_use += needs_slot
        if self._rate:
            self._starts.append(self._clock.now())

    def _advance(self) -> None:
        while self._waiting and (self._has_slot() or not self._waiting[0].needs_slot):
            if (pause := self._pause()) > 0:
                self._arm(pause)
                return
            waiter = self._waiting.popleft()
            if not waiter.granted.done():
                self._start(needs_slot=waiter.needs_slot)
                waiter.granted.set_result(None)

    def _arm(self, pause: float) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(pause, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._advance()

    def close(self) -> None:
        """Nobody is let in any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def hold(line: Line) -> Token[Mapping[Line, Slot]]:
    """Let nested calls know whose slot they may run in, until the token is given back to `HELD`."""
    return HELD.set({**HELD.get(), line: Slot()})
