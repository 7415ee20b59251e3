"""Load for the server outage tests: many concurrent calls, approvals and answers, until the test stops them."""

from __future__ import annotations

import asyncio
from itertools import count

from surehand import Failed, Outcome, Pending
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
    ("ask", ""),
    ("look_up", "what"),
    ("book", "what"),
    ("post", "to"),
)


async def run_load(caller: Caller) -> None:
    """Make calls, and wait for each to end, until the file `stop` exists."""
    stop, numbers = caller.run_log.folder / "stop", count(1)

    async def make_calls() -> None:
        while not stop.exists():
            number = next(numbers)
            tool, name = _TOOLS_AND_PARAMETERS[number % len(_TOOLS_AND_PARAMETERS)]
            call_id = None if number % 7 == 0 and tool == "pay" else f"{tool}-{number}"
            await call_until_ended(caller, RequestedCall(tool, {name: f"n{number}"} if name else {}, call_id))

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENT_CALLERS):
            group.create_task(make_calls())


async def call_until_ended(caller: Caller, requested: RequestedCall) -> None:
    """Call and answer like an agent: retry while the store is unavailable, and wait while the call is pending."""
    outcome, last_reply, polls = await caller.call(requested), "", 0
    while requested.call_id is not None and _is_open(outcome):
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


def _is_open(outcome: Outcome) -> bool:
    return isinstance(outcome, Pending) or (isinstance(outcome, Failed) and outcome.code == "unavailable")
