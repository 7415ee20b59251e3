"""The silence timeout: a call fails when its server sends neither progress nor a response for this long.

It is the option `timeout` of a server, and not its option `idle`, which stops a server without calls.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from surehand.core.clock import Clock, Deadline, Deadlines


class TimedRequest(Protocol):
    """A request that the silence timeout can watch."""

    def time_out(self, seconds: float) -> None:
        """Fail: the server was silent for so long."""
        ...


class SilenceTimeout:
    """Watches the requests of one session. They share one timer."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._deadlines = Deadlines(Clock())
        self._running_deadlines: dict[TimedRequest, Deadline] = {}

    def start(self, request: TimedRequest) -> None:
        """Fail the request if the server is silent about it from now on."""
        if self._seconds is not None:
            expired = partial(self._on_expired, request, self._seconds)
            self._running_deadlines[request] = self._deadlines.start(self._seconds, expired)

    def restart(self, request: TimedRequest) -> None:
        """Count again from now: the server has sent something about the request."""
        if self.stop(request):
            self.start(request)

    def stop(self, request: TimedRequest) -> bool:
        """Stop watching a request. Returns whether it was watched."""
        deadline = self._running_deadlines.pop(request, None)
        if deadline is None:
            return False
        deadline.cancel()
        return True

    def close(self) -> None:
        """Stop watching all requests."""
        self._running_deadlines.clear()
        self._deadlines.close()

    def _on_expired(self, request: TimedRequest, seconds: float) -> None:
        self._running_deadlines.pop(request, None)
        request.time_out(seconds)
