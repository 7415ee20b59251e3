"""Expiry: a pending call that is not answered in time ends, in whichever process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from surehand import Pending, Runtime, tool
from surehand.testing import ManualClock
from tests.durable.bank_tools import (
    Bank,
    assert_failed,
    assert_pending,
    ledger_state,
    make_ask_tool,
    pending_call_id,
    read_rows,
    wait_until,
)

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server
TTL = {"pending_ttl": 60.0}


async def _ended(runtime: Runtime, call_id: str) -> bool:
    return await ledger_state(runtime, call_id) == "ended"


async def test_a_pending_call_expires_and_late_answers_are_refused_as_expired(file: str) -> None:
    bank, clock = Bank(), ManualClock()
    async with Runtime(bank, make_ask_tool(), store=file, clock=clock, defaults=TTL) as runtime:
        asked = pending_call_id(await runtime.call("transfer", {"amount": 5}, call_id="c1"))
        waits = pending_call_id(await runtime.call("ask"))
        await clock.advance(59)
        assert len(await runtime.pending()) == 2
        await clock.advance(1)
        assert await runtime.pending() == []  # at once, even before anybody has swept
        await wait_until(lambda: _ended(runtime, asked))
        await wait_until(lambda: _ended(runtime, waits))
        late = [await runtime.approve(asked), await runtime.reject(asked), await runtime.settle(waits, 1)]
        recalled = await runtime.call("transfer", {"amount": 5}, call_id="c1")
        items = await runtime.store.inbox.drain("")  # type: ignore[union-attr]
        refused = await read_rows(runtime, "SELECT detail FROM audit WHERE kind = 'refused'")

    assert all(not assert_failed(each, "expired").executed for each in [*late, recalled])
    assert sorted(item.event_id for item in items) == sorted([f"tr:{asked}", f"tr:{waits}"])
    assert {item.data["result"]["code"] for item in items} == {"expired"}
    answers = [json.loads(row["detail"])["answer"] for row in refused]
    assert [each for each in answers if each != "expire"] == ["approve", "reject", "settle"]  # two sweeps may meet
    assert bank.ran == []


async def test_the_waits_of_a_process_that_is_gone_are_ended_by_another(file: str) -> None:
    clock = ManualClock()
    async with Runtime(make_ask_tool(), store=file, clock=clock, defaults=TTL) as runtime:
        calls = [pending_call_id(await runtime.scope(agent="a1").call("ask")) for _ in range(3)]
    async with Runtime(store=file, clock=clock) as other:
        await clock.advance(61)
        for call_id in calls:
            await wait_until(lambda call_id=call_id: _ended(other, call_id))
            assert_failed(await other.settle(call_id, "late"), "expired")
        items = await other.store.inbox.drain("a1")  # type: ignore[union-attr]

    assert sorted(item.event_id for item in items) == sorted(f"tr:{call_id}" for call_id in calls)


async def test_two_sweepers_end_each_wait_once(file: str) -> None:
    clock, ended = ManualClock(), []
    async with (
        Runtime(make_ask_tool(), store=file, clock=clock, defaults=TTL) as one,
        Runtime(make_ask_tool(), store=file, clock=clock, defaults=TTL) as other,
    ):
        calls = [pending_call_id(await one.scope(agent="a1").call("ask")) for _ in range(20)]
        for runtime in (one, other):
            runtime.listen(lambda event: ended.append(event) if type(event).__name__ == "CallEnded" else None)
        await clock.advance(61)
        for call_id in calls:
            await wait_until(lambda call_id=call_id: _ended(one, call_id))
        items = await one.store.inbox.drain("a1")  # type: ignore[union-attr]
        [audit] = await read_rows(one, "SELECT count(*) AS number FROM audit WHERE kind = 'outcome'")

    assert len(items) == len({item.event_id for item in items}) == 20
    assert audit["number"] == 20


async def test_calls_that_expired_while_no_runtime_ran_end_at_the_next_start(file: str) -> None:
    clock = ManualClock()
    async with Runtime(make_ask_tool(), store=file, clock=clock, defaults=TTL) as runtime:
        calls = [pending_call_id(await runtime.call("ask", call_id=f"c{number}")) for number in range(250)]
    clock = ManualClock(1_000_000.0 + 3600)
    async with Runtime(make_ask_tool(), store=file, clock=clock) as runtime:
        assert await runtime.pending() == []
        for call_id in calls:
            await wait_until(lambda call_id=call_id: _ended(runtime, call_id))
        assert_failed(await runtime.call("ask", call_id="c0"), "expired")


async def test_a_time_that_a_wait_brings_along_counts_on_every_database(address: str) -> None:
    import time

    @tool(effects={"write"})
    async def book() -> Any:
        """Book, and wait for a moment."""
        return Pending("result", expires_at=time.time() + 0.3)

    async with Runtime(book, store=address) as runtime:
        waiting = assert_pending(await runtime.call("book", call_id="c1"))
    async with Runtime(store=address) as runtime:
        await wait_until(lambda: _ended(runtime, "c1"))
        late = await runtime.settle("c1", "late")

    assert waiting.expires_at is not None
    assert_failed(late, "expired")


async def test_an_answer_in_time_is_not_expired_afterwards(file: str) -> None:
    clock = ManualClock()
    async with Runtime(make_ask_tool(), store=file, clock=clock, defaults=TTL) as runtime:
        call_id = pending_call_id(await runtime.call("ask"))
        await clock.advance(59.9)
        answered = await runtime.settle(call_id, "yes")
    async with Runtime(make_ask_tool(), store=file, clock=ManualClock(2_000_000.0)) as runtime:
        again = await runtime.settle(call_id, "yes")
        items = await runtime.store.inbox.drain("")  # type: ignore[union-attr]

    assert answered == again
    assert answered.unwrap() == "yes"
    assert len(items) == 1


async def test_a_call_that_waits_for_an_expired_one_ends_with_it(file: str) -> None:
    from surehand import Context

    @tool(effects={"write"})
    async def order(ctx: Context) -> Any:
        """Order, once the person has said which."""
        return await ctx.call("ask")

    clock = ManualClock()
    async with Runtime(order, make_ask_tool(), store=file, clock=clock, defaults=TTL) as runtime:
        outer = pending_call_id(await runtime.call("order", call_id="outer"))
    async with Runtime(order, make_ask_tool(), store=file, clock=clock, defaults=TTL) as runtime:
        await clock.advance(61)
        await wait_until(lambda: _ended(runtime, outer))
        assert_failed(await runtime.call("order", call_id="outer"), "expired")
