"""Retention: old ended calls are deleted; pending, running and unknown ones and the audit never are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Queue, Retention, Runtime, tool
from surehand.runtime.durability import ledger
from surehand.store.database import Statement
from surehand.store.store import Store
from surehand.store.tables.runs import RunClaim
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
    from surehand.runtime.maintenance import store_maintenance

    monkeypatch.setattr(store_maintenance, "PRUNE_INTERVAL_SECONDS", 0.05)
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


async def start_queued_call(runtime: Runtime, gate: asyncio.Event) -> asyncio.Task[Any]:
    """A call with a given id that waits behind another one; the other ends with the gate."""
    first = asyncio.create_task(runtime.call("slow", {"number": 1}, call_id="first"))
    await wait_until(lambda: runtime.queues()["one"].in_use == 1)
    queued = asyncio.create_task(runtime.call("slow", {"number": 2}, call_id="queued"))
    await wait_until(lambda: runtime.queues()["one"].waiting == 1)
    queued.add_done_callback(lambda _: first.cancelled())  # keeps a reference to the first
    return queued


def slow_tool(gate: asyncio.Event, runs: list[int]) -> Any:
    @tool(queue="one")
    async def slow(number: int) -> int:
        """Wait."""
        runs.append(number)
        await gate.wait()
        return number

    return slow


async def test_a_queued_call_with_a_given_id_is_not_pruned_under_its_caller(address: str) -> None:
    gate, runs = asyncio.Event(), list[int]()
    async with Runtime(slow_tool(gate, runs), store=address, queues={"one": Queue(concurrent=1)}) as runtime:
        queued = await start_queued_call(runtime, gate)
        await aged(runtime, 10)

        async with Store.open(address) as other_process:
            await other_process.prune(Retention(idle=0.0, max_calls=0))
        await runtime.store.prune(Retention(idle=0.0, max_calls=0))
        gate.set()

        assert_done(await queued)
        assert runs == [1, 2]
        assert_done(await runtime.call("slow", {"number": 2}, call_id="queued"))
        assert runs == [1, 2], "the id is still known, so the call does not run twice"


async def test_an_id_whose_call_never_ran_is_pruned_although_its_runtime_lives(address: str) -> None:
    gate, runs = asyncio.Event(), list[int]()
    async with Runtime(slow_tool(gate, runs), store=address, queues={"one": Queue(concurrent=1)}) as runtime:
        queued = await start_queued_call(runtime, gate)
        queued.cancel()
        await asyncio.wait([queued])
        await aged(runtime, 10)

        await runtime._calls.load().ledger.mark_open_calls()
        await runtime.store.prune(Retention(idle=86_400.0))

        assert await ledger_state(runtime, "queued") == "absent"
        gate.set()


async def test_a_call_whose_row_was_deleted_all_the_same_says_that_it_was_not_run(address: str) -> None:
    gate, runs = asyncio.Event(), list[int]()
    async with Runtime(slow_tool(gate, runs), store=address, queues={"one": Queue(concurrent=1)}) as runtime:
        queued = await start_queued_call(runtime, gate)
        await execute(runtime, "DELETE FROM ledger WHERE call_id = 'queued'")
        gate.set()

        outcome = await queued

        assert_failed(outcome, "unavailable")
        assert "was deleted while it waited" in outcome.message
        assert runs == [1]


INSERT_ENTRY = """INSERT INTO journal (tx, at, kind, call_id, tool, status, latency_ms)
    VALUES ({tx}, {now} + :offset, 'ended', :name, 'pay', 'ok', 0)"""


async def add_entries(store: Store, name: str, count: int, offset_days: float) -> None:
    params = {"name": name, "offset": offset_days * 86_400.0}
    await store.write([Statement(INSERT_ENTRY, params)] * count)


async def entry_names(store: Store) -> set[str]:
    return {row["call_id"] for row in await store.database.read("SELECT DISTINCT call_id FROM journal")}


async def test_entries_from_a_clock_that_was_ahead_do_not_stop_pruning(any_address: str) -> None:
    async with Store.open(any_address) as store:
        await add_entries(store, "before", 3, -50)
        await add_entries(store, "clock ahead", 2_500, +3_650)
        await add_entries(store, "old", 5, -40)
        await add_entries(store, "clock ahead again", 2, +3_650)
        await add_entries(store, "recent", 5, -1)

        for _ in range(2):
            await store.prune(Retention(journal=30 * 86_400.0))

        assert await entry_names(store) == {"clock ahead again", "recent"}


async def test_entries_from_a_clock_that_was_ahead_are_kept_as_long_as_their_neighbours(any_address: str) -> None:
    async with Store.open(any_address) as store:
        await add_entries(store, "clock ahead", 2, +3_650)
        await add_entries(store, "recent", 5, -29)

        assert (await store.prune(Retention(journal=30 * 86_400.0)))["journal"] == 0
        assert (await store.prune(Retention(journal=28 * 86_400.0)))["journal"] == 7


async def test_a_call_is_kept_until_the_run_that_made_it_has_its_outcome(address: str) -> None:
    async with Runtime(Bank(), store=address) as runtime:
        store = runtime.store
        assert store is not None
        await store.owners.join("c0de")
        run = await store.runs.begin("r1", "helper", "Pay.", owner="c0de")
        assert isinstance(run, RunClaim)
        await store.steps.add(run, 0, "I pay.", ["kept"])
        for call_id in ("kept", "other"):
            await runtime.call("pay", {"amount": 1}, call_id=call_id)
        await aged(runtime, 100)

        await store.prune(Retention(max_calls=0))
        kept = await read_rows(runtime, "SELECT call_id FROM ledger")
        await store.steps.set_outcomes(run, 0, {"kept": "paid"})
        await store.prune()
        after = await read_rows(runtime, "SELECT call_id FROM ledger")

    assert [row["call_id"] for row in kept] == ["kept"]
    assert after == []
