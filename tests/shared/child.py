"""Another process on the same store: it works through a shared queue, is stopped, or is killed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

from surehand import Context, Queue, Runtime, tool
from surehand.runtime.durability import maintenance
from surehand.store.postgres import database
from surehand.store.tables import owners
from tests.durable.child import looks_once


def say(**what: Any) -> None:
    """One write for one line, so that nothing comes between."""
    os.write(1, json.dumps(what).encode() + b"\n")


async def heard() -> str:
    """The next line from whoever started this."""
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


async def work(address: str, log: str, numbers: str, endless: str = "") -> None:
    """Make many calls at once, and write down when each starts and ends; one may never end."""
    maintenance.SEAL_INTERVAL_SECONDS, database.RECOVERY_GRACE_SECONDS = 0.1, 0.0
    notes = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(what: str, number: int) -> None:
        os.write(notes, f"\n{what} {os.getpid()} {number} {time.monotonic_ns()} ;\n".encode())

    @tool(queue="narrow", effects={"read"})
    async def step(number: int) -> int:
        """Take a few milliseconds."""
        note("start", number)
        await asyncio.sleep(0.004 if str(number) != endless else 1_000)
        note("end", number)
        return number

    async with Runtime(step, store=address, queues={"narrow": Queue(concurrent=4, shared=True)}) as runtime:
        say(pid=os.getpid())
        await heard()
        calls = [runtime.call("step", {"number": int(number)}) for number in numbers.split(",")]
        outcomes = await asyncio.gather(*calls)
        say(done=sum(outcome.ok for outcome in outcomes), not_done=[str(o) for o in outcomes if not o.ok][:3])


async def pause(address: str, call_id: str) -> None:
    """One call in a process that sees nothing but that call until it is done: it will be stopped for a while."""
    owners.LEASE_SECONDS, maintenance.MAINTENANCE_INTERVAL_SECONDS, database.RECOVERY_GRACE_SECONDS = 0.4, 1_000.0, 0.0

    @tool(queue="narrow", effects={"write"})
    async def pay(ctx: Context, amount: int) -> str:
        """Pay money."""
        say(started=ctx.call_id)
        await heard()
        return f"paid {amount}, late"

    looked = looks_once()
    async with Runtime(pay, store=address, queues={"narrow": Queue(concurrent=1, shared=True)}) as runtime:
        await looked.wait()
        outcome = await runtime.call("pay", {"amount": 5}, call_id=call_id)
        say(outcome=outcome.text, in_use=runtime.queues()["narrow"].in_use)
        await heard()


if __name__ == "__main__":
    stories = {"work": work, "pause": pause}
    asyncio.run(stories[sys.argv[1]](*sys.argv[2:]))
