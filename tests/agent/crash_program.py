"""A program with an agent for tests that kill it: it writes down each request to the model and each effect.

Usage: crash_program.py FOLDER KILL_AT. It kills itself with SIGKILL when it comes to the moment number KILL_AT.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from surehand import Agent, Policy, Runtime, tool
from surehand.store.database import Database
from surehand.testing import ScriptedModel

FOLDER = Path(sys.argv[1])
KILL_AT = int(sys.argv[2])
moments = count(1)


def moment() -> None:
    """A point at which the process may die."""
    if next(moments) == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)


def note(word: str) -> None:
    """Write a line that survives the process."""
    with (FOLDER / "notes.txt").open("a") as file:
        file.write(word + "\n")


@tool(effects={"read"})
async def balance() -> int:
    """How much money there is."""
    moment()
    return 900


@tool(effects={"write"})
async def pay(amount: int, to: str) -> str:
    """Pay a person."""
    moment()
    note(f"effect {amount}")
    moment()
    return f"Paid {amount} to {to}."


@tool(effects={"write"}, confirm=False)
async def log(text: str) -> str:
    """Write to the log, without asking."""
    moment()
    note(f"effect {text}")
    moment()
    return "logged"


def reply(messages: list[dict[str, Any]]) -> Any:
    """What the model answers depends on the conversation alone, as that of a real model."""
    moment()
    answers = sum(message["role"] == "assistant" for message in messages)
    note(f"request {answers}")
    moment()
    match answers:
        case 0:
            return [("balance", {}), ("log", {"text": "started"})]
        case 1:
            return [("pay", {"amount": 250, "to": "Ada"}), ("pay", {"amount": 100, "to": "Eve"})]
        case 2:
            return [("log", {"text": "finished"})]
    return "All are paid."


def interrupt_writes() -> None:
    """Make every write of the store two moments: before it and after it."""
    from surehand.store.sqlite.database import SqliteDatabase

    write: Callable[..., Any] = SqliteDatabase.write

    async def interrupted_write(self: Database, *args: Any, **options: Any) -> Any:
        moment()
        result = await write(self, *args, **options)
        moment()
        return result

    SqliteDatabase.write = interrupted_write  # type: ignore[method-assign]


async def main() -> None:
    policy = Policy([{"tools": "pay", "decision": "ask"}])
    agent = Agent("clerk", model=ScriptedModel(*[reply] * 20))
    async with Runtime(balance, pay, log, policy=policy, store=str(FOLDER / "agent.db")) as runtime:
        run = await agent.run("Pay Ada and Eve.", run_id="r1", user="ada", session="s1", runtime=runtime)
        for _ in range(5):
            if run.status != "waiting":
                break
            for wait in run.waiting:
                if wait.waiting_for == "approval":
                    await runtime.approve(wait.call_id)
                else:  # a person looks at the bank's books
                    done = f"effect {wait.arguments.get('amount', wait.arguments.get('text'))}"
                    happened = done in (FOLDER / "notes.txt").read_text().splitlines()
                    if not happened:
                        note(f"told: no {done}")
                    await runtime.settle(wait.call_id, "It has happened." if happened else "It has not happened.")
            moment()
            run = await agent.resume(run.id, runtime=runtime)
        print(run.status, run.text, run.usage.requests, flush=True)
    print("moments", next(moments) - 1, flush=True)


if __name__ == "__main__":
    interrupt_writes()
    asyncio.run(main())
