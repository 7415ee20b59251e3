"""An approval is bound to one call: a changed request or row does not run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Call, Context, Done, Runtime, Tool, tool
from tests.durable.bank_tools import (
    Bank,
    assert_done,
    assert_failed,
    assert_pending,
    execute,
    ledger_state,
    read_rows,
    wait_until,
)

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server

ASKED = {"call_id": "c1", "tool": "transfer", "arguments": {"amount": 5}, "user": "ann", "session": "s1"}
CHANGED = {"call_id": "c2", "tool": "refund", "arguments": {"amount": 6}, "user": "eve", "session": "s2"}


def tools(ran: list[Any], **options: Any) -> list[Tool[..., Any]]:
    """Two tools that ask, alike in all but their names."""

    async def work(amount: int, ctx: Context) -> str:
        """Move money."""
        ran.append((amount, ctx.user, ctx.session))
        return f"moved {amount}"

    return [tool(name=name, effects={"write"}, confirm=True, **options)(work) for name in ("transfer", "refund")]


async def call(runtime: Runtime, what: dict[str, Any]) -> Any:
    scope = runtime.scope(user=what["user"], session=what["session"])
    return await scope.call(what["tool"], what["arguments"], call_id=what["call_id"])


@pytest.mark.parametrize("field", CHANGED)
async def test_a_call_that_differs_in_one_field_does_not_run_under_the_approval(address: str, field: str) -> None:
    ran: list[Any] = []
    other = {**ASKED, field: CHANGED[field]}
    async with Runtime(tools(ran), store=address) as runtime:
        assert_pending(await call(runtime, ASKED), "approval")
        before = await call(runtime, other)
    async with Runtime(store=address) as without_the_tools:
        assert_pending(await without_the_tools.approve("c1"), "result")
    async with Runtime(tools(ran), store=address) as runtime:
        while_approved = await call(runtime, other)
        await wait_until(lambda: ran)
        await wait_until(lambda: _ended(runtime, "c1"))
        after = await call(runtime, other)

    assert ran == [(5, "ann", "s1")]
    for outcome in (before, while_approved, after):
        if field == "call_id":
            assert assert_pending(outcome, "approval").call_id == "c2"
        else:
            assert not assert_failed(outcome, "conflict").executed
            assert not any(word in outcome.text for word in ("moved", "ann", "s1", "transfer"))


async def _ended(runtime: Runtime, call_id: str) -> bool:
    return await ledger_state(runtime, call_id) == "ended"


STORED = [
    ("call_id", "c9"),
    ("tool", "refund"),
    ("definition", "0" * 64),
    ("arguments", '{"amount": 6}'),
    ("user_id", "eve"),
    ("session", "s2"),
    ("user_id", None),
    ("session", None),
]


@pytest.mark.parametrize(("column", "value"), STORED)
async def test_a_row_that_was_changed_in_one_column_does_not_run_under_the_approval(
    address: str, column: str, value: str | None
) -> None:
    ran: list[Any] = []
    async with Runtime(tools(ran), store=address) as runtime:
        await call(runtime, ASKED)
    async with Runtime(store=address) as without_the_tools:
        assert_pending(await without_the_tools.approve("c1"), "result")
        await execute(without_the_tools, f"UPDATE ledger SET {column} = :value", value=value)
    async with Runtime(tools(ran), store=address) as runtime:
        await runtime.approve("c1")
        if column == "call_id":  # whose answer is now nobody's
            assert_failed(await runtime.approve("c9"), "not_found")
        else:
            await wait_until(lambda: _ended(runtime, "c1"))
            assert_failed(await runtime.approve("c1"), "conflict")

    assert ran == []


@pytest.mark.parametrize(("column", "value"), STORED[1:])
async def test_a_row_that_was_changed_while_it_waited_cannot_be_approved(
    address: str, column: str, value: str | None
) -> None:
    ran: list[Any] = []
    async with Runtime(tools(ran), store=address) as runtime:
        await call(runtime, ASKED)
        await execute(runtime, f"UPDATE ledger SET {column} = :value", value=value)
    async with Runtime(tools(ran), store=address) as runtime:
        assert_failed(await runtime.approve("c1"), "conflict")

    assert ran == []


async def test_a_row_that_was_changed_under_edited_arguments_does_not_run_either(address: str) -> None:
    ran: list[Any] = []
    async with Runtime(tools(ran), store=address) as runtime:
        await call(runtime, ASKED)
        await execute(runtime, "UPDATE ledger SET user_id = 'eve'")
        assert_failed(await runtime.approve("c1", arguments={"amount": 7}), "conflict")

    assert ran == []


@pytest.mark.parametrize(
    "stranger", [{"user": "eve"}, {"user": "ann", "session": "s2"}, {"user": "eve", "session": "s1"}]
)
async def test_a_stranger_cannot_answer_before_during_or_after(address: str, stranger: dict[str, str]) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        asked = await runtime.scope(user="ann", session="s1").call("transfer", {"amount": 5})
        call_id = assert_pending(asked).call_id
    outcomes: list[Any] = []
    async with Runtime(bank, store=address) as runtime:
        eve = runtime.scope(**stranger)

        async def answers() -> list[Any]:
            answered = [await eve.approve(call_id), await eve.reject(call_id), await eve.settle(call_id, 1)]
            return [*answered, await eve.approve(call_id, arguments={"amount": 9}), await eve.approve("0" * 36)]

        outcomes += await answers()
        assert not await eve.cancel(call_id)
        assert await eve.pending() == []
        bank.gate.clear()
        approving = asyncio.create_task(runtime.approve(call_id))
        await bank.started.wait()
        outcomes += await answers()
        assert not await eve.cancel(call_id)
        bank.gate.set()
        await approving
        outcomes += await answers()
        audit = await read_rows(runtime, "SELECT user_id FROM audit WHERE kind = 'refused'")

    assert [assert_failed(each, "not_found").text.replace(call_id, "0" * 36) for each in outcomes] == [
        outcomes[-1].text
    ] * 15
    assert [row["user_id"] for row in audit] == [stranger["user"]] * 15
    assert bank.ran == [(5, "ann")]


async def test_an_approval_is_used_once_even_under_the_same_id_and_arguments(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        await runtime.call("transfer", {"amount": 5}, call_id="c1")
        await runtime.approve("c1")
    async with Runtime(bank, store=address) as runtime:
        again = await runtime.call("transfer", {"amount": 5}, call_id="c1")
        (as_value,) = await runtime.call_many([Call("transfer", {"amount": 5}, id="c1")])
        approved = await runtime.approve("c1")
        next_one = await runtime.call("transfer", {"amount": 5}, call_id="c2")

    assert again == as_value == approved == Done("sent 5 to ann")
    assert_pending(next_one, "approval")
    assert bank.ran == [(5, "ann")]


async def test_an_approval_that_expired_is_used_no_more(file: str) -> None:
    from surehand.testing import ManualClock

    bank, clock = Bank(), ManualClock()
    async with Runtime(bank, store=file, clock=clock) as runtime:
        await runtime.call("transfer", {"amount": 5}, call_id="c1")
    clock = ManualClock(1_000_000.0 + 8 * 86_400)
    async with Runtime(bank, store=file, clock=clock) as runtime:
        assert_failed(await runtime.approve("c1"), "expired")
    assert bank.ran == []


async def test_an_approval_that_no_runtime_applies_is_valid_as_long_again_as_the_question(file: str) -> None:
    from surehand.testing import ManualClock

    bank, day = Bank(), 86_400.0
    async with Runtime(bank, store=file, clock=ManualClock()) as runtime:
        await runtime.call("transfer", {"amount": 5}, call_id="c1")
        (wait,) = await runtime.pending()
        assert wait.expires_at is not None
        patience = wait.expires_at - wait.created_at
    async with Runtime(store=file, clock=ManualClock(1_000_000.0 + patience - day)) as without_the_tool:
        assert_pending(await without_the_tool.approve("c1"), "result")
    async with Runtime(store=file, clock=ManualClock(1_000_000.0 + 2 * patience - 1.5 * day)) as without_the_tool:
        (approved,) = await without_the_tool.pending()
    async with Runtime(store=file, clock=ManualClock(1_000_000.0 + 2 * patience)) as without_the_tool:
        await wait_until(lambda: _ended(without_the_tool, "c1"))
        await without_the_tool.add(bank)
        assert_failed(await without_the_tool.approve("c1"), "expired")

    assert approved.expires_at == pytest.approx(1_000_000.0 + 2 * patience - day, abs=1.0)
    assert bank.ran == []


async def test_the_approved_arguments_run_whatever_the_caller_changes_later(address: str) -> None:
    seen: list[Any] = []
    arguments: dict[str, Any] = {"lines": ["kept"]}

    @tool(effects={"write"}, confirm=True)
    async def publish(lines: list[str]) -> None:
        """Publish lines."""
        seen.append(list(lines))
        lines.append("from the handler")

    async with Runtime(publish, store=address) as runtime:
        await runtime.call("publish", arguments, call_id="c1")
        arguments["lines"].append("smuggled")
        await runtime.approve("c1")
        same = await runtime.call("publish", {"lines": ["kept"]}, call_id="c1")
        other = await runtime.call("publish", arguments, call_id="c1")

    assert seen == [["kept"]]
    assert same.ok
    assert_failed(other, "conflict")


async def test_a_handler_that_changes_its_arguments_can_still_wait_for_an_answer(any_address: str) -> None:
    from surehand import Pending

    @tool(effects={"write"})
    async def book(seats: list[int], ctx: Context) -> Any:
        """Book seats, and hear later."""
        while seats:
            seats.pop()
        return Pending("result", message="the theatre calls back")

    async with Runtime(book, store=any_address) as runtime:
        seats = [1, 2]
        first = assert_pending(await runtime.call("book", {"seats": seats}, call_id="c1"), "result")
        (wait,) = await runtime.pending()
        again = await runtime.call("book", {"seats": [1, 2]}, call_id="c1")
        answered = await runtime.settle("c1", "booked")

    assert first == again
    assert wait.call_id == "c1"
    assert answered == Done("booked")


async def test_a_handler_that_waits_under_its_own_id_can_be_answered(any_address: str) -> None:
    from surehand import Pending

    @tool(effects={"write"})
    async def book(ctx: Context) -> Any:
        """Book, and hear later."""
        return Pending("result", ctx.call_id, "the theatre calls back")

    @tool(effects={"read"})
    async def look(ctx: Context) -> Any:
        """Look, and hear later."""
        await asyncio.sleep(0)
        return Pending("result", ctx.call_id, "the library calls back")

    async with Runtime(book, look, store=any_address) as runtime:
        for name in ("book", "look"):
            for given in (None, f"{name}-1"):
                call_id = assert_pending(await runtime.call(name, call_id=given), "result").call_id

                assert [wait.call_id for wait in await runtime.pending()] == [call_id]
                assert assert_done(await runtime.settle(call_id, "yes")) == "yes"
