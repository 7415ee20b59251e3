"""PacedStarts: lets few requests begin in each iteration of the event loop, so that each iteration is short.

If hundreds of requests begin in one, whatever arrives meanwhile waits until all of them have taken their first step:
also a request that is only to be refused. Requests that wait for an iteration are counted as requests in flight.
"""

from __future__ import annotations

import asyncio
from collections import deque

MAX_STARTS_PER_ITERATION = 4


class PacedStarts:
    """Lets requests begin in the order in which they came."""

    def __init__(self) -> None:
        self._starts_left = MAX_STARTS_PER_ITERATION
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False

    async def wait(self) -> None:
        """Return at once if few requests have begun in this iteration of the event loop, else in a later one."""
        self._schedule()
        if self._starts_left > 0 and not self._waiting:
            self._starts_left -= 1
            return
        may_start: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(may_start)
        await may_start

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_iteration)

    def _begin_iteration(self) -> None:
        self._is_scheduled = False
        self._starts_left = MAX_STARTS_PER_ITERATION
        while self._waiting and self._starts_left > 0:
            may_start = self._waiting.popleft()
            if not may_start.done():  # else its request was cancelled
                may_start.set_result(None)
                self._starts_left -= 1
        if self._starts_left < MAX_STARTS_PER_ITERATION:
            self._schedule()
