"""One store, several runtimes: each opens and closes independently, and a wrong address gives a clear error."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from surehand import Runtime, Store, tool
from surehand.runtime.maintenance import answered_calls, dead_runtimes, store_maintenance
from surehand.store.database import StoreError, StoreUnavailable
from surehand.store.tables import owners
from tests.durable.bank_tools import (
    Bank,
    assert_done,
    assert_failed,
    assert_pending,
    make_ask_tool,
    pending_call_id,
    read_rows,
    wait_until,
)

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


async def test_two_runtimes_share_a_store_and_one_may_leave(any_address: str) -> None:
    bank = Bank()
    async with Store.open(any_address) as store:
        async with Runtime(bank, make_ask_tool(), store=store) as stays:
            async with Runtime(bank, make_ask_tool(), store=store) as leaves:
                asked = pending_call_id(await leaves.call("transfer", {"amount": 5}))
                assert assert_done(await leaves.call("pay", {"amount": 1}, call_id="c1")) == "sent 1 to ann"
            assert_failed(await leaves.call("pay", {"amount": 2}), "unavailable")
            assert_failed(await leaves.approve(asked), "unavailable")

            assert assert_done(await stays.call("pay", {"amount": 1}, call_id="c1")) == "sent 1 to ann"
            assert assert_done(await stays.approve(asked)) == "sent 5 to ann"
            assert len(await store.database.read("SELECT owner FROM owners")) == 1
        assert await store.database.read("SELECT owner FROM owners") == []
        assert (await store.info())["calls"] == {"ended": 2}
    assert bank.ran == [(1, "ann"), (5, "ann")]


async def test_a_runtime_may_be_opened_again_on_its_store(address: str) -> None:
    bank = Bank()
    runtime = Runtime(bank, store=address)
    async with runtime:
        assert_pending(await runtime.call("transfer", {"amount": 5}, call_id="c1"))
    assert_failed(await runtime.approve("c1"), "unavailable")
    async with runtime:
        assert assert_done(await runtime.approve("c1")) == "sent 5 to ann"
    async with runtime:
        assert assert_done(await runtime.call("transfer", {"amount": 5}, call_id="c1")) == "sent 5 to ann"
    assert bank.ran == [(5, "ann")]


async def test_a_store_is_opened_by_await_or_with_async_with(address: str) -> None:
    store = await Store.open(address)
    await store.inbox.push("a1", "e1", "service", {"x": 1})
    await store.close()
    async with Store.open(address) as again:
        assert await again.inbox.count("a1") == 1
    with pytest.raises(StoreUnavailable):
        await again.inbox.count("a1")


async def test_a_runtime_cannot_use_a_closed_store(address: str) -> None:
    store = await Store.open(address)
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await Runtime(store=store).__aenter__()


async def test_a_path_is_an_address_too(tmp_path: Path) -> None:
    bank = Bank()
    async with Runtime(bank, store=tmp_path / "store.db") as runtime:  # type: ignore[arg-type]
        await runtime.call("pay", {"amount": 5}, call_id="c1")
    async with Store.open(tmp_path / "store.db") as store:  # type: ignore[arg-type]
        assert (await store.info())["calls"] == {"ended": 1}


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("{folder}/nowhere/store.db", "there is no folder"),
        ("{folder}", "directory"),
        ("{folder}/text.db", "not a database"),
        ("", "cannot be opened"),
        ("mysql://localhost/db", "postgresql://"),
        ("sqlite:///store.db", "postgresql://"),
        ("postgresql://localhost:1/none?connect_timeout=1", "PostgreSQL"),
        ("postgresql://localhost:nonsense/none", "PostgreSQL"),
    ],
)
async def test_an_invalid_address_gives_a_clear_error(tmp_path: Path, address: str, told: str) -> None:
    (tmp_path / "text.db").write_text("this is a text file, and a rather long one\n" * 100)
    where = address.format(folder=tmp_path)
    for opening in (Runtime(store=where).__aenter__(), Store.open(where)._open()):
        with pytest.raises(StoreError, match=told):
            await opening


@pytest.mark.parametrize("store", [5, b"store.db", object()])
async def test_a_value_that_is_not_an_address_is_rejected(store: Any) -> None:
    with pytest.raises(TypeError, match="store"):
        await Runtime(store=store).__aenter__()


async def test_a_password_is_not_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        await Store.open("postgresql://ann:s3cret@localhost:1/none?connect_timeout=1")
    assert "s3cret" not in str(caught.value)


async def test_a_store_of_a_newer_version_is_not_touched(file: str) -> None:
    async with Store.open(file) as store:
        from surehand.store.database import Statement

        await store.write([Statement("INSERT INTO schema_versions (version, applied_at) VALUES (999, 0)")])
    with pytest.raises(StoreError, match="newer"):
        await Store.open(file)


async def test_a_runtime_with_invalid_tools_closes_its_store(file: str) -> None:
    from surehand import DefinitionError

    @tool(queue="nowhere")
    async def broken() -> None:
        """Names a queue that is not there."""

    with pytest.raises(DefinitionError):
        await Runtime(broken, store=file).__aenter__()
    async with Store.open(file) as store:
        assert await store.database.read("SELECT owner FROM owners") == []
    assert [path.name for path in Path(file).parent.glob("*-owners/*")] == []


async def test_many_runtimes_may_come_at_once_to_an_empty_store(address: str) -> None:
    bank = Bank()

    async def one(number: int) -> str:
        async with Runtime(bank, store=address) as runtime:
            return str(assert_done(await runtime.call("pay", {"amount": number})))

    assert sorted(await asyncio.gather(*(one(n) for n in range(8)))) == [f"sent {n} to ann" for n in range(8)]
    async with Store.open(address) as store:
        assert (await store.info())["rows"]["owners"] == 0


async def test_the_journal_of_a_store_tells_each_call_once(address: str) -> None:
    bank = Bank()

    @tool(effects={"read"})
    async def look() -> str:
        """Look."""
        return "seen"

    async with Runtime(bank, look, make_ask_tool(), store=address) as runtime:
        ids = [
            (await runtime.call("pay", {"amount": 1})).meta.call_id,
            (await runtime.call("look")).meta.call_id,
            (await runtime.call("pay", {"amount": 1}, call_id="c1")).meta.call_id,
            pending_call_id(await runtime.call("ask")),
        ]
        await runtime.call("pay", {"amount": 1}, call_id="c1")
        await runtime.settle(ids[-1], "yes")
    async with Runtime(bank, look, make_ask_tool(), store=address) as runtime:
        rows = await read_rows(runtime, "SELECT call_id, kind, status FROM journal ORDER BY tx, id")

    told = {call_id: [(row["kind"], row["status"]) for row in rows if row["call_id"] == call_id] for call_id in ids}
    assert [told[call_id] for call_id in ids[:3]] == [[("ended", "ok")]] * 3
    assert told[ids[3]] == [("pending", "result"), ("settled", "settle"), ("ended", "ok")]


async def test_calls_that_other_processes_answered_are_dropped_from_memory(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_maintenance, "CLEANUP_INTERVAL_SECONDS", 0.05)
    async with Runtime(make_ask_tool(), store=address) as here, Runtime(store=address) as elsewhere:
        ids = [pending_call_id(await here.call("ask")) for _ in range(5)]
        for call_id in ids[1:]:
            await elsewhere.settle(call_id, "yes")
        await wait_until(lambda: here.stats().pending == 1)

        assert list(here._calls.load().local.invocations) == ids[:1]
        assert assert_done(await here.settle(ids[0], "yes")) == "yes"
        assert here.stats().pending == 0


async def test_looking_after_a_store_does_not_read_through_the_calls_that_are_over(file: str) -> None:
    looks = {
        answered_calls._SELECT_READY_CALLS: {"after": "", "most": 1},
        dead_runtimes._SELECT_UNKNOWN_CALLS: {},
        owners._SQL["list_other_owners"]: {"owner": "a"},
        owners._SQL["return_taken_calls"]: {"owner": "a"},
        owners._SQL["mark_running_calls_unknown"]: {"owner": "a"},
        owners._SQL["ask_about_unknown_calls"]: {},
    }
    async with Store.open(file) as store:
        for sql, params in looks.items():
            plan = await store.database.read(f"EXPLAIN QUERY PLAN {sql}", params)
            ways = [row["detail"] for row in plan if "ledger" in row["detail"].split()[:2]]

            assert ways, sql
            assert all("ledger_unended (state=?" in way for way in ways), (sql, ways)
