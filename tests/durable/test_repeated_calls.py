"""Repeated calls: the same call again in a session, while the first one waits or its effect is unknown, follows it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Approval, Call, Context, Done, Outcome, Pending, Queue, Runtime, tool
from surehand.core.events import CallStarted
from tests.durable.bank_tools import (
    Bank,
    assert_done,
    assert_failed,
    assert_pending,
    make_ask_tool,
    pending_call_id,
    read_rows,
    simulate_dead_owner,
    wait_until,
)
from tests.durable.conftest import ON_BOTH_DATABASES


def first_call_of(outcome: Outcome) -> str | None:
    """The id of the call that a call follows."""
    request = assert_pending(outcome).request
    return request.get("follows") if isinstance(request, dict) else None


@ON_BOTH_DATABASES
async def test_a_repeated_call_follows_the_first_one_question_one_effect_one_outcome(address: str) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as runtime:
        scope = runtime.scope(user="ada", session="s1")
        first = assert_pending(await scope.call("transfer", {"amount": 5}))
        second = assert_pending(await scope.call("transfer", '{"amount":  5}'))
        waits = [wait.call_id for wait in await runtime.pending()]
        approved = await runtime.approve(first.call_id)
        followed = await runtime.result(second.call_id, timeout=20)

    assert second.call_id != first.call_id
    assert first.call_id in second.text
    assert waits == [first.call_id]
    assert approved == followed == Done("sent 5 to ann")
    assert bank.ran == [(5, "ann")]


@ON_BOTH_DATABASES
async def test_a_repetition_of_an_approved_call_that_waits_for_its_turn_follows_it(address: str) -> None:
    turn_is_over = asyncio.Event()
    sent: list[int] = []

    @tool(queue="bank", effects={"read"})
    async def count_money() -> None:
        """Count the money, while nothing else may happen."""
        await turn_is_over.wait()

    @tool(queue="bank", effects={"write"}, confirm=True)
    async def send(amount: int) -> str:
        """Send money."""
        sent.append(amount)
        return f"sent {amount}"

    async with Runtime(count_money, send, store=address, queues={"bank": Queue(concurrent=1)}) as runtime:
        scope = runtime.scope(session="s1")
        first = pending_call_id(await scope.call("send", {"amount": 5}))
        counting = asyncio.create_task(runtime.call("count_money"))
        await wait_until(lambda: runtime.queues()["bank"].in_use == 1)
        approving = asyncio.create_task(runtime.approve(first))
        await wait_until(lambda: runtime.queues()["bank"].waiting == 1)
        second = await scope.call("send", {"amount": 5})
        turn_is_over.set()
        await asyncio.gather(counting, approving)
        followed = await runtime.result(pending_call_id(second), timeout=20)

    assert first_call_of(second) == first
    assert followed == Done("sent 5")
    assert sent == [5]


@pytest.mark.parametrize("verb", ["reject", "expire", "cancel"])
async def test_a_repeated_call_ends_as_the_first_one_does(any_address: str, verb: str) -> None:
    async with Runtime(Bank(), store=any_address) as runtime:
        scope = runtime.scope(session="s1")
        first = pending_call_id(await scope.call("transfer", {"amount": 5}))
        second = pending_call_id(await scope.call("transfer", {"amount": 5}))
        if verb == "reject":
            await runtime.reject(second, "too much")  # an answer to the second is one to the first
        elif verb == "cancel":
            await runtime.cancel(first)
        else:
            await runtime._calls.load().answering.answers.end_without_answer(
                runtime.principal, first, "expired", "No answer arrived in time."
            )
        outcomes = [await runtime.result(call_id, timeout=20) for call_id in (first, second)]

    code = {"reject": "rejected", "expire": "expired", "cancel": "cancelled"}[verb]
    assert [assert_failed(outcome, code).executed for outcome in outcomes] == [False, False]


async def test_without_a_store_a_repeated_call_follows_too() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        scope = runtime.scope(session="s1")
        first = pending_call_id(await scope.call("transfer", {"amount": 5}))
        second = await scope.call("transfer", {"amount": 5})
        third = await scope.call("transfer", {"amount": 5})
        await runtime.approve(first)
        ends = [await runtime.result(pending_call_id(each), timeout=5) for each in (second, third)]

    assert first_call_of(second) == first_call_of(third) == first
    assert ends == [Done("sent 5 to ann")] * 2
    assert bank.ran == [(5, "ann")]


@ON_BOTH_DATABASES
async def test_two_processes_that_make_the_same_call_at_once_ask_one_question(address: str) -> None:
    async with Runtime(Bank(), store=address) as one, Runtime(Bank(), store=address) as other:
        for amount in range(10):
            scopes = [runtime.scope(user="ada", session="s1") for runtime in (one, other, one, other)]
            outcomes = await asyncio.gather(*(scope.call("transfer", {"amount": amount}) for scope in scopes))
            leaders = [outcome for outcome in outcomes if first_call_of(outcome) is None]
            assert len(leaders) == 1
            assert {first_call_of(each) for each in outcomes if each is not leaders[0]} == {pending_call_id(leaders[0])}

        assert len(await one.pending()) == 10


async def test_calls_of_one_call_many_are_never_merged(any_address: str) -> None:
    async with Runtime(Bank(), store=any_address) as runtime:
        scope = runtime.scope(session="s1")
        twice = [Call("transfer", {"amount": 5}), Call("transfer", {"amount": 5})]
        outcomes = await scope.call_many(twice)
        repeated = await scope.call_many(twice)

        assert [first_call_of(outcome) for outcome in outcomes] == [None, None]
        assert {first_call_of(outcome) for outcome in repeated} == {pending_call_id(each) for each in outcomes}


async def test_calls_of_one_handler_are_never_merged(any_address: str) -> None:
    @tool(effects={"write"})
    async def pay_twice(ctx: Context) -> str:
        """Pay two bills of the same amount."""
        return " ".join([pending_call_id(await ctx.call("transfer", {"amount": 5})) for _ in range(2)])

    async with Runtime(Bank(), pay_twice, store=any_address) as runtime:
        await runtime.scope(session="s1").call("pay_twice")

        assert len(await runtime.pending()) == 2


async def test_calls_with_given_ids_without_a_session_or_of_others_are_never_merged(any_address: str) -> None:
    async with Runtime(Bank(), store=any_address) as runtime:
        scope = runtime.scope(user="ada", session="s1")
        outcomes = [
            await scope.call("transfer", {"amount": 5}, call_id="c1"),
            await scope.call("transfer", {"amount": 5}),
            await scope.call("transfer", {"amount": 5}, call_id="c2"),
            await runtime.call("transfer", {"amount": 5}),
            await runtime.call("transfer", {"amount": 5}),
            await runtime.scope(user="bob", session="s1").call("transfer", {"amount": 5}),
            await runtime.scope(user="ada", session="s2").call("transfer", {"amount": 5}),
            await scope.call("transfer", {"amount": 6}),
        ]

    assert [first_call_of(outcome) for outcome in outcomes] == [None] * 8


@pytest.mark.parametrize("kind", ["client", "external"])
async def test_a_repeated_client_call_follows_the_first(any_address: str, kind: str) -> None:
    asking = make_ask_tool() if kind == "client" else tool.external("ask", "Ask another service.")
    async with Runtime(asking, store=any_address) as runtime:
        scope = runtime.scope(session="s1")
        first = pending_call_id(await scope.call("ask"))
        second = await scope.call("ask")
        settled = await runtime.settle(first, "blue")
        followed = await runtime.result(pending_call_id(second), timeout=20)
        afterwards = await scope.call("ask")

    assert first_call_of(second) == first
    assert settled == followed == Done("blue")
    assert first_call_of(afterwards) is None


async def test_a_caller_that_waits_for_its_answer_gets_that_of_the_first(any_address: str) -> None:
    async with Runtime(make_ask_tool(reply="wait"), store=any_address) as runtime:
        scope = runtime.scope(session="s1")
        callers = [asyncio.create_task(scope.call("ask"))]
        [wait] = await wait_until(runtime.pending)
        callers.append(asyncio.create_task(scope.call("ask")))
        await wait_until(lambda: len(runtime._calls.load().local.waiting_callers) == 2)
        await runtime.settle(wait.call_id, "blue")

        assert await asyncio.gather(*callers) == [Done("blue"), Done("blue")]


async def test_a_handler_that_waits_does_not_run_twice(any_address: str) -> None:
    ran: list[int] = []

    @tool(effects={"write"})
    async def start_batch(size: int) -> Any:
        """Start a batch job, whose result arrives later."""
        ran.append(size)
        return Pending("result")

    async with Runtime(start_batch, store=any_address) as runtime:
        scope = runtime.scope(session="s1")
        first = pending_call_id(await scope.call("start_batch", {"size": 3}))
        second = await scope.call("start_batch", {"size": 3})

    assert first_call_of(second) == first
    assert ran == [3]


async def test_the_approver_of_a_runtime_is_asked_once(any_address: str) -> None:
    asked: list[str] = []

    async def approver(wait: Any) -> Approval | None:
        asked.append(wait.call_id)
        return None

    async with Runtime(Bank(), store=any_address, approver=approver) as runtime:
        scope = runtime.scope(session="s1")
        await scope.call("transfer", {"amount": 5})
        await scope.call("transfer", {"amount": 5})

    assert len(asked) == 1


@ON_BOTH_DATABASES
async def test_a_repetition_of_a_call_whose_effect_is_unknown_follows_it(address: str) -> None:
    bank = Bank()
    bank.gate.clear()
    started: list[str] = []
    async with Runtime(bank, store=address) as runtime:
        runtime.listen(lambda event: started.append(event.call_id) if isinstance(event, CallStarted) else None)
        scope = runtime.scope(session="s1")
        calling = asyncio.create_task(scope.call("pay", {"amount": 5}))
        await bank.started.wait()
        [first] = started
        await simulate_dead_owner(runtime, first)
        async with Runtime(bank, store=address) as other:
            second = await other.scope(session="s1").call("pay", {"amount": 5})
            settled = await other.settle(first, "it was paid")
            followed = await other.result(pending_call_id(second), timeout=20)
        bank.gate.set()
        await calling

    assert first_call_of(second) == first
    assert first in second.text
    assert settled == followed == Done("it was paid")
    assert bank.ran == [(5, "ann")]


@ON_BOTH_DATABASES
async def test_a_call_that_is_repeated_right_after_its_process_was_killed_runs_no_second_time(
    address: str, child: Any
) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as other, child("call_in_session", address, "pay", "5") as process:
        first = (await process.read_message())["started"]
        await process.kill()
        if address.startswith("postgresql"):  # the server notices the end of a process a little later
            await wait_until_dead(other)
        second = await other.scope(user="ada", session="s1").call("pay", {"amount": 5})
        settled = await other.settle(first, "it was paid", by="eve")
        followed = await other.result(pending_call_id(second), timeout=20)

    assert first_call_of(second) == first
    assert settled == followed == Done("it was paid")
    assert bank.ran == []


@ON_BOTH_DATABASES
async def test_a_call_that_waits_in_a_killed_process_is_followed_in_another(address: str, child: Any) -> None:
    bank = Bank()
    async with Runtime(bank, store=address) as other, child("call_in_session", address, "transfer", "5") as process:
        assert await process.read_message() == {"pending": "approval"}
        await process.kill()
        second = await other.scope(user="ada", session="s1").call("transfer", {"amount": 5})
        [wait] = await other.pending()
        approved = await other.approve(wait.call_id)
        followed = await other.result(pending_call_id(second), timeout=20)

    assert first_call_of(second) == wait.call_id
    assert approved == followed == Done("sent 5 to ann")
    assert bank.ran == [(5, "ann")]


async def wait_until_dead(runtime: Runtime) -> None:
    """Wait until no other runtime on the store holds its lock."""
    assert runtime.store is not None
    database = runtime.store.database

    async def is_alone() -> bool:
        owners = [row["owner"] for row in await database.read("SELECT owner FROM owners")]
        return await database.live_owners(owners) <= {runtime.runtime_id}

    await wait_until(is_alone)


async def test_a_repetition_of_a_call_that_turns_out_not_to_have_happened_may_be_made_again(file: str) -> None:
    is_known = asyncio.Event()
    bank = Bank()

    async def verify(args: Any, ctx: Context) -> bool:
        await is_known.wait()
        return False

    verified = tool(effects={"write"}, verify=verify, name="send")(Bank.pay.function.__get__(bank))
    bank.gate.clear()
    started: list[str] = []
    async with Runtime(verified, store=file) as runtime:
        runtime.listen(lambda event: started.append(event.call_id) if isinstance(event, CallStarted) else None)
        calling = asyncio.create_task(runtime.scope(session="s1").call("send", {"amount": 5}))
        await bank.started.wait()
        await simulate_dead_owner(runtime, started[0])
        async with Runtime(verified, store=file) as other:
            second = await other.scope(session="s1").call("send", {"amount": 5})
            is_known.set()
            outcome = await other.result(pending_call_id(second), timeout=20)
        bank.gate.set()
        await calling

    assert first_call_of(second) == started[0]
    assert assert_failed(outcome, "interrupted").executed is False


async def test_a_call_that_only_reads_and_never_asks_is_not_compared(file: str) -> None:
    @tool(effects={"read"})
    async def look() -> str:
        """Look around."""
        return "seen"

    async with Runtime(look, store=file) as runtime:
        scope = runtime.scope(session="s1")

        assert [assert_done(await scope.call("look")) for _ in range(2)] == ["seen", "seen"]
        assert await read_rows(runtime, "SELECT repeat_key FROM ledger") == []


async def test_the_audit_has_both_calls(file: str) -> None:
    async with Runtime(Bank(), store=file) as runtime:
        scope = runtime.scope(session="s1")
        first = pending_call_id(await scope.call("transfer", {"amount": 5}))
        second = pending_call_id(await scope.call("transfer", {"amount": 5}))
        await runtime.approve(first)
        assert runtime.store is not None
        kinds = [row.kind for row in reversed(await runtime.store.audit.list(call=second))]

    assert kinds == ["wait", "answer", "outcome"]
