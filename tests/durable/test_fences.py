"""Leases and fences: a runtime that was paused for too long can write nothing more, and clocks may jump."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from surehand import Done, Runtime, Store
from surehand.runtime.maintenance import store_maintenance
from surehand.store.database import Statement
from surehand.store.tables import owners
from surehand.testing import ManualClock
from tests.durable.bank_tools import (
    Bank,
    assert_done,
    assert_failed,
    assert_pending,
    ledger_state,
    read_rows,
    wait_until,
)

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


async def test_a_process_that_was_paused_beyond_its_lease_cannot_overwrite(
    address: str, child: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_maintenance, "SEAL_INTERVAL_SECONDS", 0.05)
    bank = Bank()
    async with child("pause", address, "c1", "5") as process, Runtime(bank, store=address) as runtime:
        await process.read_message()
        process.signal(signal.SIGSTOP)
        running = await ledger_state(runtime, "c1")
        monkeypatch.setattr(
            owners, "LEASE_SECONDS", 0.4
        )  # until now it would have been waited for much longer than its lease
        await wait_until(lambda: _is(runtime, "c1", "unknown"))
        unknown = await runtime.call("pay", {"amount": 5}, call_id="c1")
        settled = await runtime.settle("c1", "settled by hand")
        process.signal(signal.SIGCONT)
        process.resume()
        late = await process.read_message()
        recalled = await runtime.call("pay", {"amount": 5}, call_id="c1")
        outcomes = await read_rows(runtime, "SELECT detail FROM audit WHERE call_id = 'c1' AND kind = 'outcome'")

    assert running == "running"
    assert_failed(unknown, "unknown_effect")
    assert settled == recalled == Done("settled by hand")
    assert late == {"done": "settled by hand"}
    assert len(outcomes) == 1
    assert bank.ran == []


async def _is(runtime: Runtime, call_id: str, expected: str) -> bool:
    return await ledger_state(runtime, call_id) == expected


async def test_an_owner_that_renews_its_lease_keeps_its_calls(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "LEASE_SECONDS", 1.5)
    monkeypatch.setattr(store_maintenance, "SEAL_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(store_maintenance, "MAINTENANCE_INTERVAL_SECONDS", 0.05)
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, store=address) as here, Runtime(bank, store=address) as other:
        calling = asyncio.create_task(here.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        await asyncio.sleep(3)  # one who gave none would be given up after one and a half leases
        assert await ledger_state(other, "c1") == "running"
        bank.gate.set()

        assert assert_done(await calling) == "sent 5 to ann"


async def test_an_owner_that_holds_its_lock_is_declared_dead_only_after_its_lease(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "LEASE_SECONDS", 0.2)
    late = Statement("UPDATE owners SET lease_until = {now} - 1")
    names = "SELECT owner FROM owners"
    async with Store.open(address) as store, Store.open(address) as other:
        await store.owners.join("a11ce")
        await store.write([late])
        await other.owners.release_dead_owners("b0b")
        at_first = await store.database.read(names)
        await store.owners.renew("a11ce")
        await other.owners.release_dead_owners("b0b")
        await store.write([late])
        await other.owners.release_dead_owners("b0b")
        after_a_sign_of_life = await store.database.read(names)
        await asyncio.sleep(0.15)
        await other.owners.release_dead_owners("b0b")

        assert at_first == after_a_sign_of_life == [{"owner": "a11ce"}]
        assert await store.database.read(names) == []


@pytest.mark.parametrize("days", [1, -1])
async def test_a_clock_that_jumps_releases_no_call(file: str, days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_maintenance, "SEAL_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(store_maintenance, "MAINTENANCE_INTERVAL_SECONDS", 0.05)
    bank, clock = Bank(), ManualClock()
    bank.gate.clear()
    options: dict[str, Any] = {"store": file, "clock": clock, "defaults": {"pending_ttl": 3600.0, "tool_timeout": None}}
    async with Runtime(bank, **options) as here, Runtime(bank, **options) as other:
        assert_pending(await here.call("transfer", {"amount": 1}, call_id="waits"))
        calling = asyncio.create_task(here.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        clock._now += days * 86_400  # nobody's timers ring: the machine was set to another day
        await asyncio.sleep(0.5)
        assert await ledger_state(other, "c1") == "running"
        bank.gate.set()
        assert assert_done(await calling) == "sent 5 to ann"
        assert assert_done(await other.call("pay", {"amount": 5}, call_id="c1")) == "sent 5 to ann"
        if days > 0:
            await wait_until(lambda: _is(here, "waits", "ended"))
            assert_failed(await other.approve("waits"), "expired")
        else:
            assert assert_done(await other.approve("waits")) == "sent 1 to ann"
        after = await here.call("pay", {"amount": 6})

    assert assert_done(after) == "sent 6 to ann"
