"""A call that waits for another call, or for a run of an agent, ends with what that comes to, in any process."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import Context, Done, Outcome, Pending, Runtime, Store, Tool, tool
from surehand.runtime.scope import Scope
from surehand.store.tables.runs import RunClaim
from tests.durable.bank_tools import (
    assert_failed,
    assert_pending,
    make_ask_tool,
    pending_call_id,
    read_rows,
    wait_until,
)
from tests.durable.conftest import ON_BOTH_DATABASES

pytestmark = pytest.mark.timeout(60)  # the first test on PostgreSQL starts the server
DRIVER = "c0de"


@tool(effects={"write"})
async def research(run: str) -> Any:
    """Let another agent find out."""
    return Pending.for_run(run)


async def begin(store: Store | None, run_id: str = "r1", **options: Any) -> RunClaim:
    assert store is not None
    await store.owners.join(DRIVER)
    claim = await store.runs.begin(run_id, "researcher", "Find out.", owner=DRIVER, **options)
    assert isinstance(claim, RunClaim)
    return claim


async def ended(runtime: Scope, call_id: str) -> Outcome:
    return await runtime.result(call_id, timeout=25)


@ON_BOTH_DATABASES
async def test_a_call_that_waits_for_a_run_ends_with_its_report_in_a_process_without_the_tool(address: str) -> None:
    async with Runtime(research, store=address) as runtime:
        claim = await begin(runtime.store)
        assert_pending(await runtime.call("research", {"run": "r1"}, call_id="outer"), "result")
        listed = await runtime.pending()
        await runtime.store.runs.save(claim, "waiting")

    async with Runtime(store=address) as elsewhere:
        claim = await elsewhere.store.runs.claim("r1", owner=DRIVER)
        await elsewhere.store.runs.save(claim, "done", report={"text": "It is blue.", "output": None})
        result = await ended(elsewhere, "outer")
        again = await elsewhere.result("outer")

    assert listed == []
    assert result == again == Done("It is blue.")


@pytest.mark.parametrize(
    ("state", "report", "reason", "expected"),
    [
        ("done", {"text": "x", "output": {"colour": "blue"}}, None, Done({"colour": "blue"})),
        ("done", "plain", None, Done("plain")),
        ("stopped", {"text": "Half of it."}, "Out of steps.", "limit_exceeded"),
        ("failed", None, "The model failed.", "failed"),
    ],
)
async def test_the_outcome_says_what_the_run_came_to(
    address: str, state: Any, report: Any, reason: str | None, expected: Any
) -> None:
    async with Runtime(research, store=address) as runtime:
        claim = await begin(runtime.store)
        await runtime.call("research", {"run": "r1"}, call_id="outer")
        await runtime.store.runs.save(claim, state, report=report, reason=reason)
        result = await ended(runtime, "outer")
        late = await runtime.call("research", {"run": "r1"})

    if isinstance(expected, Done):
        assert result == late == expected
    else:
        failure = assert_failed(result, expected)
        assert failure.executed
        assert reason in failure.message
        assert_failed(late, expected)


async def test_a_run_that_is_unknown_or_of_another_user_cannot_be_waited_for(address: str) -> None:
    async with Runtime(research, store=address) as runtime:
        await begin(runtime.store, user="ada")

        assert_failed(await runtime.call("research", {"run": "unknown"}), "not_found")
        assert_failed(await runtime.scope(user="bob").call("research", {"run": "r1"}), "not_found")
        assert_pending(await runtime.scope(user="ada").call("research", {"run": "r1"}))


async def test_a_call_that_waits_for_a_run_is_not_answered_but_can_be_cancelled(address: str) -> None:
    async with Runtime(research, store=address) as runtime:
        await begin(runtime.store)
        call_id = pending_call_id(await runtime.call("research", {"run": "r1"}))

        assert "r1" in assert_failed(await runtime.settle(call_id, "blue"), "conflict").message
        assert_failed(await runtime.approve(call_id), "conflict")
        assert await runtime.cancel(call_id)
        assert_failed(await ended(runtime, call_id), "cancelled")


def order_tools() -> list[Tool[..., Any]]:
    @tool(effects={"write"})
    async def order(ctx: Context) -> Any:
        """Order, once the person has agreed and said which."""
        return await ctx.call("ask")

    @tool(effects={"write"})
    async def shop(ctx: Context) -> Any:
        """Shop by ordering."""
        return await ctx.call("order")

    return [order, shop, make_ask_tool(confirm=True)]


@ON_BOTH_DATABASES
async def test_outer_calls_end_with_what_the_inner_one_comes_to_not_with_its_first_answer(address: str) -> None:
    async with Runtime(order_tools(), store=address) as runtime:
        outer = pending_call_id(await runtime.call("shop"))

    async with Runtime(store=address) as without_tools:
        (wait,) = await without_tools.pending()
        await without_tools.approve(wait.call_id)
        assert_pending(await without_tools.result(outer, timeout=0))

    async with Runtime(order_tools(), store=address) as runtime:
        await wait_until(lambda: is_asked_for_result(runtime, wait.call_id))
        assert_pending(await runtime.result(outer, timeout=0))

    async with Runtime(store=address) as without_tools:
        await without_tools.settle(wait.call_id, "the blue one")
        result = await ended(without_tools, outer)
        states = await read_rows(without_tools, "SELECT DISTINCT state FROM ledger")

    assert result == Done("the blue one")
    assert states == [{"state": "ended"}]


async def is_asked_for_result(runtime: Runtime, call_id: str) -> bool:
    return any(wait.call_id == call_id and wait.waiting_for == "result" for wait in await runtime.pending())


@ON_BOTH_DATABASES
async def test_a_call_that_hands_up_one_that_runs_elsewhere_ends_with_what_that_comes_to(
    address: str, child: Any
) -> None:
    runtimes: list[Runtime] = []

    @tool(effects={"write"})
    async def pay(amount: int) -> str:
        """Pay money."""
        raise AssertionError("it runs in the other process")

    @tool(effects={"write"})
    async def order() -> Any:
        """Order what another process pays."""
        return await runtimes[0].call("pay", {"amount": 5}, call_id="inner")

    async with child("call", address, "pay", "inner", "5") as process, Runtime(order, pay, store=address) as runtime:
        runtimes.append(runtime)
        await process.read_message()  # it runs
        outer = pending_call_id(await runtime.call("order"))
        assert await runtime.pending() == []  # nothing to answer
        process.resume()

        assert await ended(runtime, outer) == Done("sent 5 to ann, late")


@ON_BOTH_DATABASES
async def test_a_call_that_waits_for_one_whose_process_dies_ends_with_what_a_person_finds_out(
    address: str, child: Any
) -> None:
    runtimes: list[Runtime] = []

    @tool(effects={"write"})
    async def pay(amount: int) -> str:
        """Pay money."""
        raise AssertionError("it is never run here")

    @tool(effects={"write"})
    async def order() -> Any:
        """Order what another process pays."""
        return await runtimes[0].call("pay", {"amount": 5}, call_id="inner")

    async with Runtime(order, pay, store=address) as runtime:
        runtimes.append(runtime)
        async with child("call", address, "pay", "inner", "5") as process:
            await process.read_message()
            outer = pending_call_id(await runtime.call("order"))
            await process.kill()
        await wait_until(runtime.pending)
        await runtime.settle("inner", "it was paid")

        assert await ended(runtime, outer) == Done("it was paid")
