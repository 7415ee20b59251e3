"""Call ends: the tasks of this process that wait for the end of a call, whichever process runs it.

`Scope.result` waits here. A call that ends in this process wakes its waiters itself; store maintenance wakes those of
calls that another process ended.
"""

from __future__ import annotations

import asyncio

from surehand.core.outcome import Outcome


class CallEnds:
    """Waiting tasks by call id."""

    def __init__(self) -> None:
        self.waiters: dict[str, set[asyncio.Future[Outcome | None]]] = {}

    @property
    def awaited_call_ids(self) -> list[str]:
        """The calls whose end a task waits for."""
        return list(self.waiters)

    def add_waiter(self, call_id: str) -> asyncio.Future[Outcome | None]:
        """A future that is resolved when the call may have ended, with its outcome if that is known."""
        waiter: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        self.waiters.setdefault(call_id, set()).add(waiter)
        return waiter

    def remove_waiter(self, call_id: str, waiter: asyncio.Future[Outcome | None]) -> None:
        """Forget a future."""
        waiters = self.waiters.get(call_id, set())
        waiters.discard(waiter)
        if not waiters:
            self.waiters.pop(call_id, None)

    def notify(self, call_id: str | None, outcome: Outcome | None = None) -> None:
        """Wake the tasks that wait for a call."""
        for waiter in self.waiters.get(call_id or "", ()):
            if not waiter.done():
                waiter.set_result(outcome)

    def close(self) -> None:
        """Wake all waiting tasks: the runtime closes."""
        for call_id in self.awaited_call_ids:
            self.notify(call_id)
