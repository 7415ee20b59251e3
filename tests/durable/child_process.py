"""Another process with a runtime on the same store, which the tests stop or kill, or whose disk is full."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from typing import Any

from surehand import Context, Done, Failed, Runtime, ToolError, tool
from surehand.runtime.durability import write_retry
from surehand.runtime.maintenance import store_maintenance
from surehand.store.tables import owners


def send(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def describe_outcome(outcome: Any) -> dict[str, Any]:
    """An outcome as JSON for the parent process."""
    match outcome:
        case Done(data):
            return {"done": data}
        case Failed(code):
            return {"failed": code, "executed": outcome.executed, "message": outcome.message}
    return {"pending": outcome.waiting_for}


async def wait_for_message() -> str:
    """Wait for the next line from the parent process."""
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


@tool(effects={"write"})
async def pay(ctx: Context, amount: int, to: str = "ann") -> str:
    """Pay money."""
    send(started=ctx.call_id, key=ctx.idempotency_key)
    await wait_for_message()
    return f"sent {amount} to {to}, late"


@tool(effects={"write"}, confirm=True)
async def transfer(ctx: Context, amount: int, to: str = "ann") -> str:
    """Transfer money."""
    send(started=ctx.call_id, key=ctx.idempotency_key)
    await wait_for_message()
    return f"sent {amount} to {to}, late"


async def call(address: str, name: str, call_id: str, amount: str) -> None:
    """Make one call and send its outcome; a `transfer` is approved here."""
    async with Runtime(pay, transfer, store=address) as runtime:
        outcome = await runtime.call(name, {"amount": int(amount)}, call_id=call_id)
        if name == "transfer":
            outcome = await runtime.approve(call_id)
        send(**describe_outcome(outcome))


async def call_in_session(address: str, name: str, amount: str) -> None:
    """Make one call without an id, in a session, and send its outcome."""
    async with Runtime(pay, transfer, store=address) as runtime:
        outcome = await runtime.scope(user="ada", session="s1").call(name, {"amount": int(amount)})
        send(**describe_outcome(outcome))
        await wait_for_message()


def watch_first_maintenance() -> asyncio.Event:
    """An event that is set after the first maintenance of a store, when it holds no lock any more."""
    run_once, maintained = store_maintenance.StoreMaintenance._run_once, asyncio.Event()

    async def run_and_set(self: store_maintenance.StoreMaintenance) -> None:
        await run_once(self)
        maintained.set()

    store_maintenance.StoreMaintenance._run_once = run_and_set  # type: ignore[method-assign]
    return maintained


async def pause(address: str, call_id: str, amount: str) -> None:
    """Make one call in a process without further maintenance, which the test suspends for a while."""
    owners.LEASE_SECONDS, store_maintenance.MAINTENANCE_INTERVAL_SECONDS = 0.4, 1_000.0
    maintained = watch_first_maintenance()
    async with Runtime(pay, store=address) as runtime:
        await maintained.wait()
        send(**describe_outcome(await runtime.call("pay", {"amount": int(amount)}, call_id=call_id)))


async def approve(address: str, call_id: str) -> None:
    """Approve a call in a runtime without its tool."""
    async with Runtime(store=address) as runtime:
        send(**describe_outcome(await runtime.approve(call_id)))


async def approve_transfer(address: str, call_id: str) -> None:
    """Approve a call of `transfer` in a runtime with its tool."""
    async with Runtime(transfer, store=address) as runtime:
        send(**describe_outcome(await runtime.approve(call_id)))


@tool(effects={"read"})
async def look(ctx: Context) -> str:
    """Look around."""
    send(started=ctx.call_id)
    await wait_for_message()
    return "seen"


async def show(address: str, *call_id: str) -> None:
    """Make a visible call that only reads."""
    async with Runtime(look, store=address) as runtime:
        scope = runtime.scope(space="team", agent="helper", turn="run-1")
        send(**describe_outcome(await scope.call("look", call_id=call_id[0] if call_id else None)))


@tool(effects={"write"}, confirm=True)
async def refund(amount: int) -> str:
    """Give money back, if there is any."""
    raise ToolError(f"{amount} is more than there is")


async def approve_edited(address: str, call_id: str, amount: str) -> None:
    """Approve a call with another amount, in a runtime with its tool."""
    async with Runtime(refund, store=address) as runtime:
        send(**describe_outcome(await runtime.approve(call_id, arguments={"amount": int(amount)}, by="bob")))


def limit_file_size(size: int) -> None:
    """Let no file grow beyond this many bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def call_on_full_disk(address: str) -> None:
    """Make calls while the disk is full, and calls that fill the disk before they end."""
    write_retry.RETRY_DELAYS_SECONDS, store_maintenance.SEAL_INTERVAL_SECONDS = (0.01, 0.01), 0.1
    ran: list[str] = []
    names_that_fill: set[str] = set()

    def fill_disk() -> None:
        limit_file_size(os.path.getsize(f"{address}-wal") + 1)

    @tool(effects={"write"})
    async def quick(ctx: Context, name: str) -> str:
        """Never wait."""
        ran.append(name)
        if name in names_that_fill:
            fill_disk()
        return f"{name} was done"

    @tool(effects={"write"})
    async def slow(ctx: Context, name: str) -> str:
        """Wait a little."""
        await asyncio.sleep(0)
        ran.append(name)
        if name in names_that_fill:
            fill_disk()
        return f"{name} was done"

    @tool(effects={"write"}, confirm=True)
    async def careful(ctx: Context, name: str) -> str:
        """Ask first."""
        ran.append(name)
        return f"{name} was done"

    async with Runtime(quick, slow, careful, store=address) as runtime:
        for name in ("quick", "slow"):
            await runtime.call(name, {"name": "before"}, call_id=f"{name} before")
            await runtime.call("careful", {"name": f"{name} waits"}, call_id=f"{name} waits")
            fill_disk()
            refused = await runtime.call(name, {"name": f"{name} refused"}, call_id=f"{name} refused")
            unnamed = await runtime.call(name, {"name": "unnamed"})
            approved = await runtime.approve(f"{name} waits")
            limit_file_size(resource.RLIM_INFINITY)
            send(
                refused=describe_outcome(refused),
                unnamed=describe_outcome(unnamed),
                approved=describe_outcome(approved),
                ran=ran,
            )
            names_that_fill.add(f"{name} full")
            doubtful = await runtime.call(name, {"name": f"{name} full"}, call_id=f"{name} full")
            meanwhile = await runtime.call(name, {"name": f"{name} full"}, call_id=f"{name} full")
            limit_file_size(resource.RLIM_INFINITY)
            send(doubtful=describe_outcome(doubtful), meanwhile=describe_outcome(meanwhile), ran=ran)
            await wait_for_message()
            again = await runtime.call(name, {"name": f"{name} full"}, call_id=f"{name} full")
            retried = await runtime.call(name, {"name": f"{name} refused"}, call_id=f"{name} refused")
            send(
                again=describe_outcome(again),
                retried=describe_outcome(retried),
                approved=describe_outcome(await runtime.approve(f"{name} waits")),
                ran=ran,
            )


if __name__ == "__main__":
    commands = {
        "call": call,
        "pause": pause,
        "approve": approve,
        "approve_transfer": approve_transfer,
        "approve_edited": approve_edited,
        "full": call_on_full_disk,
    }
    commands |= {"show": show, "call_in_session": call_in_session}
    asyncio.run(commands[sys.argv[1]](*sys.argv[2:]))
