"""A cancelled run of an agent leaves nothing open, whichever process cancels it, drives it or dies."""

from __future__ import annotations

import asyncio

import pytest

from surehand import Agent, Runtime, tool
from surehand.core.ids import derive_run_id
from surehand.testing import ScriptedModel
from tests.durable.conftest import ON_BOTH_DATABASES

pytestmark = pytest.mark.timeout(60)


@tool(confirm=True, effects={"write"})
async def book(flight: str) -> str:
    """Book a flight."""
    raise AssertionError(f"{flight} must not be booked.")


def build_boss() -> Agent:
    clerk = Agent("clerk", model=ScriptedModel([("book", {"flight": "TW7"})]), tools=[book])
    model = ScriptedModel([("agent__clerk", {"prompt": "Book."})], lambda messages: messages[-1]["content"])
    return Agent("boss", model=model, tools=[], agents=[clerk])


@ON_BOTH_DATABASES
async def test_another_process_cancels_the_call_that_waits_for_a_run(address: str) -> None:
    boss = build_boss()
    async with Runtime(store=address) as runtime, Runtime(store=address) as other:
        waiting = await boss.run("Go", runtime=runtime, run_id="r1", user="ada", session="s1")
        [wait] = waiting.waiting
        assert await other.scope(user="ada").cancel("r1.0.0")

        assert await runtime.pending() == []
        assert (await other.approve(wait.call_id)).code == "conflict"
        run = await boss.resume("r1", runtime=runtime)
    assert (run.status, "cancelled" in run.text) == ("done", True)


@ON_BOTH_DATABASES
async def test_what_a_process_marked_and_then_died_is_ended_by_another_one(address: str) -> None:
    async with Runtime(store=address) as runtime:
        [wait] = (await build_boss().run("Go", runtime=runtime, run_id="r1")).waiting
        assert runtime.store is not None
        await runtime.store.runs.cancel("r1", "Enough.")
    async with Runtime(store=address) as other:
        assert (await other.result(wait.call_id)).code == "cancelled"
        assert (await other.result("r1.0.0")).code == "cancelled"
        assert other.store is not None
        child = await other.store.runs.find(derive_run_id("r1.0.0"))

    assert child is not None
    assert child.state == "stopped"


@ON_BOTH_DATABASES
async def test_a_process_stops_driving_what_another_one_cancels(address: str) -> None:
    started = asyncio.Event()
    cancelled = asyncio.Event()

    @tool
    async def work() -> None:
        """Work for ever."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    clerk = Agent("clerk", model=ScriptedModel([("work", {})]), tools=[work])
    boss = Agent("boss", model=ScriptedModel([("agent__clerk", {"prompt": "Go."})]), tools=[], agents=[clerk])
    async with Runtime(store=address) as runtime, Runtime(store=address) as other:
        task = asyncio.create_task(boss.run("Go", runtime=runtime, run_id="r1"))
        await started.wait()
        assert await other.cancel_run("r1", "Enough.")
        run = await task

        assert cancelled.is_set()
        assert (run.status, run.reason) == ("stopped", "Enough.")
        assert (await clerk.resume(derive_run_id("r1.0.0"), runtime=runtime)).status == "stopped"
