"""A process that triggers an agent and works on the event, until it comes to the moment at which it kills itself.

Usage: worker_program.py FOLDER ADDRESS KILL_AT. Its moments are before and after each write of the store, each effect
and each request to the model. Without a kill (0) it ends when the run of the event has ended, and prints how many
moments there were.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from surehand import Agent, Policy, Runtime, Worker, tool
from surehand.store.postgres.database import PostgresDatabase
from surehand.store.sqlite.database import SqliteDatabase
from surehand.testing import ScriptedModel
from tests.crash.run_log_file import append_line, read_lines

FOLDER = Path(sys.argv[1])
ADDRESS = sys.argv[2]
KILL_AT = int(sys.argv[3])
moments = count(1)


def reach_moment() -> None:
    """A point at which the process may die."""
    if next(moments) == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)


def note(name: str, value: Any) -> None:
    """Write a line that survives the process."""
    reach_moment()
    append_line(FOLDER / name, value)
    reach_moment()


@tool(effects={"read"})
async def look_up(what: str) -> str:
    """Look something up."""
    return f"Found {what}."


@tool(effects={"write"})
async def pay(to: str) -> str:
    """Pay a person."""
    note("effects", f"pay {to}")
    return f"Paid {to}."


@tool(effects={"write"})
async def post(to: str) -> str:
    """Write to a person."""
    note("effects", f"post {to}")
    return f"Wrote to {to}."


def reply(messages: list[dict[str, Any]]) -> Any:
    """What the model answers depends on the conversation alone, as that of a real model."""
    answers = sum(message["role"] == "assistant" for message in messages)
    note("requests", answers)
    match answers:
        case 0:
            return [("look_up", {"what": "the bill"}), ("post", {"to": "ann"})]
        case 1:
            return [("pay", {"to": "bob"})]
    return "All is done."


def interrupt_writes(database: type[Any]) -> None:
    """Make every write of the store two moments: before it and after it."""
    write: Callable[..., Any] = database.write

    async def interrupted_write(self: Any, *args: Any, **options: Any) -> Any:
        reach_moment()
        result = await write(self, *args, **options)
        reach_moment()
        return result

    database.write = interrupted_write


async def answer_as_a_person(runtime: Runtime) -> None:
    """Approve payments, and say of calls whose effect is unknown whether it has happened."""
    for wait in await runtime.pending():
        if wait.waiting_for == "approval":
            await runtime.approve(wait.call_id)
        else:
            has_happened = f"{wait.tool} {wait.arguments['to']}" in read_lines(FOLDER / "effects")
            await runtime.settle(wait.call_id, "It has happened." if has_happened else "It has not happened.")


async def main() -> None:
    policy = Policy([{"tools": "pay", "decision": "ask"}])
    agent = Agent("clerk", model=ScriptedModel(*[reply] * 20), tools=[look_up, pay, post])
    async with Runtime(store=ADDRESS, policy=policy) as runtime, Worker(runtime, agents=[agent], shutdown_seconds=1.0):
        events = await asyncio.gather(*(runtime.trigger("clerk", "Pay Bob.", "e1") for _ in range(3)))
        while (event := await runtime.find_event("clerk", "e1")) is None or event.status == "waiting":
            await answer_as_a_person(runtime)
            await asyncio.sleep(0.01)
        assert {each.run_id for each in events} == {event.run_id}
    print(next(moments) - 1, flush=True)


if __name__ == "__main__":
    interrupt_writes(SqliteDatabase)
    interrupt_writes(PostgresDatabase)
    asyncio.run(main())
