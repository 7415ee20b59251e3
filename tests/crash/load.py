"""Load: many calls, approvals and answers at once, for as long as a server is killed and comes back under them."""

from __future__ import annotations

import asyncio
import time
from itertools import count

from surehand import Failed, Outcome, Pending
from tests.crash.caller import Caller
from tests.crash.scenarios import Asked

WORKERS = 8
LONGEST = 20.0
"""Seconds of one and the same news after which a call counts as stuck: it should go on once the server is back."""
_TOOLS = (("pay", "to"), ("wire", "to"), ("ask", ""), ("look_up", "what"), ("book", "what"), ("post", "to"))


async def load(caller: Caller) -> None:
    """Until somebody says stop; every call is seen through to its end."""
    stop, numbers = caller.world.folder / "stop", count(1)

    async def work() -> None:
        while not stop.exists():
            number = next(numbers)
            tool, name = _TOOLS[number % len(_TOOLS)]
            given = None if number % 7 == 0 and tool == "pay" else f"{tool}-{number}"
            await see_through(caller, Asked(tool, {name: f"n{number}"} if name else {}, given))

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(work())


async def see_through(caller: Caller, asked: Asked) -> None:
    """What an agent does: ask again for what was not there, wait for what goes on, leave doubts to people."""
    outcome, told, since = await caller.call(asked), "", 0.0
    while asked.call_id is not None and _is_open(outcome):
        if told != outcome.text:
            told, since = outcome.text, time.monotonic()
        if time.monotonic() > since + LONGEST:
            caller.world.note("stuck", [{"call_id": asked.call_id, "told": told}])
            return
        await asyncio.sleep(0.02)
        outcome = await go_on(caller, asked, outcome)


async def go_on(caller: Caller, asked: Asked, outcome: Outcome) -> Outcome:
    assert asked.call_id is not None
    if isinstance(outcome, Pending) and outcome.waiting_for == "approval":
        return await caller.say("approve", asked.call_id)
    if isinstance(outcome, Pending) and asked.tool == "ask":
        return await caller.say("settle", asked.call_id)
    return await caller.call(asked)


def _is_open(outcome: Outcome) -> bool:
    return isinstance(outcome, Pending) or (isinstance(outcome, Failed) and outcome.code == "unavailable")
