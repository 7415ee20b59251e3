"""Interruption: how a running call is stopped from outside, by `cancel` or by its caller's time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from surehand.core.clock import Clock, Timer
from surehand.core.errors import FailureCode


class Interruption:
    """The task that a call runs in, and what has been done to stop it."""

    __slots__ = ("_cancelling_before", "_own_cancellations", "_timer", "answer_future", "deadline", "reason", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task: asyncio.Task[Any] | None = task
        self.reason: tuple[FailureCode, str] | None = None
        """Code and message with which the runtime itself stopped the call."""
        self.answer_future: asyncio.Future[Any] | None = None
        """Set while the caller itself waits for the answer to its pending call."""
        self.deadline: float | None = None
        """When the caller's own time limit is reached, on the runtime's clock."""
        self._timer: Timer | None = None
        self._cancelling_before = task.cancelling()
        self._own_cancellations = 0

    def start_timer(self, clock: Clock, seconds: float, on_due: Callable[[], None]) -> None:
        """Start the timer for the caller's own time limit."""
        self.deadline = clock.now() + seconds
        self._timer = clock.call_later(seconds, on_due)

    def interrupt(self, code: FailureCode, message: str) -> None:
        """Stop the call, unless it has ended; a caller that waits for an answer only stops waiting in time."""
        if code == "timed_out" and self.answer_future is not None:
            # The caller stops waiting and gets Pending; the question stays open.
            if not self.answer_future.done():
                self.answer_future.set_result(None)
        elif self.task is not None:
            # Cancel again if the task ignored an earlier cancellation; the first reason is the one that is reported.
            self.reason = self.reason or (code, message)
            if self.task is _current_task():
                # The call interrupts itself. Cancelling its task now would only take effect at the next await: if the
                # call ended without one, the cancellation would hit the caller instead.
                self.task.get_loop().call_soon(self._cancel_task)
            else:
                self._cancel_task()

    def _cancel_task(self) -> None:
        if self.task is not None:
            self._own_cancellations += 1
            self.task.cancel()

    def take_back_cancellation(self) -> bool:
        """Undo the runtime's own cancellations; true if there was no other reason to cancel the caller's task.

        `Task.uncancel` counts requests: what remains above the count at the start came from elsewhere.
        """
        if self.reason is None or self.task is None or not self._own_cancellations:
            return False
        while self._own_cancellations:
            self._own_cancellations -= 1
            remaining = self.task.uncancel()
        if remaining <= self._cancelling_before:
            return True
        self.reason = None  # the caller was cancelled from elsewhere too, and that counts
        return False

    def take_reason(self) -> tuple[FailureCode, str]:
        """The code and message of a call that the runtime stopped; clears them."""
        code, message = self.reason or ("cancelled", "")
        self.reason = None
        return code, message

    def end(self) -> None:
        """Stop the timer and forget the task: the call has its outcome."""
        if self.reason is not None:  # the call ended at the same moment, and its outcome counts
            self.take_back_cancellation()
        if self._timer is not None:
            self._timer.cancel()
        self.task = None


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # called from a thread without an event loop
        return None
