"""Cancelling: a cancelled caller leaves nothing unowned behind, in memory or in the store."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from surehand import Context, Done, Failed, Pending, Queue, Runtime, tool
from tests.durable.bank_tools import (
    Bank,
    assert_done,
    ledger_state,
    make_ask_tool,
    pending_call_id,
    read_rows,
    simulate_dead_owner,
    wait_until,
)

pytestmark = pytest.mark.timeout(60)  # the first test on PostgreSQL starts the server


QUEUES = {"post": Queue(concurrent=2)}


class Post:
    """Tools that take a moment, one or two at a time, and what they did."""

    def __init__(self, moments: random.Random) -> None:
        self.sent: list[str] = []
        self._moments = moments

    async def _moment(self) -> None:
        for _ in range(self._moments.randrange(2)):
            await asyncio.sleep(0)
        if self._moments.random() < 0.3:
            await asyncio.sleep(0.001)

    @tool(effects={"write"}, queue="post")
    async def send(self, ctx: Context) -> str:
        """Send a letter."""
        self.sent.append(ctx.idempotency_key)
        await self._moment()
        return "sent"

    @tool(effects={"write"}, confirm=True, queue="post")
    async def sign(self, ctx: Context) -> str:
        """Send a letter that somebody has to allow."""
        self.sent.append(ctx.idempotency_key)
        await self._moment()
        return "signed"

    @tool(effects={"write"})
    async def drop(self, ctx: Context) -> str:
        """Send a letter without waiting for anything."""
        self.sent.append(ctx.idempotency_key)
        return "dropped"

    @tool(effects={"write"})
    async def register(self, ctx: Context) -> Any:
        """Send a letter, and hear later."""
        self.sent.append(ctx.idempotency_key)
        await self._moment()
        return Pending("result", message="the addressee signs for it")

    @tool(effects={"write"})
    async def forward(self, ctx: Context) -> Any:
        """Send a letter by sending another."""
        await self._moment()
        return await ctx.call("send")


async def one(runtime: Runtime, number: int, choice: random.Random) -> Any:
    """A call of some kind, and what follows from it."""
    name = choice.choice(["send", "send", "sign", "drop", "register", "forward", "ask"])
    call_id = f"{name}-{number % 40}" if choice.random() < 0.5 else None
    outcome = await runtime.call(name, call_id=call_id)
    if isinstance(outcome, Pending) and name == "sign":
        outcome = await (runtime.approve if choice.random() < 0.8 else runtime.reject)(outcome.call_id)
    elif isinstance(outcome, Pending) and name in ("register", "ask"):
        outcome = await runtime.settle(outcome.call_id, "heard")
    return outcome


async def leave(task: asyncio.Task[Any], choice: random.Random) -> None:
    """Cancel a caller at any moment, perhaps twice."""
    for _ in range(choice.choice([1, 1, 2])):
        for _ in range(choice.randrange(12)):
            await asyncio.sleep(0)
        if choice.random() < 0.5:
            await asyncio.sleep(choice.random() * 0.004)
        task.cancel()


async def nobody_is_left(runtime: Runtime) -> bool:
    return not await read_rows(runtime, "SELECT call_id FROM ledger WHERE state IN ('running', 'taken', 'ready')")


def everybody_is_out(runtime: Runtime) -> bool:
    queue = runtime.queues()["post"]
    return (queue.in_use, queue.waiting, runtime.stats().running) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(2))
async def test_callers_that_leave_at_any_moment_leave_nothing_behind(address: str, seed: int) -> None:
    choice = random.Random(seed)
    post = Post(random.Random(seed + 1))
    before = asyncio.all_tasks()
    async with Runtime(post, make_ask_tool(), store=address, queues=QUEUES) as runtime:
        for batch in range(8):
            tasks = [asyncio.create_task(one(runtime, batch * 30 + n, choice)) for n in range(30)]
            leaving = [asyncio.create_task(leave(task, choice)) for task in tasks if choice.random() < 0.6]
            await asyncio.gather(*leaving)
            await asyncio.wait(tasks)
            for task in tasks:
                assert task.cancelled() or isinstance(task.result(), (Done, Failed, Pending)), task
        await wait_until(lambda: nobody_is_left(runtime))
        await wait_until(lambda: everybody_is_out(runtime))  # what has ended in the store is still on its way out here
        ended = await read_rows(runtime, "SELECT call_id, outcome FROM ledger WHERE state = 'ended'")
        told = await read_rows(
            runtime, "SELECT call_id, count(*) AS n FROM audit WHERE kind = 'outcome' GROUP BY call_id"
        )
        waits = {wait.call_id for wait in await runtime.pending()}
        open_rows = await read_rows(runtime, "SELECT call_id FROM ledger WHERE state = 'waiting'")
    assert len(post.sent) == len(set(post.sent))
    assert all(row["outcome"] for row in ended)
    assert all(row["n"] == 1 for row in told)
    assert {row["call_id"] for row in open_rows} == waits
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("seed", range(2))
async def test_a_runtime_that_closes_at_any_moment_leaves_everything_to_the_next(address: str, seed: int) -> None:
    choice = random.Random(seed)
    post = Post(random.Random(seed + 1))
    acknowledged: dict[str, Any] = {}

    async def call(runtime: Runtime, number: int) -> None:
        outcome = await one(runtime, number, choice)
        if isinstance(outcome, Done):
            acknowledged[outcome.meta.call_id] = outcome.data

    for life in range(4):
        async with Runtime(post, make_ask_tool(), store=address, queues=QUEUES) as runtime:
            tasks = [asyncio.create_task(call(runtime, life * 30 + n)) for n in range(30)]
            await asyncio.sleep(choice.random() * 0.05)
        await asyncio.wait(tasks)
    async with Runtime(post, make_ask_tool(), store=address, queues=QUEUES) as runtime:
        await wait_until(lambda: nobody_is_left(runtime))
        rows = await read_rows(runtime, "SELECT call_id, state, outcome FROM ledger")
        waits = {wait.call_id for wait in await runtime.pending()}

    states = {row["call_id"]: row["state"] for row in rows}
    assert {call_id for call_id, state in states.items() if state in ("waiting", "unknown")} == waits
    assert len(post.sent) == len(set(post.sent))
    assert all(states.get(call_id) == "ended" for call_id in acknowledged)


async def test_a_caller_cancelled_during_the_claim_leaves_the_call_to_its_runtime(address: str) -> None:
    for steps in range(0, 12, 2):
        post = Post(random.Random(steps))
        async with Runtime(post, store=address, queues=QUEUES) as runtime:
            call_id = pending_call_id(await runtime.call("sign", call_id=f"c{steps}"))
        async with Runtime(store=address) as without_the_tool:
            await without_the_tool.approve(call_id)
        async with Runtime(post, store=address, queues=QUEUES) as runtime:
            approving = asyncio.create_task(runtime.approve(call_id))
            for _ in range(steps):
                await asyncio.sleep(0.0005)
            approving.cancel()
            await asyncio.wait({approving})
            await wait_until(lambda: nobody_is_left(runtime))

            assert (await runtime.approve(call_id)).ok
        assert post.sent == [call_id]


async def test_of_two_callers_with_one_id_a_cancelled_one_does_not_affect_the_other(any_address: str) -> None:
    for steps in range(0, 15, 2):
        bank, call_id = Bank(), f"c{steps}"
        bank.gate.clear()
        async with Runtime(bank, store=any_address) as runtime:
            callers = [asyncio.create_task(runtime.call("pay", {"amount": 1}, call_id=call_id)) for _ in range(3)]
            for _ in range(steps):
                await asyncio.sleep(0 if steps < 8 else 0.0005)
            callers[1].cancel()
            callers[2].cancel()
            await asyncio.wait(callers[1:])
            fourth = asyncio.create_task(runtime.call("pay", {"amount": 1}, call_id=call_id))
            await asyncio.wait({fourth}, timeout=0.02)
            bank.gate.set()
            await asyncio.wait({callers[0], fourth})
            final = await runtime.call("pay", {"amount": 1}, call_id=call_id)

        # Whoever ran it may be the one who left: then that is how it ended.
        assert final == Done("sent 1 to ann") or (isinstance(final, Failed) and final.code == "cancelled")
        assert bank.ran == [(1, "ann")], (steps, final)


async def test_a_call_that_may_have_happened_is_not_ended_by_cancelling(address):
    bank = Bank()
    bank.gate.clear()
    async with Runtime(bank, store=address) as runtime:
        calling = asyncio.create_task(runtime.call("pay", {"amount": 5}, call_id="c1"))
        await bank.started.wait()
        await simulate_dead_owner(runtime, "c1")
        async with Runtime(store=address) as other:
            await wait_until(lambda: _is_unknown(other))

            assert not await other.cancel("c1")
            await other.cancel()
            assert await ledger_state(other, "c1") == "unknown"
            assert assert_done(await other.settle("c1", "it was paid")) == "it was paid"
        bank.gate.set()
        await calling


async def _is_unknown(runtime):
    return await ledger_state(runtime, "c1") == "unknown"


async def test_the_audit_names_the_person_who_cancelled(address):
    async with Runtime(Bank(), store=address) as runtime:
        call_id = pending_call_id(await runtime.call("transfer", {"amount": 5}))
        assert await runtime.cancel(call_id, by="grace")
        rows = await read_rows(runtime, "SELECT by_whom FROM audit WHERE kind = 'answer'")

    assert [row["by_whom"] for row in rows] == ["grace"]
