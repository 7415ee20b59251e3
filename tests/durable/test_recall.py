"""A given id means the same call for as long as it is stored, in every process."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from surehand import Context, Done, Failed, Runtime, ToolError, tool
from surehand.testing import ManualClock
from tests.durable.bank_tools import (
    Bank,
    assert_done,
    assert_failed,
    assert_pending,
    ledger_state,
    make_ask_tool,
    read_rows,
)

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


async def test_an_id_gives_the_stored_outcome_after_a_restart(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        first = await runtime.call("pay", {"amount": 5}, call_id="c1")
    async with Runtime(bank, store=address) as runtime:
        again = await runtime.call("pay", '{"amount": "5"}', call_id="c1")
        other = await runtime.call("pay", {"amount": 6}, call_id="c1")
        other_tool = await runtime.call("transfer", {"amount": 5}, call_id="c1")

    assert first == again == Done("sent 5 to ann")
    assert_failed(other, "conflict")
    assert_failed(other_tool, "conflict")
    assert bank.ran == [(5, "ann")]


async def test_a_failure_that_happened_is_stored_and_one_that_did_not_may_be_tried_again(address: str) -> None:
    tries: list[int] = []

    @tool(effects={"write"})
    async def pay(ctx: Context) -> str:
        """Pay."""
        tries.append(1)
        refusal = ToolError("the bank said no", data={"why": ["no money"]})
        refusal.executed = len(tries) > 1
        raise refusal

    async with Runtime(pay, store=address) as runtime:
        first = assert_failed(await runtime.call("pay", call_id="c1"), "failed")
    async with Runtime(pay, store=address) as runtime:
        second = assert_failed(await runtime.call("pay", call_id="c1"), "failed")
        third = await runtime.call("pay", call_id="c1")

    assert (first.executed, second.executed) == (False, True)
    assert third == second
    assert len(tries) == 2


async def test_an_id_gives_the_same_open_wait_after_a_restart(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, make_ask_tool(), store=address) as runtime:
        first = [
            await runtime.call("transfer", {"amount": 5}, call_id="c1"),
            await runtime.call("ask", call_id="c2"),
        ]
    async with Runtime(bank, make_ask_tool(), store=address) as runtime:
        again = [
            await runtime.call("transfer", {"amount": 5}, call_id="c1"),
            await runtime.call("ask", call_id="c2"),
        ]
        waits = await runtime.pending()

    assert again == first
    assert [assert_pending(each).call_id for each in again] == [wait.call_id for wait in waits] == ["c1", "c2"]


async def test_everything_a_model_was_shown_is_shown_again_after_a_restart(address: str) -> None:
    from surehand import File, Image, Json, Text

    given = Done(
        {"rows": [1, 2]},
        content=[Text("two rows"), Json({"rows": 2}, "2 rows"), Image("aGk=", "image/png")],
        title="Rows",
        metadata={"took": 0.5},
        attachments=[File("aGk=", "text/plain", "rows.txt")],
    )

    @tool(effects={"write"})
    async def work() -> Any:
        """Work."""
        return given

    @tool(effects={"write"}, max_bytes=2_000)
    async def write_much() -> str:
        """Write much."""
        return "line\n" * 10_000

    async with Runtime(work, write_much, store=address) as runtime:
        first = [await runtime.call("work", call_id="c1"), await runtime.call("write_much", call_id="c2")]
    async with Runtime(work, write_much, store=address) as runtime:
        again = [await runtime.call("work", call_id="c1"), await runtime.call("write_much", call_id="c2")]
        handle = __import__("json").loads(again[1].text)["tool_output"]["handle"]
        page = await runtime.call("tool_output", {"handle": handle, "lines": "1-2"})

    assert again == first
    assert [each.text for each in again] == [each.text for each in first]
    assert [each.content for each in again] == [each.content for each in first]
    assert assert_done(again[1]) == "line\n" * 10_000
    assert "line" in assert_done(page)


@pytest.mark.parametrize("stranger", [{"user": "eve"}, {"session": "s2"}, {}])
async def test_the_id_of_another_user_or_session_reveals_nothing_after_a_restart(
    address: str, stranger: dict[str, str]
) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        await runtime.scope(user="ann", session="s1").call("pay", {"amount": 4711}, call_id="c1")
        await runtime.scope(user="ann", session="s1").call("transfer", {"amount": 4711}, call_id="c2")
    async with Runtime(bank, store=address) as runtime:
        eve = runtime.scope(**stranger)
        outcomes = [
            await eve.call(name, {"amount": amount}, call_id=call_id)
            for name in ("pay", "transfer")
            for amount in (4711, 1)
            for call_id in ("c1", "c2")
        ]

    assert [assert_failed(each, "conflict") for each in outcomes] == [outcomes[0]] * 8
    assert not any(word in outcomes[0].text for word in ("4711", "ann", "s1", "pay", "transfer", "sent"))
    assert bank.ran == [(4711, "ann")]


IDS = {
    "plain": "c1",
    "unicode": "é漢𝄞",
    "NUL": "c\0",
    "surrogate": "c\ud800",
    "longest": "x" * 200,
    "too long": "x" * 201,
    "wide": "漢" * 200,
    "empty": "",
    "blank": " ",
    "new line": "c\n1",
    "quote": "c'; DROP TABLE ledger; --",
    "percent": "%s%(a)s{now}:x",
}


@pytest.mark.parametrize("tool_name", ["pay", "transfer"])
async def test_every_database_gives_the_same_verdict_on_an_id(addresses: Any, tool_name: str) -> None:
    verdicts: dict[str, list[str]] = {}
    for kind, address in addresses().items():
        bank = Bank()
        async with Runtime(bank, store=address) as runtime:
            for name, call_id in IDS.items():
                first = await runtime.call(tool_name, {"amount": 1}, call_id=call_id)
                again = await runtime.call(tool_name, {"amount": 1}, call_id=call_id)
                answered = await runtime.approve(call_id)
                settled = await runtime.settle(call_id, "x")
                cancelled = await runtime.cancel(call_id)
                told = [_short(each) for each in (first, again, answered, settled)]
                verdicts.setdefault(name, []).append(f"{told} {cancelled}")
            rows = await read_rows(runtime, "SELECT state, count(*) AS number FROM ledger GROUP BY state")
        assert {row["state"] for row in rows} == {"ended"}, kind
        assert len(bank.ran) == 8, kind

    assert all(len(set(told)) == 1 for told in verdicts.values()), verdicts
    for name in ("NUL", "surrogate", "too long", "empty"):
        first = "invalid_arguments"
        assert verdicts[name][0] == f"{[first, first, 'not_found', 'not_found']} False", name


def _short(outcome: Any) -> str:
    return outcome.code if isinstance(outcome, Failed) else f"{type(outcome).__name__} {outcome.data}"


@pytest.mark.parametrize("call_id", [5, None, b"c1", ["c1"]])
async def test_an_id_that_is_not_a_string_is_rejected_or_ignored(any_address: str, call_id: Any) -> None:
    bank = Bank()
    async with Runtime(bank, store=any_address) as runtime:
        outcome = await runtime.call("pay", {"amount": 5}, call_id=call_id)
        answered = await runtime.approve(call_id)

    assert (outcome.ok, len(bank.ran)) == ((True, 1) if call_id is None else (False, 0))
    if call_id is not None:
        assert not assert_failed(outcome, "invalid_arguments").executed
    assert_failed(answered, "not_found")


async def test_a_timed_out_outcome_is_stored_as_it_was_returned(address: str) -> None:
    bank, clock = Bank(), ManualClock(time.time())
    bank.gate.clear()
    async with Runtime(bank, store=address, clock=clock) as runtime:
        calling = asyncio.create_task(runtime.call("pay", {"amount": 5}, call_id="c1", timeout=5))
        await bank.started.wait()
        await clock.advance(6)
        by_caller = await calling
        again = await runtime.call("pay", {"amount": 5}, call_id="c1")
        calling = asyncio.create_task(runtime.call("pay", {"amount": 6}, call_id="c2"))
        bank.started.clear()
        await bank.started.wait()
        await runtime.cancel("c2")
        by_id = await calling
        by_id_again = await runtime.call("pay", {"amount": 6}, call_id="c2")

    assert assert_failed(by_caller, "timed_out").executed
    assert again == by_caller
    assert assert_failed(by_id, "cancelled").executed
    assert by_id_again == by_id


async def test_a_repeatable_call_is_run_again_only_until_it_has_an_outcome(address: str) -> None:
    looks: list[int] = []

    @tool(effects={"read"})
    async def look() -> int:
        """Look."""
        looks.append(1)
        return len(looks)

    async with Runtime(look, store=address) as runtime:
        first = await runtime.call("look", call_id="c1")
    async with Runtime(look, store=address) as runtime:
        again = await runtime.call("look", call_id="c1")
        fresh = await runtime.call("look")

    assert first == again == Done(1)
    assert fresh == Done(2)
    assert looks == [1, 1]


async def test_a_call_that_runs_elsewhere_is_pending_and_then_has_its_outcome(address: str) -> None:
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, store=address) as here, Runtime(bank, store=address) as elsewhere:
        calling = asyncio.create_task(here.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        meanwhile = await elsewhere.call("pay", {"amount": 5}, call_id="c1")
        answered = await elsewhere.settle("c1", "meddling")
        bank.gate.set()

        assert await calling == await elsewhere.call("pay", {"amount": 5}, call_id="c1") == Done("sent 5 to ann")
        assert await ledger_state(here, "c1") == "ended"
    assert_pending(meanwhile, "result")
    assert_failed(answered, "not_found")
    assert bank.ran == [(5, "ann")]
