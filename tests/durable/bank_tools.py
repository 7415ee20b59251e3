"""Tools that move money exactly once, and assertions about their outcomes, for the tests of durable calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from surehand import Context, Done, Failed, Outcome, Pending, Runtime, Store, Tool, tool
from surehand.store.database import Row


class Bank:
    """Tools that move money and count it: `transfer` needs an approval, `pay` does not."""

    def __init__(self) -> None:
        self.ran: list[tuple[int, str]] = []
        self.keys: list[str] = []
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
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


def assert_pending(outcome: Outcome, waiting_for: str | None = None) -> Pending:
    assert isinstance(outcome, Pending), outcome
    assert waiting_for in (None, outcome.waiting_for), outcome
    return outcome


def assert_failed(outcome: Outcome, code: str) -> Failed:
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == code, outcome
    return outcome


def assert_done(outcome: Outcome) -> Any:
    assert isinstance(outcome, Done), outcome
    return outcome.data


def pending_call_id(outcome: Outcome) -> str:
    call_id = assert_pending(outcome).call_id
    assert call_id
    return call_id


def make_ask_tool(**options: Any) -> Tool[..., Any]:
    """A client tool that a person answers."""
    return tool.client("ask", "Ask the person.", **{"reply": "later", **options})


async def wait_until(condition: Callable[[], Awaitable[Any] | Any], seconds: float = 25.0) -> Any:
    """Wait until the condition is true, because of another runtime, thread or process; returns its value."""
    async with asyncio.timeout(seconds):
        while True:
            value = condition()
            value = await value if isinstance(value, Awaitable) else value
            if value:
                return value
            await asyncio.sleep(0.005)


async def read_rows(runtime: Runtime, sql: str, **params: Any) -> list[Row]:
    assert runtime.store is not None
    return await runtime.store.database.read(sql, params)


async def execute(runtime: Runtime, sql: str, **params: Any) -> None:
    from surehand.store.database import Statement

    assert runtime.store is not None
    await runtime.store.write([Statement(sql, params)])


async def ledger_state(runtime: Runtime, call_id: str) -> str:
    """The state of a call in the ledger, or "absent"."""
    rows = await read_rows(runtime, "SELECT state FROM ledger WHERE call_id = :id", id=call_id)
    return str(rows[0]["state"]) if rows else "absent"


async def wait_until_owners_are_dead(address: str) -> None:
    """Wait until the database has released the locks of dead processes; a server notices their end a little later."""
    async with Store.open(address) as store:
        await wait_until(lambda: _has_no_live_owner(store))


async def _has_no_live_owner(store: Store) -> bool:
    owners = [row["owner"] for row in await store.database.read("SELECT owner FROM owners")]
    return not await store.database.live_owners(owners)


async def simulate_dead_owner(
    runtime: Runtime, call_id: str, *, registered: bool = True, state: str | None = None
) -> None:
    """Make the owner of a call look dead: set an owner whose lock no process holds."""
    owner = "dead" + call_id.encode().hex()
    if registered:
        started = "INSERT INTO owners (owner, lease_until, started_at) VALUES (:owner, {now} + 30, {now})"
        await execute(runtime, started, owner=owner)
    await execute(runtime, "UPDATE ledger SET owner = :owner WHERE call_id = :id", owner=owner, id=call_id)
    if state is not None:
        await execute(runtime, "UPDATE ledger SET state = :state WHERE call_id = :id", state=state, id=call_id)
