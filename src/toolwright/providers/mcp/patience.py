"""Patience: how long the calls of a connection may give no sign, with one timer for all of them."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolwright.providers.mcp.request import Request


class Patience:
    """Most calls end long before the timer rings: it is neither set nor stopped for each of them."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._signs: dict[Request, float] = {}
        """When each was last heard of; the longest silent first."""
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, request: Request) -> None:
        """Give it up once it has been silent for so long from now."""
        if self.seconds is not None:
            self._signs[request] = monotonic()
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(self.seconds, self._look)

    def heard(self, request: Request) -> None:
        """It has given a sign."""
        if self._signs.pop(request, None) is not None:
            self.watch(request)

    def leave(self, request: Request) -> None:
        """It may be silent now."""
        self._signs.pop(request, None)

    def close(self) -> None:
        """Nobody is left to be watched."""
        self._signs.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        assert self.seconds is not None
        self._timer = None
        for request, sign in list(self._signs.items()):
            if (left := sign + self.seconds - monotonic()) > 0:
                self._timer = asyncio.get_running_loop().call_later(left, self._look)
                return
            del self._signs[request]
            request.give_up(self.seconds)
