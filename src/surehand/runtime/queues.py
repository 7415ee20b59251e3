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
from surehand.core.durations import rate
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
                rate(self.rate)
            except ValueError as error:
                raise DefinitionError(str(error)) from None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue at one moment."""

    capacity: int | None
    in_use: int
    waiting: int


Granted: TypeAlias = asyncio.Future[StoreError | None]
"""Done when it is one's turn, or when a shared queue cannot be reached: with the reason."""
Tell: TypeAlias = Callable[[int], None]
"""Hears one's place in line, if one has to wait at all."""


class AnyLine(Protocol):
    """A queue at work, as the stage sees it."""

    name: str
    capacity: int | None

    @property
    def status(self) -> QueueStatus: ...
    @property
    def paced(self) -> bool: ...
    def try_enter(self) -> bool: ...
    def join(self, tell: Tell | None = None) -> Granted: ...
    def give_up(self, granted: Granted) -> None: ...
    async def enter_inside(self) -> StoreError | None: ...
    def leave(self) -> None: ...
    def close(self) -> None: ...


class Slot:
    """A place that a call holds. Its nested calls run in it, one at a time."""

    __slots__ = ("_turn", "left", "line", "outer")

    def __init__(self, line: AnyLine, outer: Slot | None) -> None:
        self.line, self.outer = line, outer
        """The slot that an ancestor holds, in this queue or another."""
        self.left = False
        """Whether its call has ended; a task that it left behind has no place here any more."""
        self._turn: asyncio.Lock | None = None

    @property
    def turn(self) -> asyncio.Lock:
        """Made when first needed: few calls have nested ones in the same queue."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        return self._turn


HELD: ContextVar[Slot | None] = ContextVar("surehand_held_slots", default=None)


def held_in(line: AnyLine) -> Slot | None:
    """The slot of this very queue that the current call or an ancestor holds."""
    slot = HELD.get()
    while slot is not None and (slot.line is not line or slot.left):
        slot = slot.outer
    return slot


Standing: TypeAlias = OrderedDict[Granted, Tell | None]
"""Those in line, first come first; anyone may step out at no cost, even if ten thousand do at once."""


class Line:
    """One queue at work: first come, first served."""

    def __init__(self, name: str, queue: Queue, clock: Clock) -> None:
        self.name, self._clock = name, clock
        self.capacity = queue.concurrent
        self._most = queue.concurrent or inf
        self._rate, self._period = rate(queue.rate) if queue.rate else (0, 0.0)
        self._starts: deque[float] = deque(maxlen=self._rate or 1)
        self._in_use = 0
        self._waiting: Standing = OrderedDict()
        self._inside: Standing = OrderedDict()
        """Those who only wait for the rate: they have their ancestor's slot, and others wait for that."""
        self._timer: Timer | None = None

    @property
    def status(self) -> QueueStatus:
        """How full it is."""
        return QueueStatus(self.capacity, self._in_use, self.depth)

    def try_enter(self) -> bool:
        """Take a slot without waiting, if nobody else waits and there is one."""
        if self._waiting or self._inside or self._in_use >= self._most or (self._rate and self._pause() > 0):
            return False
        self._in_use += 1
        if self._rate:
            self._starts.append(self._clock.now())
        return True

    def join(self, tell: Tell | None = None, *, needs_slot: bool = True) -> Granted:
        """Stand in line, behind all who came earlier; the future is done when it is one's turn."""
        if tell is not None:
            tell(self.depth + 1)
        granted: Granted = asyncio.get_running_loop().create_future()
        (self._waiting if needs_slot else self._inside)[granted] = None
        self._advance()
        return granted

    def give_up(self, granted: Granted) -> None:
        """Whoever stood in line for a slot was cancelled."""
        if self._waiting.pop(granted, granted) is granted and not granted.cancelled():
            self._in_use -= 1  # granted in the very moment of the cancellation
        self._advance()

    async def enter_inside(self) -> StoreError | None:
        """Wait for the rate alone, with an ancestor's slot."""
        granted = self.join(needs_slot=False)
        try:
            return await granted
        finally:
            self._inside.pop(granted, None)

    def leave(self) -> None:
        """Give the slot back; the next in line gets it."""
        self._in_use -= 1
        if self._waiting or self._inside:
            self._advance()

    @property
    def depth(self) -> int:
        """How many wait."""
        return len(self._waiting) + len(self._inside)

    @property
    def paced(self) -> bool:
        """Whether starts are limited too."""
        return self._rate > 0

    def _pause(self) -> float:
        """Seconds until another call may start."""
        if not self._rate or len(self._starts) < self._rate:
            return 0.0
        return self._starts[0] + self._period - self._clock.now()

    def _advance(self) -> None:
        while self._inside or (self._waiting and self._in_use < self._most):
            if self._rate and (pause := self._pause()) > 0:
                self._arm(pause)
                return
            line = self._inside or self._waiting
            granted, _ = line.popitem(last=False)
            if granted.done():
                continue
            if line is self._waiting:
                self._in_use += 1
            if self._rate:
                self._starts.append(self._clock.now())
            granted.set_result(None)

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


def hold(line: AnyLine) -> Token[Slot | None]:
    """Let nested calls know whose slot they may run in, until it is let go."""
    return HELD.set(Slot(line, HELD.get()))


def let_go(token: Token[Slot | None]) -> None:
    """The call has ended."""
    if (slot := HELD.get()) is not None:
        slot.left = True
    HELD.reset(token)
