"""Another process on the same store, which works through a shared queue and which the tests stop or kill."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

from surehand import Context, Queue, Runtime, tool
from surehand.runtime.maintenance import store_maintenance
from surehand.store.postgres import database
from surehand.store.tables import owners
from tests.durable.child_process import watch_first_maintenance


def send(**message: Any) -> None:
    """Write the line with one system call, so that lines of several processes do not mix."""
    os.write(1, json.dumps(message).encode() + b"\n")


async def wait_for_message() -> str:
    """Wait for the next line from the parent process."""
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


async def work(address: str, log: str, numbers: str, endless: str = "") -> None:
    """Make many calls at once, and log the start and end of each; the `endless` one does not end."""
    store_maintenance.SEAL_INTERVAL_SECONDS, database.RECOVERY_GRACE_SECONDS = 0.1, 0.0
    log_file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def log_event(event: str, number: int) -> None:
        os.write(log_file, f"\n{event} {os.getpid()} {number} {time.monotonic_ns()} ;\n".encode())

    @tool(queue="narrow", effects={"read"})
    async def step(number: int) -> int:
        """Take a few milliseconds."""
        log_event("start", number)
        await asyncio.sleep(0.004 if str(number) != endless else 1_000)
        log_event("end", number)
        return number

    async with Runtime(step, store=address, queues={"narrow": Queue(concurrent=4, shared=True)}) as runtime:
        send(pid=os.getpid())
        await wait_for_message()
        calls = [runtime.call("step", {"number": int(number)}) for number in numbers.split(",")]
        outcomes = await asyncio.gather(*calls)
        send(done=sum(outcome.ok for outcome in outcomes), not_done=[str(o) for o in outcomes if not o.ok][:3])


async def pause(address: str, call_id: str) -> None:
    """Make one call in a process without further maintenance, which the test suspends for a while."""
    owners.LEASE_SECONDS = 0.4
    store_maintenance.MAINTENANCE_INTERVAL_SECONDS = 1_000.0
    database.RECOVERY_GRACE_SECONDS = 0.0

    @tool(queue="narrow", effects={"write"})
    async def pay(ctx: Context, amount: int) -> str:
        """Pay money."""
        send(started=ctx.call_id)
        await wait_for_message()
        return f"paid {amount}, late"

    maintained = watch_first_maintenance()
    async with Runtime(pay, store=address, queues={"narrow": Queue(concurrent=1, shared=True)}) as runtime:
        await maintained.wait()
        outcome = await runtime.call("pay", {"amount": 5}, call_id=call_id)
        send(outcome=outcome.text, in_use=runtime.queues()["narrow"].in_use)
        await wait_for_message()


if __name__ == "__main__":
    commands = {"work": work, "pause": pause}
    asyncio.run(commands[sys.argv[1]](*sys.argv[2:]))
