"""Time: the clock that everything waits by, and deadlines that share one timer.

Tests replace the clock by one that they advance by hand (`surehand.testing`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from time import time as epoch_time
from typing import Any, Protocol


class Timer(Protocol):
    """A callback that is due later, unless it is cancelled."""

    def cancel(self) -> None: ...


class Clock:
    """The machine's own clock."""

    time: Callable[[], float] = staticmethod(epoch_time)
    """Seconds since the epoch."""

    now: Callable[[], float] = staticmethod(monotonic)
    """Seconds on a clock that never jumps."""

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Call a function after this many seconds."""
        return asyncio.get_running_loop().call_later(delay, callback, *args)

    async def sleep(self, delay: float) -> None:
        """Wait for this many seconds."""
        if delay <= 0:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Not `asyncio.sleep`: a test replaces `call_later`, and then this waits by the test's time.
        timer = self.call_later(delay, wake, done)
        try:
            await done
        finally:
            timer.cancel()


def wake(sleeper: asyncio.Future[Any]) -> None:
    """Complete a future that a task waits for; do nothing if it is complete already."""
    if not sleeper.done():
        sleeper.set_result(None)


class Deadline:
    """A point in time at which a callback runs, unless it is cancelled before."""

    __slots__ = ("at", "callback", "group")

    def __init__(self, group: _DeadlineGroup, at: float, callback: Callable[[], object]) -> None:
        self.group = group
        self.at = at
        self.callback = callback

    def cancel(self) -> None:
        """Do not run the callback."""
        self.group.deadlines.pop(self, None)


class _DeadlineGroup:
    """The deadlines of one duration. They expire in the order in which they were started."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        # A dictionary keeps the order of insertion, which for one duration is the order of expiry, and removes any
        # deadline in constant time.
        self.deadlines: dict[Deadline, None] = {}
        self.timer: Timer | None = None

    def add(self, callback: Callable[[], object]) -> Deadline:
        deadline = Deadline(self, self._clock.now() + self._seconds, callback)
        self.deadlines[deadline] = None
        if self.timer is None:
            self.timer = self._clock.call_later(self._seconds, self._expire)
        return deadline

    def stop(self) -> None:
        """Cancel the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _expire(self) -> None:
        """Run the callbacks that are due. One of them may raise, or cancel or start other deadlines."""
        self.timer = None
        now = self._clock.now()
        try:
            while self.deadlines:
                deadline = next(iter(self.deadlines))
                if deadline.at > now:
                    break
                del self.deadlines[deadline]
                deadline.callback()
        finally:
            self.stop()  # a callback may have started one, for a later time than the next that is due
            if self.deadlines:
                next_due = next(iter(self.deadlines)).at
                self.timer = self._clock.call_later(max(next_due - now, 0.0), self._expire)


MAX_GROUPS_BEFORE_CLEANUP = 64
"""Durations with a group of their own, from which on a new one removes the groups without deadlines."""


class Deadlines:
    """Starts deadlines; all those of one duration share one timer.

    An event loop's own timer costs 1.4 us per call, and most calls end long before it fires. Here starting and
    cancelling a deadline is one entry of a dictionary.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[float, _DeadlineGroup] = {}

    def start(self, seconds: float, callback: Callable[[], object]) -> Deadline:
        """Run the callback after this many seconds, unless the deadline is cancelled."""
        group = self._groups.get(seconds)
        if group is None:
            self._drop_unused_groups()
            group = self._groups[seconds] = _DeadlineGroup(self._clock, seconds)
        return group.add(callback)

    def _drop_unused_groups(self) -> None:
        """Remove groups without deadlines: durations that depend on a call's arguments are endless in number."""
        if len(self._groups) <= MAX_GROUPS_BEFORE_CLEANUP:
            return
        for group in self._groups.values():
            if not group.deadlines:
                group.stop()
        self._groups = {seconds: group for seconds, group in self._groups.items() if group.deadlines}

    def close(self) -> None:
        """Cancel every deadline."""
        for group in self._groups.values():
            group.stop()
        self._groups.clear()
