"""Running calls: the calls of this process that can be interrupted, and the tasks that wait for the end of a call."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from surehand.core.call import Principal
from surehand.core.clock import Clock
from surehand.core.errors import FailureCode, NotStarted
from surehand.core.outcome import Outcome
from surehand.runtime.background_tasks import CANCELLATION_GRACE_SECONDS

log = logging.getLogger("surehand")


class InterruptibleCall(Protocol):
    """A call that runs now and can be interrupted. An `Invocation` is one."""

    assigned_id: str | None

    @property
    def parent(self) -> str | None: ...
    @property
    def attempt(self) -> int: ...
    @property
    def tool_name(self) -> str: ...
    @property
    def principal(self) -> Principal: ...
    @property
    def is_waiting_for_answer(self) -> bool: ...
    @property
    def is_waiting_for_person(self) -> bool: ...
    @property
    def person_seconds(self) -> float: ...

    def interrupt(self, code: FailureCode, message: str) -> None: ...


class RunningCalls:
    """The calls that run while the runtime is open, on the event loop that it was opened on."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.is_open = False
        self.event_loop: asyncio.AbstractEventLoop | None = None
        """The event loop that the runtime was opened on, while it is open."""
        self.calls: set[InterruptibleCall] = set()
        self.ends = CallEnds()

    def open(self) -> None:
        """Let calls run, on the event loop that runs now."""
        self.is_open = True
        self.event_loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Let no further call run."""
        self.is_open = False
        self.event_loop = None

    def end(self, call: InterruptibleCall, outcome: Outcome) -> None:
        """Forget a call that has its outcome, and wake the tasks that wait for it."""
        self.calls.discard(call)
        ends = self.ends
        if ends.waiters:
            ends.notify(call.assigned_id, outcome)
        if ends.resumed_calls:
            ends.resolve(call, outcome)

    def visible_to(self, viewer: Principal) -> list[InterruptibleCall]:
        """The calls that run now of the viewer's user and session; all of them if it has neither."""
        return [
            call
            for call in self.calls
            if viewer.user in (None, call.principal.user) and viewer.session in (None, call.principal.session)
        ]

    def is_closed(self) -> bool:
        """Whether the runtime has been closed; a method, because it may change during an await."""
        return not self.is_open

    def wrong_loop_error(self) -> NotStarted:
        """The error of a call that was made on another event loop, or before the runtime was opened."""
        if self.is_open:
            return NotStarted("The runtime belongs to another event loop. Call it there, or open one here.")
        return NotStarted("The runtime is not running. Use `async with Runtime(...) as runtime:`.")

    async def cancel_all(self) -> None:
        """Cancel all calls, and wait until they have ended, but at most four times the grace period."""
        self._interrupt_all()
        waited = 0.0
        while self.calls and waited < 4 * CANCELLATION_GRACE_SECONDS:
            await asyncio.sleep(CANCELLATION_GRACE_SECONDS / 50 if waited else 0)
            waited += CANCELLATION_GRACE_SECONDS / 50
        for call in list(self.calls):
            log.warning(
                "The call of %s is still running although it was cancelled; it is cancelled again.", call.tool_name
            )
        self._interrupt_all()
        await asyncio.sleep(0)

    def _interrupt_all(self) -> None:
        for call in list(self.calls):
            call.interrupt("cancelled", f"{call.tool_name} was cancelled: the runtime closed.")


class CallEnds:
    """The tasks of this process that wait for the end of a call, whichever process runs it, by call id.

    `Scope.result` waits here. A call that ends in this process wakes its waiters itself; store maintenance wakes those
    of calls that another process ended.
    """

    def __init__(self) -> None:
        self.waiters: dict[str, set[asyncio.Future[Outcome | None]]] = {}
        self.resumed_calls: dict[InterruptibleCall, asyncio.Future[Outcome]] = {}
        """For each waiting call that goes on with an answer, what the task that gave the answer waits for."""

    def wait_for_resumed(self, call: InterruptibleCall) -> asyncio.Future[Outcome]:
        """A future that is resolved when this pass of a call ends, or when the call waits again."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.resumed_calls[call] = future
        return future

    def resolve(self, call: InterruptibleCall, outcome: Outcome) -> None:
        """Give the outcome of a resumed call to the task that has answered it."""
        future = self.resumed_calls.pop(call, None)
        if future is not None and not future.done():
            future.set_result(outcome)

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
