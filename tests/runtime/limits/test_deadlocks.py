"""Nested calls that cross two queues do not wait for each other without end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Context, Failed, Outcome, Queue, Runtime, tool
from surehand.testing import settle

STORES = pytest.mark.parametrize("shared", [False, True], ids=["local", "shared"])


class Meeting:
    """Lets outer calls go on only when all of them hold their slots."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._arrived = 0
        self._complete = asyncio.Event()

    async def wait(self) -> None:
        self._arrived += 1
        if self._arrived == self._count:
            self._complete.set()
        await self._complete.wait()


def outer_tool(name: str, queue: str, inner: str, meeting: Meeting) -> Any:
    @tool(name=name, queue=queue)
    async def outer(ctx: Context) -> Any:
        """Call another tool while holding a slot."""
        await meeting.wait()
        outcome = await ctx.call(inner)
        return outcome.code if isinstance(outcome, Failed) else outcome.data

    return outer


def inner_tool(name: str, queue: str) -> Any:
    @tool(name=name, queue=queue)
    async def inner() -> str:
        """Work."""
        await asyncio.sleep(0)
        return name

    return inner


def queues(shared: bool = False, **slots: int) -> dict[str, Queue]:
    return {name: Queue(concurrent=count, shared=shared) for name, count in slots.items()}


def store_for(tmp_path: Any, shared: bool) -> str | None:
    return str(tmp_path / "calls.db") if shared else None


async def run_all(runtime: Runtime, *names: str) -> list[Outcome]:
    return list(await asyncio.wait_for(asyncio.gather(*(runtime.call(name) for name in names)), 5))


@STORES
async def test_of_two_calls_that_cross_two_queues_one_inner_call_is_refused(tmp_path, shared):
    meeting = Meeting(2)
    tools = [
        outer_tool("a", "one", "in_two", meeting),
        outer_tool("b", "two", "in_one", meeting),
        inner_tool("in_one", "one"),
        inner_tool("in_two", "two"),
    ]
    async with Runtime(tools, queues=queues(shared, one=1, two=1), store=store_for(tmp_path, shared)) as runtime:
        outcomes = await run_all(runtime, "a", "b")

    assert sorted(outcome.data for outcome in outcomes) in (["in_one", "limit_exceeded"], ["in_two", "limit_exceeded"])


async def test_the_refusal_names_the_queue_and_the_next_step():
    meeting = Meeting(2)
    refusals: list[Failed] = []

    def crossing(name: str, queue: str, inner: str) -> Any:
        @tool(name=name, queue=queue)
        async def outer(ctx: Context) -> None:
            """Call another tool while holding a slot."""
            await meeting.wait()
            outcome = await ctx.call(inner)
            if isinstance(outcome, Failed):
                refusals.append(outcome)

        return outer

    tools = [
        crossing("a", "one", "in_two"),
        crossing("b", "two", "in_one"),
        inner_tool("in_one", "one"),
        inner_tool("in_two", "two"),
    ]
    async with Runtime(tools, queues=queues(one=1, two=1)) as runtime:
        await run_all(runtime, "a", "b")

    [refusal] = refusals
    assert not refusal.executed
    assert refusal.data["queue"] in ("one", "two")
    assert "held by calls that wait for the call that this one is part of" in refusal.message
    assert "Call it when that one has ended" in refusal.message


async def test_three_calls_in_a_circle_of_three_queues_lose_one_inner_call():
    meeting = Meeting(3)
    tools = [
        outer_tool("a", "one", "in_two", meeting),
        outer_tool("b", "two", "in_three", meeting),
        outer_tool("c", "three", "in_one", meeting),
        *(inner_tool(f"in_{name}", name) for name in ("one", "two", "three")),
    ]
    async with Runtime(tools, queues=queues(one=1, two=1, three=1)) as runtime:
        outcomes = await run_all(runtime, "a", "b", "c")

    assert [outcome.data for outcome in outcomes].count("limit_exceeded") == 1


async def test_calls_of_different_scopes_are_looked_at_together():
    meeting = Meeting(2)
    tools = [
        outer_tool("a", "one", "in_two", meeting),
        outer_tool("b", "two", "in_one", meeting),
        inner_tool("in_one", "one"),
        inner_tool("in_two", "two"),
    ]
    async with Runtime(tools, queues=queues(one=1, two=1)) as runtime:
        ann, bob = runtime.scope(user="ann", session="s1"), runtime.scope(user="bob")
        outcomes = await asyncio.wait_for(asyncio.gather(ann.call("a"), bob.call("b")), 5)

    assert [outcome.data for outcome in outcomes].count("limit_exceeded") == 1


async def test_a_free_slot_in_the_circle_is_enough_for_all():
    meeting = Meeting(2)
    tools = [
        outer_tool("a", "one", "in_two", meeting),
        outer_tool("b", "two", "in_one", meeting),
        inner_tool("in_one", "one"),
        inner_tool("in_two", "two"),
    ]
    async with Runtime(tools, queues=queues(one=1, two=2)) as runtime:
        outcomes = await run_all(runtime, "a", "b")

    assert sorted(outcome.data for outcome in outcomes) == ["in_one", "in_two"]


async def test_a_nested_call_waits_for_a_queue_whose_calls_wait_for_nothing():
    started, opened = asyncio.Event(), asyncio.Event()
    meeting = Meeting(1)

    @tool(queue="two")
    async def busy() -> str:
        """Hold the slot of the other queue."""
        started.set()
        await opened.wait()
        return "busy"

    async with Runtime(
        outer_tool("a", "one", "in_two", meeting), inner_tool("in_two", "two"), busy, queues=queues(one=1, two=1)
    ) as runtime:
        holding = asyncio.create_task(runtime.call("busy"))
        await started.wait()
        waiting = asyncio.create_task(runtime.call("a"))
        await settle()
        assert not waiting.done()
        opened.set()
        assert (await waiting).data == "in_two"
        await holding


@pytest.mark.parametrize("count", [2, 5, 20])
async def test_all_slots_of_both_queues_may_be_part_of_the_circle(count):
    meeting = Meeting(2 * count)
    tools = [
        outer_tool("a", "one", "in_two", meeting),
        outer_tool("b", "two", "in_one", meeting),
        inner_tool("in_one", "one"),
        inner_tool("in_two", "two"),
    ]
    async with Runtime(tools, queues=queues(one=count, two=count)) as runtime:
        outcomes = await run_all(runtime, *["a"] * count, *["b"] * count)
        status = runtime.queues()

    refused = [outcome.data for outcome in outcomes].count("limit_exceeded")
    assert refused == 1  # one that gives up its slot lets all others go on
    assert [(queue.in_use, queue.waiting) for queue in status.values()] == [(0, 0), (0, 0)]


async def test_nested_calls_of_one_call_that_wait_for_each_other_are_noticed_too():
    """`first` holds the turn in the slot of queue one and wants queue two; `second` holds that and wants the turn."""
    both_hold = Meeting(2)

    @tool(queue="one")
    async def root(ctx: Context) -> list[Any]:
        """Make two calls at once."""
        outcomes = await asyncio.gather(ctx.call("first"), ctx.call("second"))
        return [outcome.data for outcome in outcomes]

    tools = [
        root,
        outer_tool("first", "one", "in_two", both_hold),
        outer_tool("second", "two", "in_one", both_hold),
        inner_tool("in_one", "one"),
        inner_tool("in_two", "two"),
    ]
    async with Runtime(tools, queues=queues(one=1, two=1)) as runtime:
        [outcome] = await run_all(runtime, "root")

    assert outcome.data.count("limit_exceeded") == 1


async def test_a_task_that_outlives_its_call_holds_no_slot():
    left_behind: list[asyncio.Task[Any]] = []
    opened = asyncio.Event()

    @tool(queue="one")
    async def leave(ctx: Context) -> None:
        """Leave a task behind that calls another tool later."""

        async def later() -> Any:
            await opened.wait()
            return await ctx.call("in_two")

        left_behind.append(asyncio.create_task(later()))

    @tool(queue="two")
    async def in_two(ctx: Context) -> Any:
        """Call back."""
        return (await ctx.call("in_one")).data

    async with Runtime(leave, in_two, inner_tool("in_one", "one"), queues=queues(one=1, two=1)) as runtime:
        await runtime.call("leave")
        opened.set()
        outcome = await asyncio.wait_for(left_behind[0], 5)

    assert outcome.data == "in_one"


async def test_a_refused_nested_call_can_be_made_later():
    meeting = Meeting(2)
    tools = [
        outer_tool("a", "one", "in_two", meeting),
        outer_tool("b", "two", "in_one", meeting),
        inner_tool("in_one", "one"),
        inner_tool("in_two", "two"),
    ]
    async with Runtime(tools, queues=queues(one=1, two=1)) as runtime:
        await run_all(runtime, "a", "b")
        again = await run_all(runtime, "in_one", "in_two")

    assert all(outcome.ok for outcome in again)


async def test_a_nested_call_does_not_wait_for_an_equal_call_that_waits_for_its_slot():
    ran: list[str] = []
    holds_slot, opened = asyncio.Event(), asyncio.Event()

    @tool(queue="one", effects={"read"}, cache=60)
    async def look() -> str:
        """Look something up."""
        ran.append("look")
        await asyncio.sleep(0)
        return "found"

    @tool(queue="one")
    async def outer(ctx: Context) -> Any:
        """Look something up while holding the only slot."""
        holds_slot.set()
        await opened.wait()
        return (await ctx.call("look")).data

    async with Runtime(look, outer, queues=queues(one=1)) as runtime:
        holding = asyncio.create_task(runtime.call("outer"))
        await holds_slot.wait()
        waiting = asyncio.create_task(runtime.call("look"))  # computes the result, once it has the slot
        await settle()
        opened.set()
        outcomes = await asyncio.wait_for(asyncio.gather(holding, waiting), 5)

    assert [outcome.data for outcome in outcomes] == ["found", "found"]
    assert ran == ["look", "look"]
