"""A bank whose transfers must not run twice, and helpers to inspect outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from surehand import Context, Done, Failed, Outcome, Pending, Runtime, Store, Tool, tool
from surehand.store.database import Row


class Bank:
    """Money that moves once: `transfer` asks before it runs, `pay` does not."""

    def __init__(self) -> None:
        self.ran: list[tuple[int, str]] = []
        self.keys: list[str] = []
        self.started, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    @tool(effects={"write"}, confirm=True)
    async def transfer(self, ctx: Context, amount: int, to: str = "ann") -> str:
        """Transfer money."""
        return await self._move(ctx, amount, to)

    @tool(effects={"write"})
    async def pay(self, ctx: Context, amount: int, to: str = "ann") -> str:
        """Pay money."""
        return await self._move(ctx, amount, to)

    async def _move(self, ctx: Context, amount: int, to: str) -> str:
        self.ran.append((amount, to))
        self.keys.append(ctx.idempotency_key)
        self.started.set()
        await self.gate.wait()
        return f"sent {amount} to {to}"


def pending(outcome: Outcome, waiting_for: str | None = None) -> Pending:
    assert isinstance(outcome, Pending), outcome
    assert waiting_for in (None, outcome.waiting_for), outcome
    return outcome


def failed(outcome: Outcome, code: str) -> Failed:
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == code, outcome
    return outcome


def done(outcome: Outcome) -> Any:
    assert isinstance(outcome, Done), outcome
    return outcome.data


def id_of(outcome: Outcome) -> str:
    found = pending(outcome).call_id
    assert found
    return found


def ask(**options: Any) -> Tool[..., Any]:
    """A tool that a person answers."""
    return tool.client("ask", "Ask the person.", **{"reply": "later", **options})


async def until(true: Callable[[], Awaitable[Any] | Any], seconds: float = 25.0) -> Any:
    """Give other runtimes, threads and processes the time to get there; what was found."""
    async with asyncio.timeout(seconds):
        while True:
            found = true()
            found = await found if isinstance(found, Awaitable) else found
            if found:
                return found
            await asyncio.sleep(0.005)


async def read(runtime: Runtime, sql: str, **params: Any) -> list[Row]:
    assert runtime.store is not None
    return await runtime.store.database.read(sql, params)


async def write(runtime: Runtime, sql: str, **params: Any) -> None:
    from surehand.store.database import Statement

    assert runtime.store is not None
    await runtime.store.write([Statement(sql, params)])


async def state(runtime: Runtime, call_id: str) -> str:
    """The state of a call in the ledger."""
    rows = await read(runtime, "SELECT state FROM ledger WHERE call_id = :id", id=call_id)
    return str(rows[0]["state"]) if rows else "absent"


async def seen_dead(address: str) -> None:
    """A server hears a little later than others that a process has died, and until then its locks are held."""
    async with Store.open(address) as store:
        await until(lambda: _nobody_alive(store))


async def _nobody_alive(store: Store) -> bool:
    owners = [row["owner"] for row in await store.database.read("SELECT owner FROM owners")]
    return not await store.database.live_owners(owners)


async def died(runtime: Runtime, call_id: str, *, known: bool = True, state: str | None = None) -> None:
    """As if the process that has this call had died: its owner is one whose lock nobody holds."""
    owner = "dead" + call_id.encode().hex()
    if known:
        started = "INSERT INTO owners (owner, lease_until, started_at) VALUES (:owner, {now} + 30, {now})"
        await write(runtime, started, owner=owner)
    await write(runtime, "UPDATE ledger SET owner = :owner WHERE call_id = :id", owner=owner, id=call_id)
    if state is not None:
        await write(runtime, "UPDATE ledger SET state = :state WHERE call_id = :id", state=state, id=call_id)
