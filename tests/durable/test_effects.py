"""An effect that may have happened is never repeated automatically: a person, or the tool's own `verify`, decides."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest

from surehand import Context, Done, Failed, Pending, Runtime, tool
from surehand.runtime.maintenance.store_maintenance import StoreMaintenance
from tests.durable.bank_tools import (
    Bank,
    assert_done,
    assert_failed,
    assert_pending,
    ledger_state,
    read_rows,
    simulate_dead_owner,
    wait_until,
    wait_until_owners_are_dead,
)

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


async def test_a_killed_process_leaves_an_unknown_effect_that_a_person_settles_once(address: str, child: Any) -> None:
    async with child("call", address, "pay", "c1", "5") as process:
        started = await process.read_message()
        await process.kill()
    await wait_until_owners_are_dead(address)

    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        unknown = assert_failed(await runtime.call("pay", {"amount": 5}, call_id="c1"), "unknown_effect")
        (wait,) = await runtime.pending()
        rejected = assert_failed(await runtime.reject("c1"), "conflict")
        settled = await runtime.settle("c1", "the bank says it was sent", by="ann")
        again = await runtime.settle("c1", "the bank says it was sent")
        other = await runtime.settle("c1", "it was not")
        recalled = await runtime.call("pay", {"amount": 5}, call_id="c1")
        assert await runtime.pending() == []

    assert started == {"started": "c1", "key": "c1"}
    assert unknown.executed
    assert (wait.call_id, wait.waiting_for, wait.request) == ("c1", "result", {"unknown_effect": True})
    assert "not known whether pay has happened" in wait.message
    assert "settle it: with its result, or as failed" in rejected.message
    assert settled == again == recalled == Done("the bank says it was sent")
    assert_failed(other, "conflict")
    assert bank.ran == []


@pytest.mark.parametrize("call_id", [None, "c1"])
@pytest.mark.parametrize("returned", [0, 1])
async def test_middleware_that_proceeds_twice_at_once_runs_the_call_once_and_ends_it(
    any_address: str, call_id: str | None, returned: int
) -> None:
    async def twice_at_once(invocation: Any, proceed: Any) -> Any:
        passes = await asyncio.gather(proceed(invocation), proceed(invocation))
        return passes[returned]

    bank = Bank()
    async with Runtime(bank, store=any_address, middleware=[twice_at_once]) as runtime:
        paid = await runtime.call("pay", {"amount": 5}, call_id=call_id)
        rows = await read_rows(runtime, "SELECT state FROM ledger")
        waits = await runtime.pending()

    assert assert_done(paid) == "sent 5 to ann"
    assert bank.ran == [(5, "ann")]
    assert [row["state"] for row in rows] == ["ended"]
    assert waits == []


async def test_an_approved_call_of_a_killed_process_is_unknown_and_never_runs_again_by_itself(
    address: str, child: Any
) -> None:
    async with child("call", address, "transfer", "c1", "5") as process:
        await process.read_message()
        await process.kill()
    await wait_until_owners_are_dead(address)

    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        assert [wait.request for wait in await runtime.pending()] == [{"unknown_effect": True}]
        assert_failed(await runtime.approve("c1"), "unknown_effect")
        assert_failed(await runtime.reject("c1"), "conflict")
        await asyncio.sleep(0.3)  # longer than a beat
        ended = await runtime.settle("c1", Failed("failed", "it was not sent"))

    assert assert_failed(ended, "failed").executed
    assert bank.ran == []


async def test_a_call_approved_by_a_process_that_has_ended_since_runs_in_the_next(address: str, child: Any) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        assert_pending(await runtime.call("transfer", {"amount": 5}, call_id="c1"))
        async with child("approve", address, "c1") as process:
            assert await process.read_message() == {"pending": "result"}
        await wait_until(lambda: bank.ran)
        await wait_until(lambda: _ended(runtime, "c1"))

        assert assert_done(await runtime.approve("c1")) == "sent 5 to ann"
    assert bank.ran == [(5, "ann")]


async def _ended(runtime: Runtime, call_id: str) -> bool:
    return await ledger_state(runtime, call_id) == "ended"


async def test_a_repeatable_call_of_a_dead_process_is_simply_run_again(address: str) -> None:
    looks: list[str] = []
    gate = asyncio.Event()

    @tool(effects={"read"})
    async def look(ctx: Context) -> int:
        """Look."""
        looks.append(ctx.idempotency_key)
        if len(looks) == 1:
            await gate.wait()
        return len(looks)

    async with Runtime(look, store=address) as dying:
        calling = asyncio.create_task(dying.call("look", call_id="c1"))
        await wait_until(lambda: looks)
        async with Runtime(look, store=address) as runtime:
            assert await runtime.call("look", call_id="c1") == Done(2)
        gate.set()

        assert await calling == Done(2)  # what was stored first is what everybody is told
    assert looks == ["c1", "c1"]


async def test_an_owner_that_was_declared_dead_cannot_overwrite_the_outcome(address: str) -> None:
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, store=address) as paused, Runtime(bank, store=address) as other:
        calling = asyncio.create_task(paused.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        await simulate_dead_owner(paused, "c1")
        await wait_until(lambda: _is_unknown(other, "c1"))
        settled = await other.settle("c1", "settled by hand")
        bank.gate.set()
        late = await calling
        recalled = await paused.call("pay", {"amount": 5}, call_id="c1")

    assert settled == late == recalled == Done("settled by hand")


async def test_a_late_outcome_of_an_unknown_call_is_not_acknowledged(address: str) -> None:
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, store=address) as paused, Runtime(bank, store=address) as other:
        calling = asyncio.create_task(paused.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        await simulate_dead_owner(paused, "c1")
        await wait_until(lambda: _is_unknown(other, "c1"))
        bank.gate.set()

        assert_failed(await calling, "unknown_effect")
        assert await _is_unknown(other, "c1")
        assert assert_done(await other.settle("c1", "by hand")) == "by hand"


async def _is_unknown(runtime: Runtime, call_id: str) -> bool:
    return await ledger_state(runtime, call_id) == "unknown"


async def test_a_claim_of_an_unknown_owner_is_found_too(address: str) -> None:
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, store=address) as paused:
        calling = asyncio.create_task(paused.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        await simulate_dead_owner(paused, "c1", registered=False)
        async with Runtime(bank, store=address) as other:
            assert_failed(await other.call("pay", {"amount": 5}, call_id="c1"), "unknown_effect")
            audit = await read_rows(other, "SELECT kind FROM audit WHERE call_id = 'c1' AND kind = 'recovered'")
        bank.gate.set()
        assert_failed(await calling, "unknown_effect")

    assert len(audit) == 1


async def test_a_call_that_was_taken_and_not_run_is_for_the_next(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        assert_pending(await runtime.call("transfer", {"amount": 5}, call_id="c1"))
    async with Runtime(store=address) as without_the_tool:
        assert_pending(await without_the_tool.approve("c1"), "result")
        await simulate_dead_owner(without_the_tool, "c1", state="taken")
    async with Runtime(bank, store=address) as runtime:
        await wait_until(lambda: _ended(runtime, "c1"))

    assert bank.ran == [(5, "ann")]


@pytest.mark.parametrize("reason", ["queue", "gate"])
async def test_an_approved_call_that_a_closing_runtime_had_not_run_is_for_the_next(address: str, reason: str) -> None:
    from surehand import Queue

    bank = Bank()

    @tool(effects={"write"}, confirm=True, queue="one")
    async def send(ctx: Context) -> str:
        """Send, one at a time."""
        return await bank._move(ctx, 1, "bob")

    @tool(effects={"write"}, queue="one")
    async def block(ctx: Context) -> str:
        """Hold the only slot."""
        return await bank._move(ctx, 0, "nobody")

    bank.gate.clear()
    async with Runtime(send, block, store=address, queues={"one": Queue(1)}) as runtime:
        assert_pending(await runtime.call("send", call_id="c1"))
        if reason == "queue":
            blocking = asyncio.create_task(runtime.call("block"))
            await bank.started.wait()
        approving = asyncio.create_task(runtime.approve("c1"))
        await (wait_until(lambda: runtime.queues()["one"].waiting) if reason == "queue" else bank.started.wait())
    told = await approving
    bank.gate.set()
    async with Runtime(send, block, store=address, queues={"one": Queue(1)}) as runtime:
        if reason == "queue":
            assert_failed(await blocking, "cancelled")
            await wait_until(lambda: _ended(runtime, "c1"))
            assert assert_done(await runtime.approve("c1")) == "sent 1 to bob"
            assert bank.ran == [(0, "nobody"), (1, "bob")]
            assert_pending(told, "result")
        else:  # it had begun: how it ended is stored
            assert assert_failed(await runtime.approve("c1"), "cancelled").executed
            assert assert_failed(told, "cancelled").executed
            assert bank.ran == [(1, "bob")]


async def test_a_stored_outcome_is_returned_even_if_policy_would_deny_the_call_now(address: str) -> None:
    @tool(effects={"write"})
    async def book(ctx: Context) -> Any:
        """Book, and hear later."""
        return Pending("result", message="the theatre calls back")

    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, book, store=address) as runtime:
        assert_pending(await runtime.call("book", call_id="booked"))
        calling = asyncio.create_task(runtime.call("pay", {"amount": 5}, call_id="paid"))
        await bank.started.wait()
        await simulate_dead_owner(runtime, "paid")
        bank.gate.set()
        await calling
    async with Runtime(bank, book, store=address, policy=[{"decision": "deny"}]) as runtime:
        assert await runtime.settle("paid", "the bank says it was sent") == Done("the bank says it was sent")
        assert await runtime.settle("booked", "row 5") == Done("row 5")
        assert_failed(await runtime.call("pay", {"amount": 6}), "denied")


# Verify


class Ledger:
    """A tool that can be asked afterwards whether it has happened, and what it was asked."""

    def __init__(self, says: Any, **options: Any) -> None:
        self.ran: list[str] = []
        self.asked: list[Any] = []
        self.started, self.gate = asyncio.Event(), asyncio.Event()

        async def verify(args: dict[str, Any], ctx: Context) -> Any:
            self.asked.append((args, ctx.idempotency_key, ctx.user))
            if isinstance(says, Exception):
                raise says
            return await says() if callable(says) else says

        @tool(effects={"write"}, verify=verify, **options)
        async def book(ctx: Context, amount: int, note: str = "none") -> str:
            """Book an amount."""
            self.ran.append(ctx.idempotency_key)
            self.started.set()
            await self.gate.wait()
            return f"booked {amount}"

        self.book = book


async def abandoned(address: str, books: Ledger) -> None:
    """A call whose process died while it ran; who is dead does not find that out for itself."""
    with patch.object(StoreMaintenance, "recover_dead_runtimes", AsyncMock(return_value=False)):
        await _abandoned(address, books)
    books.started.clear()


async def _abandoned(address: str, books: Ledger) -> None:
    async with Runtime(books.book, store=address) as runtime:
        ann = runtime.scope(user="ann")
        calling = asyncio.create_task(ann.call("book", {"amount": 5}, call_id="c1"))
        if books.book.safety.confirm:
            assert_pending(await calling)
            calling = asyncio.create_task(ann.approve("c1"))
        await books.started.wait()
        await simulate_dead_owner(runtime, "c1")
        books.gate.set()
        await calling


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (Done({"booked": 5}), Done({"booked": 5})),
        (Failed("failed", "it bounced"), Failed("failed", "it bounced", executed=True)),
        (True, Done(None)),
        ("found it", Done("found it")),
    ],
    ids=["done", "failed", "true", "value"],
)
async def test_the_result_of_verify_is_the_outcome(address: str, says: Any, told: Any) -> None:
    books = Ledger(says)
    await abandoned(address, books)

    async with Runtime(books.book, store=address) as runtime:
        outcome = await runtime.scope(user="ann").call("book", {"amount": 5}, call_id="c1")
        assert await runtime.pending() == []
        audit = await read_rows(runtime, "SELECT by_whom FROM audit WHERE kind = 'answer'")

    assert outcome == told
    assert books.asked == [({"amount": 5, "note": "none"}, "c1", "ann")]
    assert [row["by_whom"] for row in audit] == ["verify"]
    assert books.ran == ["c1"]


@pytest.mark.parametrize("says", [None, RuntimeError("no connection")], ids=["none", "raising"])
async def test_where_verify_cannot_tell_a_person_decides(address: str, says: Any) -> None:
    books = Ledger(says)
    await abandoned(address, books)

    async with Runtime(books.book, store=address) as runtime:
        ann = runtime.scope(user="ann")
        assert_failed(await ann.call("book", {"amount": 5}, call_id="c1"), "unknown_effect")
        assert assert_done(await ann.settle("c1", "it did")) == "it did"
    assert books.ran == ["c1"]


async def test_where_it_has_not_happened_the_same_id_may_be_tried_again(address: str) -> None:
    books = Ledger(False)
    await abandoned(address, books)

    async with Runtime(books.book, store=address) as runtime:
        ann = runtime.scope(user="ann")
        waits, ran = await runtime.pending(), list(books.ran)
        outcome = await ann.call("book", {"amount": 5}, call_id="c1")
        again = await ann.call("book", {"amount": 5}, call_id="c1")

    assert (waits, ran) == ([], ["c1"])
    assert outcome == again == Done("booked 5")
    assert books.ran == ["c1", "c1"]  # the key is the same, so the other side can tell a repetition


async def test_an_approved_call_that_has_not_happened_runs_again_exactly_once(address: str) -> None:
    books = Ledger(False, confirm=True)
    await abandoned(address, books)

    async with Runtime(books.book, store=address), Runtime(books.book, store=address) as runtime:
        await wait_until(lambda: _ended(runtime, "c1"))
        outcome = await runtime.approve("c1")

    assert outcome == Done("booked 5")
    assert books.ran == ["c1", "c1"]


async def test_a_slow_verify_does_not_delay_the_start(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from surehand.runtime.maintenance import dead_runtimes

    monkeypatch.setattr(dead_runtimes, "VERIFY_TIMEOUT_SECONDS", 0.05)
    answer = asyncio.Event()

    async def says() -> str:
        await answer.wait()
        return "found it"

    books = Ledger(says)
    await abandoned(address, books)

    async with Runtime(books.book, store=address) as runtime:
        ann = runtime.scope(user="ann")
        assert_failed(await ann.call("book", {"amount": 5}, call_id="c1"), "unknown_effect")
        answer.set()
        await wait_until(lambda: _ended(runtime, "c1"))
        assert assert_done(await ann.call("book", {"amount": 5}, call_id="c1")) == "found it"


async def test_two_concurrent_verifications_let_the_call_run_once(address: str) -> None:
    both, met = 0, asyncio.Event()

    async def says() -> bool:
        nonlocal both
        both += 1
        if both == 2:
            met.set()
        await asyncio.wait_for(met.wait(), 20)
        return False

    books = Ledger(says, confirm=True)
    await abandoned(address, books)
    one, other = Runtime(books.book, store=address), Runtime(books.book, store=address)
    await asyncio.gather(one.__aenter__(), other.__aenter__())
    try:
        await wait_until(lambda: _ended(one, "c1"))
    finally:
        await asyncio.gather(one.close(), other.close())

    assert books.ran == ["c1", "c1"]


async def test_the_key_of_a_call_without_an_id_is_its_own(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        outcomes = [await runtime.call("pay", {"amount": 1}) for _ in range(3)]

    assert bank.keys == [outcome.meta.call_id for outcome in outcomes]
    assert len(set(bank.keys)) == 3
