"""Approvals survive the process that asked: answers count after a restart, once, and for that call."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from surehand import Context, Done, Failed, Runtime, tool
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


async def asked(address: str, *sources: Any, name: str = "transfer", **arguments: Any) -> str:
    """A call that waits, made by a process that is gone."""
    async with Runtime(*sources, store=address) as runtime:
        return pending_call_id(await runtime.call(name, arguments))


# After a restart


async def test_a_yes_after_a_restart_runs_the_call_once(address: str) -> None:
    bank = Bank()
    call_id = await asked(address, bank, amount=5)

    async with Runtime(bank, store=address) as runtime:
        (wait,) = await runtime.pending()
        first = await runtime.approve(call_id)
        again = await runtime.approve(call_id)
    async with Runtime(bank, store=address) as runtime:
        later = await runtime.approve(call_id)

    assert (wait.call_id, wait.tool, wait.arguments) == (call_id, "transfer", {"amount": 5})
    assert first == again == later == Done("sent 5 to ann")
    assert bank.ran == [(5, "ann")]
    assert bank.keys == [call_id]


async def test_a_no_after_a_restart_ends_the_call_and_nothing_runs(address: str) -> None:
    bank = Bank()
    call_id = await asked(address, bank, amount=5)

    async with Runtime(bank, store=address) as runtime:
        rejected = assert_failed(await runtime.reject(call_id, "too expensive"), "rejected")
    async with Runtime(bank, store=address) as runtime:
        again = await runtime.reject(call_id)
        assert_failed(await runtime.approve(call_id), "conflict")

    assert "too expensive" in rejected.text
    assert again == rejected
    assert bank.ran == []


async def test_an_answer_after_a_restart_is_the_outcome(address: str) -> None:
    call_id = await asked(address, make_ask_tool(), name="ask")

    async with Runtime(make_ask_tool(), store=address) as runtime:
        assert await runtime.settle(call_id, {"size": "large"}) == Done({"size": "large"})
    async with Runtime(make_ask_tool(), store=address) as runtime:
        assert await runtime.settle(call_id, {"size": "large"}) == Done({"size": "large"})
        assert_failed(await runtime.settle(call_id, "small"), "conflict")


async def test_an_approved_client_tool_waits_for_its_answer_across_restarts(address: str) -> None:
    tools = make_ask_tool(confirm=True, parameters={"type": "object", "properties": {"of": {"type": "string"}}})
    call_id = await asked(address, tools, name="ask", of="ann")

    async with Runtime(tools, store=address) as runtime:
        assert_pending(await runtime.approve(call_id), "result")
    async with Runtime(tools, store=address) as runtime:
        (wait,) = await runtime.pending()
        assert assert_done(await runtime.settle(call_id, "blue")) == "blue"

    assert (wait.waiting_for, wait.round, wait.arguments) == ("result", 2, {"of": "ann"})


async def test_a_client_tool_that_was_approved_with_other_arguments_is_asked_with_those(address: str) -> None:
    tools = make_ask_tool(confirm=True, parameters={"type": "object", "properties": {"of": {"type": "string"}}})
    async with Runtime(tools, store=address) as runtime:
        assert_pending(await runtime.call("ask", {"of": "ann"}, call_id="c1"), "approval")
        unnamed = pending_call_id(await runtime.call("ask", {"of": "ann"}))

    async with Runtime(tools, store=address) as runtime:
        for call_id in ("c1", unnamed):
            assert_pending(await runtime.approve(call_id, arguments={"of": "bob"}), "result")
        waits = await runtime.pending()
        answers = [await runtime.settle(call_id, "blue") for call_id in ("c1", unnamed)]
        recalled = await runtime.call("ask", {"of": "ann"}, call_id="c1")

    assert [wait.arguments for wait in waits] == [{"of": "bob"}] * 2
    assert [*answers, recalled] == [Done("blue")] * 3


async def test_nested_waits_end_together_after_a_restart(address: str) -> None:
    @tool(effects={"write"})
    async def order(ctx: Context) -> Any:
        """Order, once the person has said which."""
        return await ctx.call("ask")

    @tool(effects={"write"})
    async def shop(ctx: Context) -> Any:
        """Shop by ordering."""
        return await ctx.call("order")

    async with Runtime(shop, order, make_ask_tool(), store=address) as runtime:
        outer = pending_call_id(await runtime.call("shop"))
        (wait,) = await runtime.pending()

    async with Runtime(shop, order, make_ask_tool(), store=address) as runtime:
        answered = await runtime.settle(wait.call_id, "the blue one")
        told = await runtime.settle(outer, "the blue one")
        rows = await read_rows(runtime, "SELECT tool, state FROM ledger ORDER BY tool")

    assert wait.tool == "ask"
    assert answered == told == Done("the blue one")
    assert [(row["tool"], row["state"]) for row in rows] == [("ask", "ended"), ("order", "ended"), ("shop", "ended")]


async def test_an_answer_to_the_outer_call_after_a_restart_goes_to_the_inner_one(address: str) -> None:
    @tool(effects={"write"})
    async def order(ctx: Context) -> Any:
        """Order, once the person has said which."""
        return await ctx.call("ask")

    async with Runtime(order, make_ask_tool(), store=address) as runtime:
        outer = pending_call_id(await runtime.call("order", call_id="outer"))
    async with Runtime(order, make_ask_tool(), store=address) as runtime:
        answered = await runtime.settle(outer, "blue")
        recalled = await runtime.call("order", call_id="outer")

    assert answered == recalled == Done("blue")


async def test_a_call_that_would_wait_for_one_that_has_ended_ends_like_it(any_address: str) -> None:
    asked_about, answered = asyncio.Event(), asyncio.Event()

    @tool(effects={"write"})
    async def order(ctx: Context) -> Any:
        """Order, and look away until the person has answered."""
        inner = await ctx.call("ask")
        asked_about.set()
        await answered.wait()
        return inner

    async with Runtime(order, make_ask_tool(), store=any_address) as runtime:
        ordering = asyncio.create_task(runtime.call("order", call_id="c1"))
        await asked_about.wait()
        (wait,) = await runtime.pending()
        await runtime.settle(wait.call_id, "blue")
        answered.set()

        assert await ordering == Done("blue")
        assert await runtime.call("order", call_id="c1") == Done("blue")
        assert await ledger_state(runtime, "c1") == "ended"


# Elsewhere


async def test_an_approval_in_a_runtime_without_the_tool_lets_another_one_run_the_call_once(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as here, Runtime(store=address) as elsewhere:
        call_id = pending_call_id(await here.call("transfer", {"amount": 5}, call_id="c1"))
        told = assert_pending(await elsewhere.approve(call_id, by="bob"), "result")
        outcome = await wait_until(lambda: _ended(elsewhere, call_id))
        again = await elsewhere.approve(call_id)
        recalled = await here.call("transfer", {"amount": 5}, call_id="c1")

    assert told.call_id == call_id
    assert outcome == again == recalled == Done("sent 5 to ann")
    assert bank.ran == [(5, "ann")]


async def _ended(runtime: Runtime, call_id: str) -> Any:
    """The outcome, once it is there; approving again is how somebody without the tool asks for it."""
    if await ledger_state(runtime, call_id) != "ended":
        return None
    return await runtime.approve(call_id)


async def test_many_runtimes_that_have_the_tool_run_an_approved_call_once(address: str) -> None:
    bank = Bank()
    async with Runtime(store=address) as asking:
        await asking.add(bank)
        calls = [pending_call_id(await asking.call("transfer", {"amount": number})) for number in range(10)]
        asking.catalogue.remove("transfer")
        for call_id in calls:
            assert_pending(await asking.approve(call_id), "result")
        async with Runtime(bank, store=address), Runtime(bank, store=address), Runtime(bank, store=address):
            await wait_until(lambda: _all_ended(asking, calls))

    assert sorted(amount for amount, _ in bank.ran) == list(range(10))


async def _all_ended(runtime: Runtime, calls: list[str]) -> bool:
    return [await ledger_state(runtime, call_id) for call_id in calls] == ["ended"] * len(calls)


async def test_an_approved_call_whose_process_ended_before_it_ran_is_run_by_the_next(address: str) -> None:
    bank = Bank()
    call_id = await asked(address, bank, amount=5)
    async with Runtime(store=address) as without_the_tool:
        assert_pending(await without_the_tool.approve(call_id, arguments=None, by="bob"), "result")
    assert bank.ran == []

    async with Runtime(bank, store=address) as runtime:
        await wait_until(lambda: _ended(runtime, call_id))
        (item,) = await runtime.store.inbox.drain("")  # type: ignore[union-attr]

    assert bank.ran == [(5, "ann")]
    assert (item.event_id, item.data["result"]) == (f"tr:{call_id}", "sent 5 to ann")


async def test_an_approved_call_that_no_runtime_resumes_is_listed_and_can_be_cancelled(address: str) -> None:
    bank = Bank()
    call_id = await asked(address, bank, amount=5)
    async with Runtime(store=address) as without_the_tool:
        assert_pending(await without_the_tool.approve(call_id), "result")
        assert await without_the_tool.pending() == []  # somebody may take it up any moment
        await execute(without_the_tool, "UPDATE pending SET answered_at = answered_at - 60")
        (wait,) = await without_the_tool.pending()
        cancelled = await without_the_tool.cancel(call_id)
        after = await without_the_tool.pending()
    async with Runtime(bank, store=address) as runtime:
        assert_failed(await runtime.approve(call_id), "cancelled")
        (item,) = await runtime.store.inbox.drain("")  # type: ignore[union-attr]

    assert (wait.call_id, wait.waiting_for, wait.arguments) == (call_id, "result", {"amount": 5})
    assert "no runtime" in wait.message
    assert cancelled
    assert after == []
    assert item.data["result"]["code"] == "cancelled"
    assert bank.ran == []


async def test_approving_again_in_a_runtime_that_has_the_tool_runs_it_there_at_once(address: str) -> None:
    bank = Bank()
    call_id = await asked(address, bank, amount=5)
    async with Runtime(store=address) as without_the_tool:
        assert_pending(await without_the_tool.approve(call_id), "result")
        await without_the_tool.add(bank)
        again = await without_the_tool.approve(call_id)
        if not again.ok:  # it was taken up in that very moment, by itself
            assert_pending(again, "result")
        assert assert_done(await wait_until(lambda: _ended(without_the_tool, call_id))) == "sent 5 to ann"
    assert bank.ran == [(5, "ann")]


async def test_edited_arguments_cannot_be_checked_where_the_tool_is_not_and_the_call_still_waits(address: str) -> None:
    bank = Bank()
    call_id = await asked(address, bank, amount=5)
    async with Runtime(store=address) as without_the_tool:
        assert_failed(await without_the_tool.approve(call_id, arguments={"amount": "much"}), "unavailable")
        assert len(await without_the_tool.pending()) == 1


async def test_a_live_caller_gets_the_answer_that_was_given_in_another_runtime(address: str) -> None:
    async with (
        Runtime(make_ask_tool(reply="wait"), store=address) as here,
        Runtime(make_ask_tool(reply="wait"), store=address) as elsewhere,
    ):
        calling = asyncio.create_task(here.call("ask", call_id="c1"))
        (wait,) = await wait_until(elsewhere.pending)
        answered = await elsewhere.settle(wait.call_id, "blue")

        assert await calling == answered == Done("blue")
        assert await here.call("ask", call_id="c1") == Done("blue")
        assert await here.pending() == []


async def test_an_answer_to_a_waiting_caller_is_not_put_into_its_inbox(address: str) -> None:
    async with (
        Runtime(make_ask_tool(reply="wait"), store=address) as here,
        Runtime(make_ask_tool(reply="wait"), store=address) as elsewhere,
    ):
        for runtime in (here, elsewhere):
            calling = asyncio.create_task(here.scope(agent="a1").call("ask"))
            (wait,) = await wait_until(here.pending)
            await runtime.settle(wait.call_id, "blue")

            assert await calling == Done("blue")
            await wait_until(lambda: _is_empty(here, "a1"))
            if runtime is here:
                assert await read_rows(here, "SELECT id FROM inbox") == []


async def _is_empty(runtime: Runtime, agent: str) -> bool:
    assert runtime.store is not None
    return await runtime.store.inbox.count(agent) == 0


# What runs


async def test_edited_arguments_are_stored_and_run_after_a_restart(address: str) -> None:
    bank = Bank()
    call_id = await asked(address, bank, amount=5)
    async with Runtime(bank, store=address) as runtime:
        invalid = await runtime.approve(call_id, arguments={"amount": "much"})
        unknown = await runtime.approve(call_id, arguments={"amount": 5, "fee": 1})
        (wait,) = await runtime.pending()
    async with Runtime(bank, store=address) as runtime:
        outcome = await runtime.approve(call_id, arguments={"amount": 3, "to": "bob"})
        same = await runtime.approve(call_id, arguments={"amount": 3, "to": "bob"})
        other = await runtime.approve(call_id, arguments={"amount": 4})
        plain = await runtime.approve(call_id)

    assert not assert_failed(invalid, "invalid_arguments").executed
    assert_failed(unknown, "invalid_arguments")
    assert wait.arguments == {"amount": 5}
    assert outcome == same == Done("sent 3 to bob")
    assert_failed(other, "conflict")
    assert_failed(plain, "conflict")
    assert bank.ran == [(3, "bob")]


async def test_edited_arguments_may_be_json_text_and_are_stored_as_values(address: str) -> None:
    bank = Bank()
    bank.gate.clear()
    call_id = await asked(address, bank, amount=5)
    async with Runtime(bank, store=address) as runtime:
        assert_failed(await runtime.approve(call_id, arguments='{"amount": '), "invalid_arguments")  # type: ignore[arg-type]
        edited = '{"amount": "3", "to": "bob"}'
        approving = asyncio.create_task(runtime.approve(call_id, arguments=edited))  # type: ignore[arg-type]
        await bank.started.wait()
        await simulate_dead_owner(runtime, call_id)
        bank.gate.set()
        await approving
    async with Runtime(bank, store=address) as runtime:
        (wait,) = await runtime.pending()

    assert wait.arguments == {"amount": "3", "to": "bob"}
    assert bank.ran == [(3, "bob")]


async def test_edited_arguments_obey_a_deny_rule_after_a_restart(address: str) -> None:
    bank = Bank()
    call_id = await asked(address, bank, amount=5)
    rules = [{"tools": "transfer", "arguments": {"to": "eve"}, "decision": "deny"}]
    async with Runtime(bank, store=address, policy=rules) as runtime:
        assert_failed(await runtime.approve(call_id, arguments={"amount": 5, "to": "eve"}), "denied")
    assert bank.ran == []


NESTED: Any = ["bottom"]
for _ in range(150):
    NESTED = [NESTED]

EXACT: dict[str, Any] = {
    "bytes": bytes(range(256)),
    "bytes in a list": [b"\xff\x00", {"deep": b"\x80"}],
    "a mark of bytes": {"bytes:": "no bytes"},
    "unicode": "é 漢 𝄞 \u2028 \x00 \x1b[31m",
    "large": 10**30,
    "larger": -(10**4000),
    "exact": 0.1 + 0.2,
    "small": 5e-324,
    "zero": -0.0,
    "yes": True,
    "nothing": None,
    "empty": [{}, [], ""],
    "nested": NESTED,
}


async def test_arguments_survive_a_restart_exactly(address: str) -> None:
    seen: list[Any] = []

    @tool(confirm=True)
    async def keep(value: Any) -> None:
        """Keep a value."""
        seen.append(value)

    async with Runtime(keep, store=address) as runtime:
        ids = [pending_call_id(await runtime.call("keep", {"value": value})) for value in EXACT.values()]
    async with Runtime(keep, store=address) as runtime:
        assert len(await runtime.pending()) == len(EXACT)
        for name, call_id in zip(EXACT, ids, strict=True):
            assert (await runtime.approve(call_id)).ok

            assert repr(seen.pop()) == repr(EXACT[name]), name


async def test_dates_numbers_and_bytes_of_a_type_survive_a_restart_exactly(address: str) -> None:
    from pydantic import BaseModel

    class Parcel(BaseModel):
        label: str
        content: bytes

    seen: list[Any] = []

    @tool(confirm=True)
    async def send(
        at: datetime, on: date, within: timedelta, price: Decimal, id: UUID, colours: set[bytes], parcel: Parcel
    ) -> None:
        """Send a parcel."""
        seen.append((at, on, within, price, id, colours, parcel))

    given = {
        "at": datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
        "on": date(2024, 2, 29),
        "within": timedelta(days=1, microseconds=1),
        "price": Decimal("0.10"),
        "id": UUID(int=7),
        "colours": {b"\xff", b"blue"},
        "parcel": Parcel(label="x", content=b"\xff\xfe\x00"),
    }
    call_id = await asked(address, send, name="send", **given)
    async with Runtime(send, store=address) as runtime:
        (wait,) = await runtime.pending()
        outcome = await runtime.approve(call_id)

    assert outcome.ok, outcome
    assert seen == [tuple(given.values())]
    assert wait.arguments["at"] == "2024-02-29T23:59:59.999999Z"


# Always


async def test_a_standing_approval_survives_a_restart_for_its_user_and_never_over_a_deny(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        waiting = pending_call_id(await runtime.scope(user="ann").call("transfer", {"amount": 1}))
    async with Runtime(bank, store=address) as runtime:
        assert (await runtime.approve(waiting, always=True, by="boss")).ok
    async with Runtime(bank, store=address) as runtime:
        hers = await runtime.scope(user="ann", session="other").call("transfer", {"amount": 2})
        bobs = await runtime.scope(user="bob").call("transfer", {"amount": 3})
        nobodys = await runtime.call("transfer", {"amount": 4})
        runtime.policy = [{"decision": "deny"}]
        denied = await runtime.scope(user="ann").call("transfer", {"amount": 5})
    changed = tool(name="transfer", effects={"write", "network"}, confirm=True)(lambda amount: amount)
    async with Runtime(changed, store=address) as runtime:
        after_a_change = await runtime.scope(user="ann").call("transfer", {"amount": 6})

    assert hers.ok
    assert_pending(bobs, "approval")
    assert_pending(nobodys, "approval")
    assert_failed(denied, "denied")
    assert_pending(after_a_change, "approval")
    assert [amount for amount, _ in bank.ran] == [1, 2]


async def test_a_standing_approval_given_where_the_tool_is_not_counts_once_the_call_has_run(address: str) -> None:
    bank = Bank()
    call_id = await asked(address, bank, amount=1)
    async with Runtime(store=address) as without_the_tool:
        assert_pending(await without_the_tool.approve(call_id, always=True), "result")
    async with Runtime(bank, store=address) as runtime:
        await wait_until(lambda: _ended(runtime, call_id))

        assert (await runtime.call("transfer", {"amount": 2})).ok


async def test_a_deny_rule_that_came_with_the_restart_wins_over_the_yes(address: str) -> None:
    bank = Bank()
    call_id = await asked(address, bank, amount=5)
    async with Runtime(store=address) as without_the_tool:
        assert_pending(await without_the_tool.approve(call_id, always=True), "result")
    async with Runtime(bank, store=address, policy=[{"decision": "deny"}]) as runtime:
        outcome = await wait_until(lambda: _ended(runtime, call_id))
        runtime.policy = []
        assert_pending(await runtime.call("transfer", {"amount": 5}), "approval")

    assert not assert_failed(outcome, "denied").executed
    assert bank.ran == []


# Many at once


@pytest.mark.parametrize("runtimes", [1, 2])
async def test_a_hundred_yeses_at_once_are_one_run(address: str, runtimes: int) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as one, Runtime(bank, store=address) as other:
        call_id = pending_call_id(await one.call("transfer", {"amount": 5}))
        bank.gate.clear()
        both = [one, other][:runtimes]
        approvals = [asyncio.create_task(both[n % runtimes].approve(call_id)) for n in range(100)]
        await bank.started.wait()
        await asyncio.sleep(0.05)
        bank.gate.set()
        outcomes = await asyncio.gather(*approvals)
        final = [await runtime.approve(call_id) for runtime in (one, other)]

    assert final == [Done("sent 5 to ann")] * 2
    assert bank.ran == [(5, "ann")]
    if runtimes == 1:
        assert outcomes == [Done("sent 5 to ann")] * 100
    else:  # whoever was second in the other runtime is told that it goes on
        assert all(each == Done("sent 5 to ann") or assert_pending(each, "result") for each in outcomes)


async def test_of_concurrent_approval_and_rejection_one_counts_and_the_others_conflict(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as one, Runtime(bank, store=address) as other:
        for number in range(10):
            call_id = pending_call_id(await one.call("transfer", {"amount": number}))
            yes, no = await asyncio.gather(one.approve(call_id), other.reject(call_id))
            ran = (number, "ann") in bank.ran

            assert (ran and yes.ok and assert_failed(no, "conflict")) or (
                not ran and assert_failed(no, "rejected") and assert_failed(yes, "conflict")
            )


async def test_an_answer_that_says_failed_is_how_the_call_ends(address: str) -> None:
    nobody = Failed("unavailable", "nobody home", data={"why": 1})
    call_id = await asked(address, make_ask_tool(), name="ask")
    async with Runtime(make_ask_tool(), store=address) as runtime:
        outcome = assert_failed(await runtime.settle(call_id, nobody), "unavailable")
    async with Runtime(make_ask_tool(), store=address) as runtime:
        assert await runtime.settle(call_id, nobody) == outcome


async def test_pending_calls_are_listed_in_pages_although_some_are_answered_in_between(any_address: str) -> None:
    async with Runtime(Bank(), store=any_address) as runtime:
        for number in range(5):
            assert_pending(await runtime.call("transfer", {"amount": number}, call_id=f"call-{number}"))

        first = await runtime.pending(limit=2)
        await runtime.reject("call-1")
        second = await runtime.pending(limit=2, after=first[-1].cursor)
        third = await runtime.pending(limit=2, after=second[-1].cursor)

        assert [call.call_id for page in (first, second, third) for call in page] == [f"call-{n}" for n in range(5)]
        assert [call.call_id for call in await runtime.pending()] == ["call-0", "call-2", "call-3", "call-4"]
        assert await runtime.pending(limit=0) == []
        with pytest.raises(ValueError, match="is not a cursor"):
            await runtime.pending(after="nonsense")
