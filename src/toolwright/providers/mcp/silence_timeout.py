"""Silence timeout: how long a server may give no sign of a call that it works on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from toolwright.core.clock import Clock, Deadline, Deadlines

if TYPE_CHECKING:
    from toolwright.providers.mcp.request import Request


class SilenceTimeout:
    """Gives up requests of a connection whose server has been silent for too long. All share one timer."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._deadlines = Deadlines(Clock())
        self._running: dict[Request, Deadline] = {}

    def start(self, request: Request) -> None:
        """Give it up after so many seconds from now without a sign."""
        if self._seconds is not None:
            expired = partial(self._give_up, request, self._seconds)
            self._running[request] = self._deadlines.start(self._seconds, expired)

    def restart(self, request: Request) -> None:
        """The server has given a sign of it."""
        if self.stop(request):
            self.start(request)

    def stop(self, request: Request) -> bool:
        """It may be silent now. Whether it was watched."""
        deadline = self._running.pop(request, None)
        if deadline is None:
            return False
        deadline.cancel()
        return True

    def close(self) -> None:
        """Watch no request any more."""
        self._running.clear()
        self._deadlines.close()

    def _give_up(self, request: Request, seconds: float) -> None:
        self._running.pop(request, None)
        request.give_up(seconds)
