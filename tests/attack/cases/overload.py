"""More calls than a queue can serve: what share of its capacity does useful work, and how fast calls are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

from surehand import Outcome, Queue, Runtime, tool
from tests.attack.runner import attack

SLOTS = 8
SERVICE_SECONDS = 0.02
CAPACITY_PER_SECOND = SLOTS / SERVICE_SECONDS
LOAD_FACTOR = 10
LOAD_SECONDS = 4.0
CALLER_PATIENCE_SECONDS = 1.0
MIN_GOODPUT_SHARE = 0.8
MAX_REFUSAL_SECONDS = 0.1


@tool(queue="work", effects={"read"})
async def work() -> str:
    """Work for a while."""
    await asyncio.sleep(SERVICE_SECONDS)
    return "done"


async def _measure(runtime: Runtime, make_call: Callable[[Runtime], Awaitable[Outcome]]) -> str:
    """Send ten times the load that the queue can serve; raises unless it serves 80 % of its capacity meanwhile."""
    served: list[float] = []
    refusals: list[float] = []

    async def call() -> None:
        started_at = perf_counter()
        try:
            outcome = await make_call(runtime)
        except TimeoutError:
            return
        ended_at = perf_counter()
        if outcome.ok and ended_at - started_at <= CALLER_PATIENCE_SECONDS:
            served.append(ended_at)
        elif not outcome.ok and outcome.code == "rate_limited":
            assert outcome.retry_after is not None
            assert outcome.data["retry_after"] == outcome.retry_after
            refusals.append(ended_at - started_at)

    batch_seconds = 0.02
    batch_size = round(CAPACITY_PER_SECOND * LOAD_FACTOR * batch_seconds)
    began_at = perf_counter()
    calls: list[asyncio.Task[None]] = []
    while perf_counter() - began_at < LOAD_SECONDS:
        calls += [asyncio.create_task(call()) for _ in range(batch_size)]
        await asyncio.sleep(max(began_at + len(calls) / batch_size * batch_seconds - perf_counter(), 0))
    loaded_seconds = perf_counter() - began_at
    await asyncio.gather(*calls)
    share = sum(at - began_at <= loaded_seconds for at in served) / (CAPACITY_PER_SECOND * loaded_seconds)
    refusals.sort()
    slowest = refusals[int(len(refusals) * 0.99)] if refusals else 0.0
    factor = len(calls) / loaded_seconds / CAPACITY_PER_SECOND
    note = (
        f"{share:.0%} of the capacity at {factor:.1f} times the load; 99 % of refusals within {slowest * 1000:.1f} ms"
    )
    assert share >= MIN_GOODPUT_SHARE, note
    assert slowest <= MAX_REFUSAL_SECONDS, note
    return note


def _call_with_timeout(runtime: Runtime) -> Awaitable[Outcome]:
    return runtime.call("work", timeout=CALLER_PATIENCE_SECONDS)


def _call_and_give_up(runtime: Runtime) -> Awaitable[Outcome]:
    return asyncio.wait_for(runtime.call("work"), CALLER_PATIENCE_SECONDS)


@attack("overload", "A queue serves 80 % of its capacity at ten times the load of callers with a time limit.")
async def overload_by_callers_with_a_time_limit(folder: Path) -> str:
    async with Runtime(work, queues={"work": Queue(concurrent=SLOTS)}) as runtime:
        return await _measure(runtime, _call_with_timeout)


@attack(
    "overload", "A queue with waiting=... serves 80 % of its capacity at ten times the load of callers that give up."
)
async def overload_by_callers_that_give_up(folder: Path) -> str:
    async with Runtime(work, queues={"work": Queue(concurrent=SLOTS, waiting=4 * SLOTS)}) as runtime:
        return await _measure(runtime, _call_and_give_up)


@attack("overload", "A shared queue serves 80 % of its capacity at ten times the load of callers with a time limit.")
async def overload_of_a_shared_queue(folder: Path) -> str:
    queues = {"work": Queue(concurrent=SLOTS, shared=True)}
    async with Runtime(work, queues=queues, store=str(folder / "calls.db")) as runtime:
        return await _measure(runtime, _call_with_timeout)


@attack("overload", "A hundred thousand calls at once fill a queue to its bound, and the others are refused.")
async def flood_of_calls(folder: Path) -> str:
    gate = asyncio.Event()

    @tool(queue="work")
    async def hold() -> str:
        """Hold the slot."""
        await gate.wait()
        return "done"

    async with Runtime(hold, queues={"work": Queue(concurrent=1)}) as runtime:
        began_at = perf_counter()
        calls = [asyncio.create_task(runtime.call("hold")) for _ in range(100_000)]
        await asyncio.wait(calls[10_001:])
        seconds = perf_counter() - began_at
        waiting = runtime.queues()["work"].waiting
        gate.set()
        outcomes = await asyncio.gather(*calls)
    refused = sum(not outcome.ok for outcome in outcomes)
    assert (waiting, refused) == (10_000, 89_999), (waiting, refused)
    return f"{refused} calls were refused within {seconds:.1f} s"
