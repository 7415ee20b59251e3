"""Outcome, audit and inbox item of a call that was pending are written together or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import Runtime
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
)

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server
TABLES = ["inbox", "audit", "journal"]


async def counts(runtime: Runtime, *tables: str) -> dict[str, int]:
    return {table: (await read_rows(runtime, f"SELECT count(*) AS n FROM {table}"))[0]["n"] for table in tables}


@pytest.mark.parametrize("broken", TABLES)
async def test_an_answer_is_written_whole_or_not_at_all(address: str, broken: str) -> None:
    whole = [table for table in TABLES if table != broken]
    async with Runtime(make_ask_tool(), store=address) as runtime:
        call_id = pending_call_id(await runtime.scope(agent="a1").call("ask"))
        before = await counts(runtime, *whole)
        await execute(runtime, f"ALTER TABLE {broken} RENAME TO lost")
        assert_failed(await runtime.settle(call_id, "yes"), "unavailable")
        assert_failed(await runtime.settle(call_id, "no"), "unavailable")

        assert await counts(runtime, *whole) == before
        assert await ledger_state(runtime, call_id) == "waiting"
        assert [wait.call_id for wait in await runtime.pending()] == [call_id]
        await execute(runtime, f"ALTER TABLE lost RENAME TO {broken}")
        assert assert_done(await runtime.settle(call_id, "yes")) == "yes"
        (item,) = await runtime.store.inbox.drain("a1")  # type: ignore[union-attr]

    assert (item.event_id, item.type, item.data["result"]) == (f"tr:{call_id}", "tool_result", "yes")
    assert item.data["toolName"] == "ask"


async def test_an_intent_that_cannot_be_audited_is_not_carried_out(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        await execute(runtime, "ALTER TABLE audit RENAME TO lost")
        outcomes = [
            await runtime.call("pay", {"amount": 5}),
            await runtime.call("pay", {"amount": 5}, call_id="c1"),
            await runtime.call("transfer", {"amount": 5}),
        ]
        await execute(runtime, "ALTER TABLE lost RENAME TO audit")
        assert assert_done(await runtime.call("pay", {"amount": 5}, call_id="c1")) == "sent 5 to ann"
        open_waits = await runtime.pending()

    assert all(not assert_failed(outcome, "unavailable").executed for outcome in outcomes)
    assert bank.ran == [(5, "ann")]
    assert open_waits == []


async def test_an_approved_call_tells_the_agent_that_asked_for_it_once(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        call_id = pending_call_id(await runtime.scope(agent="a1", turn="t1").call("transfer", {"amount": 5}))
    async with Runtime(bank, store=address) as runtime:
        for _ in range(3):
            await runtime.approve(call_id)
        items = await runtime.store.inbox.drain("a1")  # type: ignore[union-attr]
        nobodys = await runtime.store.inbox.drain("")  # type: ignore[union-attr]

    (item,) = items
    told = {"toolCallId": call_id, "toolName": "transfer", "originRunId": "t1", "result": "sent 5 to ann"}
    assert item.data == {**told, "agent": "a1", "turn": "t1"}
    assert nobodys == []


async def test_a_rejection_and_a_cancellation_are_put_into_the_inbox_too(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        ids = [pending_call_id(await runtime.scope(agent="a1").call("transfer", {"amount": 5})) for _ in range(2)]
        await runtime.reject(ids[0], "no")
        assert await runtime.cancel(ids[1])
        items = await runtime.store.inbox.drain("a1")  # type: ignore[union-attr]

    assert [item.data["result"]["code"] for item in items] == ["rejected", "cancelled"]


async def test_a_call_that_was_never_pending_is_not_put_into_the_inbox(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        await runtime.scope(agent="a1").call("pay", {"amount": 5})
        await runtime.scope(agent="a1").call("pay", {"amount": 5}, call_id="c1")

        assert await read_rows(runtime, "SELECT * FROM inbox") == []


async def test_a_pending_call_is_not_put_into_the_inbox_yet(address: str) -> None:
    tools = make_ask_tool(confirm=True)
    async with Runtime(tools, store=address) as runtime:
        call_id = pending_call_id(await runtime.scope(agent="a1").call("ask"))
        assert_pending(await runtime.approve(call_id), "result")
        before = await read_rows(runtime, "SELECT * FROM inbox")
        await runtime.settle(call_id, "yes")
        items: list[Any] = await runtime.store.inbox.drain("a1")  # type: ignore[union-attr]

    assert before == []
    assert [item.data["result"] for item in items] == ["yes"]


async def test_every_step_of_a_call_is_in_the_audit_and_its_chain_holds(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        await runtime.scope(user="ann").call("transfer", {"amount": 5}, call_id="c1")
        await runtime.approve("c1", by="boss")
        await runtime.reject("c1", by="eve")
    async with Runtime(bank, store=address) as runtime:
        rows = await read_rows(runtime, "SELECT kind, user_id, by_whom FROM audit WHERE call_id = 'c1' ORDER BY tx, id")
        checked = await runtime.store.audit.verify()  # type: ignore[union-attr]

    assert [(row["kind"], row["by_whom"]) for row in rows] == [
        ("wait", None),
        ("answer", "boss"),
        ("intent", None),
        ("outcome", None),
        ("refused", "eve"),
    ]
    assert [row["user_id"] for row in rows] == ["ann", "ann", "ann", "ann", None]
    assert checked.problem is None
    assert (checked.rows, checked.unsealed) == (5, 0)
