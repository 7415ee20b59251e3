"""Result: waits for the end of a call, in this process or in another one. Used by `Scope.result`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from surehand.core.clock import wake
from surehand.core.errors import FAILURE_CODES, FailureCode
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.pending.pending_calls import pending_call_from_row
from surehand.runtime.pending.status import CallStatus, find_call_status

if TYPE_CHECKING:
    from surehand.runtime.invocation.invocation import Invocation
    from surehand.runtime.scope import Scope


async def wait_for_result(scope: Scope, call_id: str, timeout_seconds: float | None) -> Outcome:
    """The outcome of a call that has ended or ends in time; else the Pending, or `not_found` for an unknown id."""
    services = scope.services
    started_at = services.clock.time()
    while True:
        # Register first: a call that ends while the store is read wakes the waiter.
        waiter = services.call_ends.add_waiter(call_id)
        try:
            known = await _find_outcome(scope, call_id)
            if known is None:
                return Failed("not_found", f"No call {call_id[:80]} is known.")
            if not isinstance(known, Pending):
                return known
            seconds_left = None
            if timeout_seconds is not None:
                seconds_left = timeout_seconds - (services.clock.time() - started_at)
            if seconds_left is not None and seconds_left <= 0:
                return known
            if services.is_closed():
                return Failed("unavailable", f"The runtime closed before call {call_id} ended.")
            outcome = await _wait(scope, waiter, seconds_left)
        finally:
            services.call_ends.remove_waiter(call_id, waiter)
        # A call that the store does not know is not found there: its outcome is what it ended with here.
        if outcome is not None and not isinstance(outcome, Pending):
            stored = await _find_stored_outcome(scope, call_id)
            return outcome if stored is None or isinstance(stored, Pending) else stored


async def _wait(scope: Scope, waiter: asyncio.Future[Outcome | None], seconds: float | None) -> Outcome | None:
    timer = None if seconds is None else scope.services.clock.call_later(seconds, wake, waiter)
    try:
        return await waiter
    finally:
        if timer is not None:
            timer.cancel()


async def _find_outcome(scope: Scope, call_id: str) -> Outcome | None:
    """The outcome of a call, a Pending while it has none, or None if the scope may not see such a call."""
    running = _find_running_call(scope, call_id)  # first: it may end while the store is read
    stored = await _find_stored_outcome(scope, call_id)
    if stored is not None:
        return stored
    return None if running is None else Pending("result", call_id, f"{running.tool_name} is running.")


def _find_running_call(scope: Scope, call_id: str) -> Invocation | None:
    visible = scope.running_calls()
    return next((invocation for invocation in visible if invocation.assigned_id == call_id), None)


async def _find_stored_outcome(scope: Scope, call_id: str) -> Outcome | None:
    services = scope.services
    status = await find_call_status(services, call_id, scope.principal)
    if status is None:
        return None
    if status.state == "ended" or isinstance(status.outcome, Pending):
        return status.outcome
    if status.state == "unknown":
        row = await services.pending_calls.find(call_id, scope.principal)
        if row is not None and row.open_round is not None:
            return pending_call_from_row(row, row.open_round).to_outcome()
    if status.state == "idle" and _find_running_call(scope, call_id) is None:
        return await _outcome_without_effect(scope, status)
    progress = "was answered and goes on" if status.state in ("ready", "taken") else "is running"
    return Pending("result", call_id, f"{status.tool} {progress}.")


async def _outcome_without_effect(scope: Scope, status: CallStatus) -> Outcome:
    """The failure of a call that ended before its handler ran; a Pending if another process may still run it."""
    services = scope.services
    code: FailureCode = "interrupted"
    if services.is_durable and services.store is not None:
        ended = [entry for entry in await services.store.journal.of_call(status.call_id) if entry.kind == "ended"]
        if not ended:
            return Pending("result", status.call_id, f"{status.tool} has not ended.")
        code = cast(FailureCode, ended[-1].status) if ended[-1].status in FAILURE_CODES else code
    problem = f"{status.tool} ended without an effect ({code}). It may be called again under the id {status.call_id}."
    return Failed(code, problem)
