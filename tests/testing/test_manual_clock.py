"""A runtime for tests, whose time stands still."""

import asyncio

from surehand import Runtime, tool
from surehand.testing import ManualClock, ManualRuntime, runtime, settle


@tool(timeout=5)
async def stuck() -> str:
    """Never end."""
    await asyncio.Event().wait()
    return "never"


async def test_the_time_of_a_manual_runtime_passes_only_by_advance() -> None:
    async with runtime(stuck) as rt:
        call = asyncio.ensure_future(rt.call("stuck"))
        await rt.clock.advance(4.9)
        assert not call.done()

        await rt.clock.advance(0.1)
        assert (await call).code == "timed_out"

    assert isinstance(rt, ManualRuntime)
    assert isinstance(rt, Runtime)


async def test_a_manual_runtime_takes_the_parameters_of_a_runtime_and_a_clock() -> None:
    clock = ManualClock(5)
    async with runtime(stuck, clock=clock, policy=[{"tools": "*", "decision": "deny"}], journal=True) as rt:
        assert (await rt.call("stuck")).code == "denied"

    assert rt.clock is clock
    assert rt.journal[0].tool == "stuck"


async def test_two_runtimes_have_two_clocks() -> None:
    async with runtime() as one, runtime() as other:
        await one.clock.advance(60)

        assert one.clock.now() == other.clock.now() + 60


async def test_settle_lets_tasks_run_as_far_as_they_can() -> None:
    seen = []

    async def step(count: int) -> None:
        for number in range(count):
            await asyncio.sleep(0)
            seen.append(number)

    task = asyncio.ensure_future(step(5))
    await settle()

    assert seen == [0, 1, 2, 3, 4]
    await task
