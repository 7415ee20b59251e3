"""Retention: old ended calls are deleted; pending, running and unknown ones and the audit never are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Retention, Runtime, tool
from surehand.runtime.durability import ledger
from surehand.testing import ManualClock
from tests.durable.bank_tools import (
    Bank,
    assert_done,
    assert_failed,
    assert_pending,
    execute,
    ledger_state,
    make_ask_tool,
    pending_call_id,
    read_rows,
    simulate_dead_owner,
    wait_until,
)

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server
AGES = {
    "ledger": ("created_at", "ended_at"),
    "pending": ("created_at", "answered_at"),
    "inbox": ("created_at", "ended_at"),
    "journal": ("at",),
    "artifacts": ("created_at",),
    "audit": ("at",),
}


async def aged(runtime: Runtime, days: float) -> None:
    """As if all this had been so many days ago."""
    for table, columns in AGES.items():
        for column in columns:
            await execute(runtime, f"UPDATE {table} SET {column} = {column} - :age", age=days * 86_400.0)


async def counts(runtime: Runtime) -> dict[str, int]:
    assert runtime.store is not None
    return dict((await runtime.store.info())["rows"])


@tool(effects={"read"})
async def much() -> str:
    """Much text."""
    return "line\n" * 50_000


async def test_ended_calls_are_deleted_and_others_are_kept(address: str) -> None:
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, make_ask_tool(), much, store=address) as runtime:
        waits = pending_call_id(await runtime.call("transfer", {"amount": 1}, call_id="waiting"))
        gone = asyncio.create_task(runtime.call("pay", {"amount": 2}, call_id="unknown"))
        await bank.started.wait()
        await simulate_dead_owner(runtime, "unknown")
        await wait_until(lambda: _is(runtime, "unknown", "unknown"))
        bank.started.clear()
        running = asyncio.create_task(runtime.call("pay", {"amount": 3}, call_id="running"))
        await bank.started.wait()
        await runtime.call("ask", call_id="ended")
        await runtime.settle("ended", "yes")
        await runtime.store.inbox.drain("")  # type: ignore[union-attr]
        await runtime.call("pay", {"amount": "much"}, call_id="idle")
        await execute(
            runtime,
            """INSERT INTO ledger (call_id, fingerprint, tool, definition, arguments, context, state, fence, created_at)
            VALUES ('idle', '', 'pay', '', '{}', '{}', 'idle', 0, {now})""",
        )
        await runtime.call("much")
        await wait_until(lambda: read_rows(runtime, "SELECT 1 AS found FROM journal WHERE tool = 'much'"))
        young = await runtime.store.prune()  # type: ignore[union-attr]
        before = await counts(runtime)
        await aged(runtime, 31)
        old = await runtime.store.prune(vacuum=True)  # type: ignore[union-attr]
        after = await counts(runtime)
        rows = await read_rows(runtime, "SELECT call_id, state FROM ledger ORDER BY call_id")
        bank.gate.set()
        outcomes = [await running, await gone, await runtime.approve(waits), await runtime.settle("unknown", "by hand")]
        again = await runtime.call("ask", call_id="ended")

    assert sum(young.values()) == 0
    assert [(row["call_id"], row["state"]) for row in rows] == [
        ("running", "running"),
        ("unknown", "unknown"),
        ("waiting", "waiting"),
    ]
    assert (old["calls"], old["idle"], old["artifacts"], old["inbox"]) == (1, 1, 1, 1)
    assert (after["inbox"], after["artifacts"], after["journal"]) == (0, 0, 0)
    assert after["audit"] == before["audit"] > 0
    assert after["pending"] == 2
    assert assert_done(outcomes[0]) == "sent 3 to ann"
    assert_failed(outcomes[1], "unknown_effect")
    assert assert_done(outcomes[2]) == "sent 1 to ann"
    assert assert_done(outcomes[3]) == "by hand"
    assert_pending(again)  # its id means nothing any more, so it is a new call


async def _is(runtime: Runtime, call_id: str, expected: str) -> bool:
    return await ledger_state(runtime, call_id) == expected


async def test_a_forgotten_call_leaves_the_chain_of_the_audit_whole(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        for number in range(5):
            await runtime.call("pay", {"amount": number})
        await runtime.store.prune(Retention(calls=0.0, journal=0.0))  # type: ignore[union-attr]
        assert (await counts(runtime))["ledger"] == 0
        await runtime.call("pay", {"amount": 9})
    async with Runtime(bank, store=address) as runtime:
        checked = await runtime.store.audit.verify()  # type: ignore[union-attr]

    assert checked.problem is None
    assert checked.rows == 12


async def test_a_keeper_makes_room_by_itself(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from surehand.runtime.durability import maintenance

    monkeypatch.setattr(maintenance, "PRUNE_INTERVAL_SECONDS", 0.05)
    bank, clock = Bank(), ManualClock()
    async with Runtime(bank, store=file, clock=clock) as runtime:
        await runtime.call("pay", {"amount": 5}, call_id="c1")
        await clock.advance(29 * 86_400)
        await asyncio.sleep(0.6)
        assert await ledger_state(runtime, "c1") == "ended"
        await clock.advance(2 * 86_400)
        await wait_until(lambda: _is(runtime, "c1", "absent"))


@pytest.mark.parametrize("clock", [None, ManualClock()], ids=["time passes", "time stands still"])
async def test_without_a_store_only_the_latest_calls_are_remembered(
    monkeypatch: pytest.MonkeyPatch, clock: Any
) -> None:
    monkeypatch.setattr(ledger, "MAX_CALLS_IN_MEMORY", 100)
    bank = Bank()
    async with Runtime(bank, make_ask_tool(), clock=clock) as runtime:
        waiting = [pending_call_id(await runtime.call("transfer", {"amount": n})) for n in range(20)]
        for number in range(300):
            await runtime.call("pay", {"amount": number}, call_id=f"c{number}")
        named = await read_rows(runtime, "SELECT count(*) AS number FROM ledger WHERE state = 'ended'")
        latest = await runtime.call("pay", {"amount": 299}, call_id="c299")
        for number in range(300):
            await runtime.settle(pending_call_id(await runtime.call("ask")), number)
        waited = await read_rows(runtime, "SELECT count(*) AS number FROM ledger WHERE state = 'ended'")
        rounds = await read_rows(runtime, "SELECT count(*) AS number FROM pending")
        approved = [await runtime.approve(call_id) for call_id in waiting]

    assert 90 <= named[0]["number"] <= 120
    assert 90 <= waited[0]["number"] <= 120
    assert rounds[0]["number"] <= 140
    assert assert_done(latest) == "sent 299 to ann"
    assert all(outcome.ok for outcome in approved)
    assert len(bank.ran) == 320


async def test_without_a_store_calls_that_need_no_memory_leave_none() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        for number in range(100):
            await runtime.call("pay", {"amount": number})

        assert runtime.store is None
