"""A clock that a test advances, so that no test depends on the speed of the machine."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from surehand.core.clock import Clock


class StoppedClock:
    """The time of the event loop and of `Clock`."""

    def __init__(self) -> None:
        self.now = asyncio.get_running_loop().time()

    async def advance(self, seconds: float) -> None:
        """Run what is due now, then let this time pass and run what is due then."""
        for more in (0, seconds):
            self.now += more
            for _ in range(30):
                await asyncio.sleep(0)


@contextmanager
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[StoppedClock]:
    """Stop the clock until the end of the block."""
    time = StoppedClock()
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "time", lambda: time.now)
        patch.setattr(Clock, "now", staticmethod(lambda: time.now))
        yield time
