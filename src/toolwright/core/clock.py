"""Clock: all waiting goes through one, so that tests can advance it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from time import time as epoch_time
from typing import Any, Protocol


class Timer(Protocol):
    """Something that will happen unless it is cancelled."""

    def cancel(self) -> None: ...


class Clock:
    """The machine's own clock."""

    time: Callable[[], float] = staticmethod(epoch_time)
    """Seconds since the epoch."""

    now: Callable[[], float] = staticmethod(monotonic)
    """Seconds on a clock that never jumps."""

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Call a function after so many seconds."""
        return asyncio.get_running_loop().call_later(delay, callback, *args)

    async def sleep(self, delay: float) -> None:
        """Wait so many seconds."""
        if delay <= 0:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay, wake, done)
        try:
            await done
        finally:
            timer.cancel()


def wake(sleeper: asyncio.Future[Any]) -> None:
    """Let whoever waits go on; harmless if that happened already."""
    if not sleeper.done():
        sleeper.set_result(None)
