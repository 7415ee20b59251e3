"""Time that stands still: what comes after so many seconds comes when a test lets them pass, on the slowest machine."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from surehand.core.clock import Clock


class Standing:
    """The time of the running loop."""

    def __init__(self) -> None:
        self.now = asyncio.get_running_loop().time()

    async def passes(self, seconds: float) -> None:
        """So many seconds, and all that they bring about; what was there to do before is done first."""
        for more in (0, seconds):
            self.now += more
            for _ in range(30):
                await asyncio.sleep(0)


@contextmanager
def standing_still(monkeypatch: pytest.MonkeyPatch) -> Iterator[Standing]:
    """From now on to the end of the block."""
    time = Standing()
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "time", lambda: time.now)
        patch.setattr(Clock, "now", staticmethod(lambda: time.now))
        yield time
