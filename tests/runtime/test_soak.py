"""Many calls over a long time: memory and tasks do not grow."""

import asyncio
import gc
import threading

import pytest

from surehand import Queue, Runtime, ToolError, tool

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def pause() -> None:
    """Let others run."""
    await asyncio.sleep(0)


@tool(queue="narrow")
async def queued() -> None:
    """Run in a queue."""
    await asyncio.sleep(0)


@tool
async def fail() -> None:
    """Fail."""
    raise ToolError("no")


@tool
def threaded() -> int:
    """Run in a thread."""
    return 1


async def test_twenty_thousand_calls_leave_nothing_behind():
    async with Runtime(add) as runtime:
        for _ in range(1_000):
            await runtime.call("add", '{"a": 1, "b": 2}')
        gc.collect()
        before = len(gc.get_objects())
        for n in range(20_000):
            assert (await runtime.call("add", f'{{"a": {n}, "b": 1}}')).data == n + 1
        gc.collect()

        assert len(gc.get_objects()) - before < 500
        nothing_is_left(runtime)
        assert runtime.stats().calls["add"].count == 21_000


async def test_calls_that_wait_fail_or_are_unknown_leave_nothing_behind():
    async with Runtime(pause, queued, fail, queues={"narrow": Queue(concurrent=3)}) as runtime:
        names = ["pause", "queued", "fail", "nowhere"]
        for _ in range(3):
            await asyncio.gather(*(runtime.call(names[n % 4]) for n in range(400)))
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(5):
            await asyncio.gather(*(runtime.call(names[n % 4]) for n in range(400)))
        gc.collect()

        assert len(gc.get_objects()) - before < 500
        nothing_is_left(runtime)
        assert runtime.queues()["narrow"].in_use == 0


async def test_cancelled_calls_leave_nothing_behind():
    async with Runtime(pause, queued, queues={"narrow": Queue(concurrent=1)}) as runtime:
        for steps in range(60):
            calls = [asyncio.create_task(runtime.call(name)) for name in ("pause", "queued", "queued", "queued")]
            for _ in range(steps % 12):
                await asyncio.sleep(0)
            for call in calls[:: 1 + steps % 2]:
                call.cancel()
            await asyncio.wait(calls)
            assert runtime.queues()["narrow"].in_use == runtime.queues()["narrow"].waiting == 0
        nothing_is_left(runtime)


async def test_threads_are_used_again_and_end_with_the_runtime():
    before = threading.active_count()

    async with Runtime(threaded) as runtime:
        for _ in range(300):
            await runtime.call("threaded")
        assert threading.active_count() - before <= 32
        outcomes = await asyncio.gather(*(runtime.call("threaded") for _ in range(300)))
        assert {outcome.data for outcome in outcomes} == {1}
        assert threading.active_count() - before <= 32
        nothing_is_left(runtime)

    wait_for_threads(before)


def wait_for_threads(before: int) -> None:
    patience = threading.Event()
    while threading.active_count() > before:
        patience.wait(0.001)


def nothing_is_left(runtime: Runtime) -> None:
    stats = runtime.stats()
    assert (stats.running, stats.pending, stats.abandoned, stats.artifacts) == (0, 0, 0, 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
