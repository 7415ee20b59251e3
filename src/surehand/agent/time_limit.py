"""The time limit of a run: it ends what the run waits for and the calls that still run, so that the model wraps up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from surehand.core.outcome import Outcome
from surehand.runtime.invocation.invocation import Invocation

if TYPE_CHECKING:
    from surehand.core.clock import Clock, Timer
    from surehand.runtime.scope import Scope

CHECK_SECONDS = 1.0
"""How often calls are ended after the limit was reached: one that waited for a person has more time."""


class TimeIsUp(Exception):
    """The time limit of the run is reached."""


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float | None) -> AsyncIterator[None]:
    """Raise `TimeIsUp` in the block when the time is over."""
    if seconds is None:
        yield
        return
    task = asyncio.current_task()
    assert task is not None
    cancelling_before = task.cancelling()  # a caller that was cancelled before may still run an agent
    is_over = False

    def end() -> None:
        nonlocal is_over
        is_over = True
        task.cancel()

    timer = clock.call_later(max(seconds, 0.0), end)
    try:
        yield
    except asyncio.CancelledError:
        if is_over and task.uncancel() <= cancelling_before:
            raise TimeIsUp from None
        raise
    finally:
        timer.cancel()


class CallTimeLimit:
    """Ends the calls of one run at its time limit. The time in which a call waits for a person does not count."""

    def __init__(self, scope: Scope, run_id: str, limit_seconds: float | None) -> None:
        self._scope = scope
        self._run_id = run_id
        self._limit_seconds = limit_seconds
        self._ends_at = 0.0
        """When a call is ended that has waited for no person; another one has as much longer as it waited."""
        self._timer: Timer | None = None

    @contextmanager
    def apply(self, seconds_left: float | None) -> Iterator[None]:
        """End the calls that still run after these seconds, as long as the block runs."""
        if seconds_left is None:
            yield
            return
        self._ends_at = self._scope.clock.now() + seconds_left
        self._start_timer(max(seconds_left, 0.0))
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _start_timer(self, seconds: float) -> None:
        self._timer = self._scope.clock.call_later(seconds, self._end_calls)

    def _end_calls(self) -> None:
        seconds_over = self._scope.clock.now() - self._ends_at
        for call in self._scope.running_calls():
            is_of_run = call.principal.turn == self._run_id and call.parent is None
            if is_of_run and not call.is_waiting_for_person and seconds_over >= call.person_seconds:
                limit = f"the limit of {self._limit_seconds:g} seconds of this run is reached"
                call.interrupt("timed_out", f"{call.tool_name} was stopped: {limit}.")
        self._start_timer(CHECK_SECONDS)


def seconds_for_people(outcomes: Sequence[Outcome], seconds: float) -> float:
    """The seconds in which calls that were made together waited for people, and for nothing else.

    Args:
        seconds: how long it took until all calls had ended.
    """
    calls = [outcome.origin for outcome in outcomes if isinstance(outcome.origin, Invocation)]
    waits = [call.person_seconds for call in calls if call.person_seconds]
    if not waits:
        return 0.0
    others = [call.elapsed_seconds() for call in calls if not call.person_seconds]
    seconds_after_others = seconds - max(others, default=0.0)
    return max(min(*waits, seconds_after_others), 0.0)
