"""PacedStarts: lets few requests begin in each turn of the event loop, so that each turn is short.

If hundreds of requests begin in one turn, whatever arrives meanwhile waits until all of them have taken their first
step: also a request that is only to be refused. Requests that wait for a turn are counted as requests in flight.
"""

from __future__ import annotations

import asyncio
from collections import deque

MAX_STARTS_PER_TURN = 4


class PacedStarts:
    """Gives each request its turn, in the order in which they came."""

    def __init__(self) -> None:
        self._left = MAX_STARTS_PER_TURN
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False

    async def wait(self) -> None:
        """Return at once if few requests have begun in this turn of the event loop, else in a later turn."""
        self._schedule()
        if self._left > 0 and not self._waiting:
            self._left -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_scheduled = False
        self._left = MAX_STARTS_PER_TURN
        while self._waiting and self._left > 0:
            turn = self._waiting.popleft()
            if not turn.done():  # else its request was cancelled
                turn.set_result(None)
                self._left -= 1
        if self._left < MAX_STARTS_PER_TURN:
            self._schedule()
