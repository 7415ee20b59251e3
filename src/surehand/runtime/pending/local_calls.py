"""Local pending calls: what only the process knows that made a pending call, or that answers one now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from surehand.core.clock import Clock, Timer, wake
from surehand.core.quotas import Quota
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.pending.answer import AnswerInProgress


class LocalPendingCalls:
    """The invocations, waiting callers and answers of this process, by call id. The store holds the rest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.invocations: dict[str, Invocation] = {}
        """Pending calls that this process made: their scopes hold values that cannot be stored."""
        self.waiting_callers: dict[str, asyncio.Future[bool | None]] = {}
        """Futures of the callers that wait for the answer instead of returning Pending."""
        self.answers_in_progress: dict[str, AnswerInProgress] = {}
        self.user_quota: Quota[str] | None = None
        """Limit on pending calls per user, if there is one."""
        self.open_count = 0
        """Number of pending calls in the store, as far as this runtime knows."""

    async def wait_for_answer(self, invocation: Invocation, timeout_seconds: float) -> bool:
        """Keep the caller waiting for the answer; False on timeout, and the call stays pending."""
        invocation.make_interruptible()
        answered: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self.waiting_callers[invocation.id] = answered
        interruption = invocation.interruption
        if interruption is not None:
            interruption.answer_future = answered
        timer = self._clock.call_later(timeout_seconds, wake, answered) if timeout_seconds < inf else None
        try:
            with invocation.waiting_for_person():
                return bool(await answered)
        finally:
            if timer is not None:
                timer.cancel()
            self.waiting_callers.pop(invocation.id, None)
            if interruption is not None:
                interruption.answer_future = None

    def drop_arguments(self, invocation: Invocation) -> None:
        """Replace a parked invocation by one without arguments: they are in the store, and need no memory here."""
        if self.invocations.get(invocation.id) is invocation:
            self.invocations[invocation.id] = invocation.without_arguments()

    def on_answer_recorded(self, invocation: Invocation) -> None:
        """Say that an answer is committed, together with the end of its call."""
        in_progress = self.answers_in_progress.get(invocation.id)
        if in_progress is not None and in_progress.on_recorded is not None:
            in_progress.on_recorded(invocation)

    def on_call_ended(self, invocation: Invocation) -> None:
        """Forget a call that has its outcome."""
        self.remove(invocation.id)
        if invocation.resumption.round:
            self.open_count -= 1

    def remove(self, call_id: str) -> Invocation | None:
        """Forget a call that is no longer pending; returns its invocation if this process made it."""
        if self.user_quota is not None:
            self.user_quota.release(call_id)
        return self.invocations.pop(call_id, None)


class ExpiryTimer:
    """One timer for all pending calls of a runtime, set to the earliest of their ends."""

    def __init__(self, clock: Clock, on_due: Callable[[], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._timer: Timer | None = None
        self._fires_at = inf

    def schedule(self, expires_at: float | None) -> None:
        """Start the timer, unless it fires earlier anyway."""
        if expires_at is None or expires_at >= self._fires_at:
            return
        self.cancel()
        self._fires_at = expires_at
        self._timer = self._clock.call_later(max(expires_at - self._clock.time(), 0.0), self.fire)

    def fire(self) -> None:
        """Have the overdue calls ended now."""
        self.cancel()
        self._on_due()

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._fires_at = inf
