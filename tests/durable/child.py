"""Another process: a runtime on the same store that is stopped, killed, or has a full disk."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from typing import Any

from surehand import Context, Done, Failed, Runtime, ToolError, tool
from surehand.runtime.durability import maintenance, write_retry
from surehand.store.tables import owners


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def told(outcome: Any) -> dict[str, Any]:
    """An outcome that another process can read."""
    match outcome:
        case Done(data):
            return {"done": data}
        case Failed(code):
            return {"failed": code, "executed": outcome.executed, "message": outcome.message}
    return {"pending": outcome.waiting_for}


async def heard() -> str:
    """The next line from whoever started this."""
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


@tool(effects={"write"})
async def pay(ctx: Context, amount: int, to: str = "ann") -> str:
    """Pay money."""
    say(started=ctx.call_id, key=ctx.idempotency_key)
    await heard()
    return f"sent {amount} to {to}, late"


@tool(effects={"write"}, confirm=True)
async def transfer(ctx: Context, amount: int, to: str = "ann") -> str:
    """Transfer money."""
    say(started=ctx.call_id, key=ctx.idempotency_key)
    await heard()
    return f"sent {amount} to {to}, late"


async def call(address: str, name: str, call_id: str, amount: str) -> None:
    """Make one call, and say what came of it; `transfer` is approved by its caller."""
    async with Runtime(pay, transfer, store=address) as runtime:
        outcome = await runtime.call(name, {"amount": int(amount)}, call_id=call_id)
        if name == "transfer":
            outcome = await runtime.approve(call_id)
        say(**told(outcome))


def looks_once() -> asyncio.Event:
    """Set when a keeper has looked after its store for the first time, and holds no lock on it any more."""
    beat, looked = maintenance.StoreMaintenance._run_once, asyncio.Event()

    async def beaten(self: maintenance.StoreMaintenance) -> None:
        await beat(self)
        looked.set()

    maintenance.StoreMaintenance._run_once = beaten  # type: ignore[method-assign]
    return looked


async def pause(address: str, call_id: str, amount: str) -> None:
    """The same, in a process that sees nothing but its own call until it is done: it will be stopped for a while."""
    owners.LEASE_SECONDS, maintenance.MAINTENANCE_INTERVAL_SECONDS = 0.4, 1_000.0
    looked = looks_once()
    async with Runtime(pay, store=address) as runtime:
        await looked.wait()
        say(**told(await runtime.call("pay", {"amount": int(amount)}, call_id=call_id)))


async def approve(address: str, call_id: str) -> None:
    """Approve a call where its tool is not."""
    async with Runtime(store=address) as runtime:
        say(**told(await runtime.approve(call_id)))


@tool(effects={"read"})
async def look(ctx: Context) -> str:
    """Look around."""
    say(started=ctx.call_id)
    await heard()
    return "seen"


async def show(address: str, *call_id: str) -> None:
    """Make a visible call that only reads."""
    async with Runtime(look, store=address) as runtime:
        scope = runtime.scope(space="team", agent="helper", turn="run-1")
        say(**told(await scope.call("look", call_id=call_id[0] if call_id else None)))


@tool(effects={"write"}, confirm=True)
async def refund(amount: int) -> str:
    """Give money back, if there is any."""
    raise ToolError(f"{amount} is more than there is")


async def approve_edited(address: str, call_id: str, amount: str) -> None:
    """Approve a call with another amount, where its tool is."""
    async with Runtime(refund, store=address) as runtime:
        say(**told(await runtime.approve(call_id, arguments={"amount": int(amount)}, by="bob")))


def limit(size: int) -> None:
    """No file may grow beyond so many bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def full(address: str) -> None:
    """Calls on a disk that is full before they begin, and one that is full when they end."""
    write_retry.RETRY_DELAYS_SECONDS, maintenance.SEAL_INTERVAL_SECONDS = (0.01, 0.01), 0.1
    ran: list[str] = []
    fills: set[str] = set()

    def fill() -> None:
        limit(os.path.getsize(f"{address}-wal") + 1)

    @tool(effects={"write"})
    async def quick(ctx: Context, name: str) -> str:
        """Never wait."""
        ran.append(name)
        if name in fills:
            fill()
        return f"{name} was done"

    @tool(effects={"write"})
    async def slow(ctx: Context, name: str) -> str:
        """Wait a little."""
        await asyncio.sleep(0)
        ran.append(name)
        if name in fills:
            fill()
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
            fill()
            refused = await runtime.call(name, {"name": f"{name} refused"}, call_id=f"{name} refused")
            unnamed = await runtime.call(name, {"name": "unnamed"})
            approved = await runtime.approve(f"{name} waits")
            limit(resource.RLIM_INFINITY)
            say(refused=told(refused), unnamed=told(unnamed), approved=told(approved), ran=ran)
            fills.add(f"{name} full")
            doubtful = await runtime.call(name, {"name": f"{name} full"}, call_id=f"{name} full")
            meanwhile = await runtime.call(name, {"name": f"{name} full"}, call_id=f"{name} full")
            limit(resource.RLIM_INFINITY)
            say(doubtful=told(doubtful), meanwhile=told(meanwhile), ran=ran)
            await heard()
            again = await runtime.call(name, {"name": f"{name} full"}, call_id=f"{name} full")
            retried = await runtime.call(name, {"name": f"{name} refused"}, call_id=f"{name} refused")
            say(
                again=told(again), retried=told(retried), approved=told(await runtime.approve(f"{name} waits")), ran=ran
            )


if __name__ == "__main__":
    stories = {"call": call, "pause": pause, "approve": approve, "approve_edited": approve_edited, "full": full}
    stories |= {"show": show}
    asyncio.run(stories[sys.argv[1]](*sys.argv[2:]))
