"""`ManualClock` and `ManualRuntime`: time that passes only when a test advances it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from surehand.agent.runtime import Runtime
from surehand.core.clock import Clock, Timer


class ManualRuntime(Runtime):
    """A `Runtime` whose time stands still until `await runtime.clock.advance(seconds)`."""

    def __init__(self, *sources: Any, clock: ManualClock | None = None, **options: Any) -> None:
        self._manual_clock = clock or ManualClock()
        super().__init__(*sources, clock=self._manual_clock, **options)

    @property
    def clock(self) -> ManualClock:
        """The clock that the test advances."""
        return self._manual_clock


def runtime(*sources: Any, **options: Any) -> ManualRuntime:
    """Build a runtime for a test, with the parameters of `Runtime(...)`: `async with runtime(add) as rt:`."""
    return ManualRuntime(*sources, **options)


class _ManualTimer:
    """A callback that fires when the clock reaches its time."""

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._callback = callback
        self._args = args
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
        """Return seconds since the epoch."""
        return self._now

    def now(self) -> float:
        """Return the same time: this clock has only one."""
        return self._now

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Call a function when the clock has been advanced by `delay` seconds."""
        timer = _ManualTimer(callback, args)
        # The number keeps timers of one time in their order: a heap is not stable, and timers cannot be compared.
        heappush(self._timers, (self._now + delay, next(self._order), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Advance the time: fire due timers in order, and let the tasks they wake run before this returns."""
        end = self._now + seconds
        await settle()
        while self._timers and self._timers[0][0] <= end:
            self._now, _, timer = heappop(self._timers)
            timer.fire()
            await settle()
        self._now = end
        await settle()


async def settle(rounds: int = 20) -> None:
    """Let all tasks that are ready run, and those that they make ready."""
    # `sleep(0)` is one iteration of the event loop; a task that wakes another needs one more.
    for _ in range(rounds):
        await asyncio.sleep(0)
