"""A full disk: a call that cannot be stored does not run, and an outcome is returned only once it is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Context, Pending, Queue, Runtime, tool
from surehand.runtime.durability import write_retry
from surehand.runtime.maintenance import store_maintenance
from surehand.store.database import Statement, StoreUnavailable
from tests.durable.bank_tools import (
    Bank,
    assert_done,
    assert_failed,
    ledger_state,
    make_ask_tool,
    pending_call_id,
    read_rows,
    wait_until,
    wait_until_owners_are_dead,
)

pytestmark = pytest.mark.timeout(30)


async def test_with_a_full_disk_only_stored_outcomes_are_returned(file: str, child: Any) -> None:
    async with child("full", file) as process:
        for name in ("quick", "slow"):
            before, during = await process.read_message(), await process.read_message()
            process.resume()  # room came back, and what was left is written
            after = await process.read_message()

            for refused in (before["refused"], before["unnamed"], before["approved"]):
                assert (refused["failed"], refused.get("executed", False)) == ("unavailable", False)
            assert f"{name} refused" not in during["ran"]
            assert "unnamed" not in during["ran"]
            assert f"{name} waits" not in during["ran"]
            assert (during["doubtful"]["failed"], during["doubtful"]["executed"]) == ("unknown_effect", True)
            assert during["meanwhile"] in ({"pending": "result"}, during["doubtful"]) or (
                during["meanwhile"].get("failed") == "unavailable" and not during["meanwhile"]["executed"]
            )
            assert after["again"] == {"done": f"{name} full was done"}
            assert after["retried"] == {"done": f"{name} refused was done"}
            assert after["approved"] == {"done": f"{name} waits was done"}
            assert after["ran"].count(f"{name} full") == 1
            assert after["ran"].count(f"{name} waits") == 1

    bank = Bank()
    async with Runtime(bank, store=file) as runtime:
        rows = await read_rows(runtime, "SELECT state, count(*) AS number FROM ledger GROUP BY state ORDER BY state")
        checked = await runtime.store.audit.verify()  # type: ignore[union-attr]

    assert "running" not in {row["state"] for row in rows}
    assert checked.problem is None


class Broken:
    """A store whose writes fail, or hang, from one moment to another."""

    def __init__(self, runtime: Runtime) -> None:
        assert runtime.store is not None
        self._database: Any = runtime.store.database
        self._write = self._database.write
        self.after = False
        """Whether it fails only after it has written."""

    def __enter__(self) -> Broken:
        async def write(statements: Any) -> Any:
            if self.after:
                await self._write(statements)
            raise StoreUnavailable("the disk is full")

        self._database.write = write
        return self

    def __exit__(self, *_: object) -> None:
        self._database.write = self._write


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_retry, "RETRY_DELAYS_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(store_maintenance, "SEAL_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(store_maintenance, "MAINTENANCE_INTERVAL_SECONDS", 0.05)


@pytest.mark.parametrize("kept", [False, True], ids=["lost", "in doubt"])
async def test_an_outcome_that_could_not_be_written_is_unknown_until_it_is(address: str, kept: bool) -> None:
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, store=address) as runtime:
        calling = asyncio.create_task(runtime.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        with Broken(runtime) as broken:
            broken.after = kept
            bank.gate.set()
            told = await calling
        await wait_until(lambda: _is(runtime, "c1", "ended"))
        outcomes = await read_rows(runtime, "SELECT 1 AS found FROM audit WHERE call_id = 'c1' AND kind = 'outcome'")

        assert assert_done(await runtime.call("pay", {"amount": 5}, call_id="c1")) == "sent 5 to ann"
    # Where it was kept after all, the second try finds it there, and then it can be acknowledged.
    assert assert_done(told) == "sent 5 to ann" if kept else assert_failed(told, "unknown_effect").executed
    assert len(outcomes) == 1
    assert bank.ran == [(5, "ann")]


async def _is(runtime: Runtime, call_id: str, expected: str) -> bool:
    return await ledger_state(runtime, call_id) == expected


@pytest.mark.parametrize("kept", [False, True], ids=["lost", "in doubt"])
async def test_a_claim_in_doubt_is_taken_back_because_nothing_has_run(address: str, kept: bool) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        await runtime.call("transfer", {"amount": 7}, call_id="c2")
        with Broken(runtime) as broken:
            broken.after = kept
            outcomes = [
                await runtime.call("pay", {"amount": 5}, call_id="c1"),
                await runtime.call("pay", {"amount": 6}),
                await runtime.approve("c2"),
            ]
        ran = list(bank.ran)
        await wait_until(lambda: _nobody_runs(runtime))
        again = await runtime.call("pay", {"amount": 5}, call_id="c1")
        approved = await wait_until(lambda: _outcome(runtime, "c2"))

    assert all(not assert_failed(outcome, "unavailable").executed for outcome in outcomes)
    assert ran == []
    assert assert_done(again) == "sent 5 to ann"
    assert assert_done(approved) == "sent 7 to ann"
    assert sorted(bank.ran) == [(5, "ann"), (7, "ann")]


async def _nobody_runs(runtime: Runtime) -> bool:
    return not await read_rows(runtime, "SELECT call_id FROM ledger WHERE state IN ('running', 'taken')")


async def _outcome(runtime: Runtime, call_id: str) -> Any:
    outcome = await runtime.approve(call_id)
    return outcome if outcome.ok else None


async def test_an_answer_that_could_not_be_written_leaves_the_wait_open(address: str) -> None:
    async with Runtime(make_ask_tool(), store=address) as runtime:
        call_id = pending_call_id(await runtime.call("ask"))
        with Broken(runtime):
            assert_failed(await runtime.settle(call_id, "lost"), "unavailable")
            assert_failed(await runtime.settle("nothing", "x"), "not_found")
            assert_failed(await runtime.call("ask"), "unavailable")
        await asyncio.sleep(0.2)  # longer than a beat: nothing of it comes later
        assert [wait.call_id for wait in await runtime.pending()] == [call_id]
        assert assert_done(await runtime.settle(call_id, "another")) == "another"


async def test_a_wait_that_could_not_be_written_is_there_when_the_store_is(address: str) -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    @tool(effects={"write"})
    async def book(ctx: Context) -> Any:
        """Book, and hear later."""
        started.set()
        await gate.wait()
        return Pending("result", message="the theatre calls back")

    async with Runtime(book, store=address) as runtime:
        calling = asyncio.create_task(runtime.call("book", call_id="c1"))
        await started.wait()
        with Broken(runtime):
            gate.set()
            assert assert_failed(await calling, "unavailable").executed
        (wait,) = await wait_until(runtime.pending)

        assert wait.call_id == "c1"
        assert assert_done(await runtime.settle("c1", "row 5")) == "row 5"


async def test_a_runtime_can_be_closed_while_its_store_is_away(address: str) -> None:
    bank = Bank()
    runtime = await Runtime(bank, store=address).__aenter__()
    bank.gate.clear()
    calling = asyncio.create_task(runtime.call("pay", {"amount": 5}, call_id="c1"))
    await bank.started.wait()
    with Broken(runtime):
        await runtime.close()
    assert assert_failed(await calling, "cancelled").executed
    await wait_until_owners_are_dead(address)

    async with Runtime(bank, store=address) as next_one:
        assert_failed(await next_one.call("pay", {"amount": 5}, call_id="c1"), "unknown_effect")


async def test_one_outcome_that_cannot_be_written_keeps_no_other_from_being_written(address: str) -> None:
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, store=address) as runtime:
        runtime._calls.load().write_retry.retry_later("hopeless", [Statement("UPDATE nowhere SET nothing = 1")])
        calling = asyncio.create_task(runtime.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        with Broken(runtime):
            bank.gate.set()
            assert_failed(await calling, "unknown_effect")
        await wait_until(lambda: _is(runtime, "c1", "ended"))
        runtime._calls.load().write_retry.clear()


async def test_a_repeated_approval_is_not_undone_by_the_queued_writes_of_the_first(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_maintenance, "MAINTENANCE_INTERVAL_SECONDS", 1_000.0)
    bank = Bank()
    bank.gate.clear()

    @tool(effects={"write"}, confirm=True, queue="one")
    async def send(ctx: Context) -> str:
        """Send, one at a time."""
        return await bank._move(ctx, 1, "bob")

    async with Runtime(send, store=address, queues={"one": Queue(1)}) as runtime:
        for call_id in ("c1", "c2"):
            await runtime.call("send", call_id=call_id)
        with Broken(runtime):
            assert_failed(await runtime.approve("c2"), "unavailable")
        first = asyncio.create_task(runtime.approve("c1"))
        await bank.started.wait()
        second = asyncio.create_task(runtime.approve("c2"))
        await wait_until(lambda: runtime.queues()["one"].waiting)
        await runtime._calls.load().write_retry.retry_all()
        bank.gate.set()

        assert [assert_done(await first), assert_done(await second)] == ["sent 1 to bob"] * 2
