"""Manual clock: time that a test lets pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from surehand.core.clock import Clock, Timer
from surehand.runtime.runtime import Runtime


class ManualRuntime(Runtime):
    """A Runtime like any other, but time stands still until `await runtime.clock.advance(seconds)`."""

    clock: ManualClock

    def __init__(self, *sources: Any, clock: ManualClock | None = None, **options: Any) -> None:
        self.clock = clock or ManualClock()
        super().__init__(*sources, clock=self.clock, **options)


def runtime(*sources: Any, **options: Any) -> ManualRuntime:
    """A runtime for a test, with everything that `Runtime(...)` takes: `async with runtime(add) as rt:`."""
    return ManualRuntime(*sources, **options)


class _ManualTimer:
    """Something that happens when the clock gets there."""

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._callback, self._args = callback, args
        self.is_cancelled = False

    def fire(self) -> None:
        if not self.is_cancelled:
            self._callback(*self._args)

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualClock(Clock):
    """Time stands still until a test calls `advance`: `Runtime(..., clock=ManualClock())`."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now = start
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._order = count()

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._now

    def now(self) -> float:
        """Seconds on the same clock."""
        return self._now

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Call a function when the clock has been advanced so far."""
        alarm = _ManualTimer(callback, args)
        heappush(self._timers, (self._now + delay, next(self._order), alarm))
        return alarm

    async def advance(self, seconds: float) -> None:
        """Let time pass: everything that is due happens in order, and what it wakes runs before this returns."""
        until = self._now + seconds
        await settle()
        while self._timers and self._timers[0][0] <= until:
            self._now, _, alarm = heappop(self._timers)
            alarm.fire()
            await settle()
        self._now = until
        await settle()


async def settle(rounds: int = 20) -> None:
    """Let every task that can run do so."""
    for _ in range(rounds):
        await asyncio.sleep(0)
