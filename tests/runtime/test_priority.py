"""Priorities in queues: the higher is served first, equal ones in order, and waiting raises a priority."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Call, DefinitionError, Failed, Queue, Runtime, tool
from surehand.testing import ManualClock


class Line:
    """A runtime with one slot, whose calls end when they are told to."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.order: list[str] = []
        self.gates: asyncio.Queue[None] = asyncio.Queue()

        @tool(queue="one")
        async def step(name: str) -> None:
            """Take the slot."""
            self.order.append(name)
            await self.gates.get()

        @tool(queue="one", priority=5)
        async def urgent(name: str) -> None:
            """Take the slot sooner."""
            self.order.append(name)
            await self.gates.get()

        self.runtime = Runtime(step, urgent, queues={"one": Queue(concurrent=1)}, clock=self.clock)
        self.tasks: list[asyncio.Task[Any]] = []

    async def join(self, call: Any) -> None:
        self.tasks.append(asyncio.ensure_future(call))
        for _ in range(5):
            await asyncio.sleep(0)

    async def finish(self) -> list[str]:
        for _ in self.tasks:
            self.gates.put_nowait(None)
        await asyncio.gather(*self.tasks)
        return self.order


async def test_a_higher_priority_is_served_first_and_equal_ones_in_order() -> None:
    line = Line()
    async with line.runtime as runtime:
        await line.join(runtime.call("step", {"name": "first"}))
        await line.join(runtime.call("step", {"name": "plain"}))
        await line.join(runtime.call("step", {"name": "plain 2"}))
        await line.join(runtime.scope(priority=3).call("step", {"name": "scope"}))
        await line.join(runtime.call("urgent", {"name": "tool"}))
        await line.join(runtime.call_many([Call("step", {"name": "call"}, priority=9)]))

        assert await line.finish() == ["first", "call", "tool", "scope", "plain", "plain 2"]


async def test_the_calls_own_priority_wins() -> None:
    line = Line()
    async with line.runtime as runtime:
        await line.join(runtime.call("step", {"name": "first"}))
        await line.join(runtime.call("step", {"name": "plain"}))
        await line.join(runtime.scope(priority=7).call_many([Call("urgent", {"name": "low"}, priority=-1)]))

        assert await line.finish() == ["first", "plain", "low"]


async def test_a_waiting_call_gains_one_a_second() -> None:
    line = Line()
    async with line.runtime as runtime:
        await line.join(runtime.call("step", {"name": "first"}))
        await line.join(runtime.call("step", {"name": "patient"}))
        await line.clock.advance(6)
        await line.join(runtime.call("urgent", {"name": "urgent"}))

        assert await line.finish() == ["first", "patient", "urgent"]


async def test_the_position_told_is_the_one_by_priority() -> None:
    line = Line()
    positions: list[int] = []
    async with line.runtime as runtime:
        runtime.listen(lambda event: positions.append(event.position) if hasattr(event, "position") else None)
        await line.join(runtime.call("step", {"name": "first"}))
        await line.join(runtime.call("step", {"name": "plain"}))
        await line.join(runtime.call("urgent", {"name": "urgent"}))
        await line.join(runtime.call("step", {"name": "plain 2"}))
        await line.finish()

    assert positions == [1, 1, 3]


async def test_a_call_that_gives_up_leaves_the_queue() -> None:
    line = Line()
    async with line.runtime as runtime:
        await line.join(runtime.call("step", {"name": "first"}))
        await line.join(runtime.call("urgent", {"name": "gone"}))
        await line.join(runtime.call("step", {"name": "next"}))
        line.tasks.pop(1).cancel()

        assert await line.finish() == ["first", "next"]
        assert runtime.queues()["one"].waiting == 0


async def test_a_priority_that_is_no_whole_number_is_an_error() -> None:
    with pytest.raises(DefinitionError, match="priority"):
        tool(priority="high")(lambda: None)  # type: ignore[arg-type]
    async with Line().runtime as runtime:
        with pytest.raises(TypeError, match="whole number"):
            runtime.scope(priority="high")  # type: ignore[arg-type]
        [outcome] = await runtime.call_many([Call("step", {"name": "x"}, priority=True)])

        assert isinstance(outcome, Failed)
        assert outcome.code == "invalid_arguments"
