"""Load for the server outage tests: many concurrent calls, approvals and answers, until the test stops them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from pathlib import Path

from surehand import Failed, Outcome, Pending
from surehand.store.database import StoreError
from tests.crash.caller import Caller
from tests.crash.scenarios import RequestedCall

CONCURRENT_CALLERS = 8
POLL_SECONDS = 0.02
STUCK_AFTER_POLLS = 1_000
"""Polls with the same reply after which a call counts as stuck: it should end once the server is back.

Not a time: on a busy machine the polls take longer, as everything else does.
"""
_TOOLS_AND_PARAMETERS = (
    ("pay", "to"),
    ("wire", "to"),
    ("ask", "what"),
    ("look_up", "what"),
    ("book", "what"),
    ("post", "to"),
    ("travel", "to"),
    ("delegate", "to"),
)
REPEATED_EVERY = 9
"""One in so many calls is made twice without an id, so that the second follows the first."""


async def run_load(caller: Caller) -> None:
    """Make calls, and wait for each to end, until the file `stop` exists."""
    stop, numbers = caller.run_log.folder / "stop", count(1)

    async def make_calls() -> None:
        while not stop.exists():
            number = next(numbers)
            if number % REPEATED_EVERY == 0:
                await repeat_call(caller, RequestedCall("wire", {"to": f"twice {number}"}))
                continue
            tool, name = _TOOLS_AND_PARAMETERS[number % len(_TOOLS_AND_PARAMETERS)]
            call_id = None if number % 7 == 0 and tool == "pay" else f"{tool}-{number}"
            await call_until_ended(caller, RequestedCall(tool, {name: f"n{number}"}, call_id))

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENT_CALLERS):
            group.create_task(make_calls())
        group.create_task(drive_runs(caller, stop))


async def drive_runs(caller: Caller, stop: Path) -> None:
    """Drive the runs that calls of `delegate` wait for, and answer the questions of their calls."""
    while not stop.exists():
        with suppress(StoreError):  # the server is down; the next process drives a run that this one has claimed
            await caller.driver.drive_free()
            for wait in await caller.scope.pending():
                if wait.run is not None:
                    await caller.answer(wait)
        await asyncio.sleep(POLL_SECONDS)


async def repeat_call(caller: Caller, requested: RequestedCall) -> None:
    """Make a call that waits, make it again, and answer the first."""
    first = await caller.call(requested)
    await caller.call(requested)
    if isinstance(first, Pending):
        await caller.reply("approve", first.call_id)


async def call_until_ended(caller: Caller, requested: RequestedCall) -> None:
    """Call and answer like an agent: retry while the store is unavailable, and wait while the call is pending."""
    outcome, last_reply, polls = await caller.call(requested), "", 0
    while requested.call_id is not None and _is_open(outcome) and not _waits_for_run(requested, outcome):
        polls = polls + 1 if last_reply == outcome.text else 0
        last_reply = outcome.text
        if polls > STUCK_AFTER_POLLS:
            caller.run_log.note("stuck", [{"call_id": requested.call_id, "reply": last_reply}])
            return
        await asyncio.sleep(POLL_SECONDS)
        outcome = await continue_call(caller, requested, outcome)


async def continue_call(caller: Caller, requested: RequestedCall, outcome: Outcome) -> Outcome:
    assert requested.call_id is not None
    if isinstance(outcome, Pending) and outcome.waiting_for == "approval":
        return await caller.reply("approve", requested.call_id)
    if isinstance(outcome, Pending) and requested.tool == "ask":
        return await caller.reply("settle", requested.call_id)
    return await caller.call(requested)


def _waits_for_run(requested: RequestedCall, outcome: Outcome) -> bool:
    """Whether the call has started a run that goes on by itself, at the latest in the next process."""
    return requested.tool == "delegate" and isinstance(outcome, Pending)


def _is_open(outcome: Outcome) -> bool:
    return isinstance(outcome, Pending) or (
        isinstance(outcome, Failed) and outcome.code == "unavailable" and not outcome.executed
    )
