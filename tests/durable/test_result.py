"""`result` waits for the end of any call, in any process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Done, Pending, Runtime, tool
from surehand.core.events import CallStarted
from surehand.testing import ManualClock
from tests.durable.bank_tools import (
    Bank,
    assert_failed,
    assert_pending,
    make_ask_tool,
    pending_call_id,
    simulate_dead_owner,
    wait_until,
)
from tests.durable.conftest import ON_BOTH_DATABASES


async def test_the_result_of_an_ended_call_is_given_at_once(any_address: str) -> None:
    async with Runtime(Bank(), store=any_address) as runtime:
        paid = await runtime.call("pay", {"amount": 5}, call_id="c1")

        assert await runtime.result("c1") == paid == Done("sent 5 to ann")


async def test_result_gives_the_pending_when_its_timeout_is_over(any_address: str) -> None:
    async with Runtime(make_ask_tool(), store=any_address) as runtime:
        call_id = pending_call_id(await runtime.call("ask"))
        asked = [await runtime.result(call_id, timeout) for timeout in (0, 0.01, "10ms")]

    assert [(assert_pending(each).call_id, assert_pending(each).waiting_for) for each in asked] == [
        (call_id, "result")
    ] * 3


async def test_the_outcome_of_a_pending_call_names_its_call_while_it_waits_and_when_it_has_ended(
    any_address: str,
) -> None:
    async with Runtime(make_ask_tool(), store=any_address) as runtime:
        call_id = pending_call_id(await runtime.scope(agent="clerk", turn="run-1").call("ask"))
        waiting = (await runtime.result(call_id, timeout=0)).as_legacy("000")
        await runtime.settle(call_id, "yes")
        result = await runtime.result(call_id)
        resolved = result.as_legacy("000")

    for row, status in ((waiting, "pending"), (resolved, "resolved")):
        assert (row["toolCallId"], row["toolName"], row["status"]) == (call_id, "ask", status)
        assert (row["agentEntityId"], row["runId"], row["args"]) == ("clerk", "run-1", {})
    assert waiting["createdAt"] == resolved["createdAt"] <= resolved["resolvedAt"]
    assert (result.meta.call_id, result.meta.tool) == (call_id, "ask")


async def test_an_expired_call_is_an_expired_row_that_names_its_call() -> None:
    clock = ManualClock()
    async with Runtime(make_ask_tool(expires="1h"), clock=clock) as runtime:
        call_id = pending_call_id(await runtime.call("ask"))
        waiting = asyncio.create_task(runtime.result(call_id))
        await clock.advance(3601)
        outcomes = [await waiting, await runtime.settle(call_id, "too late")]

    for row in (outcome.as_legacy("000") for outcome in outcomes):
        assert (row["toolCallId"], row["toolName"], row["status"]) == (call_id, "ask", "expired")


async def test_a_refused_answer_names_the_call_that_it_was_for() -> None:
    async with Runtime(make_ask_tool()) as runtime:
        call_id = pending_call_id(await runtime.call("ask"))
        unfit = await runtime.approve(call_id)
        await runtime.settle(call_id, "yes")
        other = await runtime.settle(call_id, "no")

    for refusal in (unfit, other):
        assert_failed(refusal, "conflict")
        assert (refusal.meta.call_id, refusal.meta.tool) == (call_id, "ask")


async def test_the_timeout_of_result_counts_on_the_clock_of_the_runtime() -> None:
    clock = ManualClock()
    async with Runtime(make_ask_tool(), clock=clock) as runtime:
        call_id = pending_call_id(await runtime.call("ask"))
        waiting = asyncio.create_task(runtime.result(call_id, timeout=60))
        await clock.advance(59)
        was_waiting = not waiting.done()
        await clock.advance(1)

        assert was_waiting
        assert isinstance(await waiting, Pending)


async def test_result_of_an_unknown_id_or_a_strangers_call_is_not_found(any_address: str) -> None:
    async with Runtime(make_ask_tool(), store=any_address) as runtime:
        call_id = pending_call_id(await runtime.scope(user="ada", session="s1").call("ask"))
        strangers = [runtime.scope(user="bob"), runtime.scope(user="ada", session="s2")]
        outcomes = [await scope.result(call_id, timeout=0) for scope in strangers]
        unknown = [await runtime.result(name, timeout=0) for name in ("none", "", "\0", "\ud800")]
        own = await runtime.scope(user="ada").result(call_id, timeout=0)

    for outcome in [*outcomes, *unknown]:
        assert_failed(outcome, "not_found")
    assert assert_pending(own).call_id == call_id


async def test_result_waits_for_an_answer(any_address: str) -> None:
    async with Runtime(make_ask_tool(), store=any_address) as runtime:
        call_id = pending_call_id(await runtime.call("ask"))
        waiting = [asyncio.create_task(runtime.result(call_id)) for _ in range(3)]
        await asyncio.sleep(0)
        await runtime.settle(call_id, "blue")

        assert await asyncio.gather(*waiting) == [Done("blue")] * 3


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("is_durable", [False, True])
async def test_result_waits_for_a_call_that_runs(file: str, effect: str, is_durable: bool) -> None:
    gate = asyncio.Event()
    started: list[str] = []

    @tool(effects={effect})
    async def work() -> str:
        """Work until the gate opens."""
        await gate.wait()
        return "done"

    async with Runtime(work, store=file if is_durable else None) as runtime:
        runtime.listen(lambda event: started.append(event.call_id) if isinstance(event, CallStarted) else None)
        calling = asyncio.create_task(runtime.call("work"))
        await wait_until(lambda: started)
        meanwhile = await runtime.result(started[0], timeout=0)
        waiting = asyncio.create_task(runtime.result(started[0]))
        await asyncio.sleep(0)
        gate.set()

        assert assert_pending(meanwhile).message == "work is running."
        assert await waiting == await calling == Done("done")


@ON_BOTH_DATABASES
async def test_result_waits_for_a_call_that_another_process_answers(address: str) -> None:
    bank = Bank()
    async with Runtime(make_ask_tool(), bank, store=address) as one, Runtime(bank, store=address) as other:
        asked = pending_call_id(await one.call("ask"))
        approval = pending_call_id(await one.call("transfer", {"amount": 5}))
        waiting = [asyncio.create_task(one.result(call_id)) for call_id in (asked, approval)]
        await asyncio.sleep(0)
        await other.settle(asked, "blue")
        await other.approve(approval)

        assert await asyncio.gather(*waiting) == [Done("blue"), Done("sent 5 to ann")]


@ON_BOTH_DATABASES
async def test_result_waits_for_a_call_that_runs_in_another_process(address: str, child: Any) -> None:
    async with child("call", address, "pay", "c1", "5") as process:
        await process.read_message()
        async with Runtime(store=address) as other:
            meanwhile = await other.result("c1", timeout=0)
            waiting = asyncio.create_task(other.result("c1"))
            await asyncio.sleep(0)
            process.resume()

            assert isinstance(meanwhile, Pending)
            assert await waiting == Done("sent 5 to ann, late")


async def test_result_of_a_call_whose_effect_is_unknown_waits_for_the_person(address: str) -> None:
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, store=address) as runtime:
        calling = asyncio.create_task(runtime.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        await simulate_dead_owner(runtime, "c1")
        async with Runtime(store=address) as other:
            await wait_until(other.pending)
            meanwhile = assert_pending(await other.result("c1", timeout=0))
            waiting = asyncio.create_task(other.result("c1"))
            await asyncio.sleep(0)
            await other.settle("c1", "it was paid")
            outcome = await waiting
        bank.gate.set()
        await calling

    assert "not known" in meanwhile.message
    assert outcome == Done("it was paid")


async def test_result_of_a_call_that_was_refused_says_so(file: str) -> None:
    async with Runtime(Bank(), store=file, policy=[{"tools": "pay", "decision": "deny"}]) as runtime:
        await runtime.call("pay", {"amount": 5}, call_id="c1")

        assert_failed(await runtime.result("c1", timeout=20), "denied")


async def test_a_runtime_that_closes_ends_the_waits_for_results() -> None:
    async with Runtime(make_ask_tool()) as runtime:
        waiting = asyncio.create_task(runtime.result(pending_call_id(await runtime.call("ask"))))
        await asyncio.sleep(0)

    assert_failed(await waiting, "unavailable")
