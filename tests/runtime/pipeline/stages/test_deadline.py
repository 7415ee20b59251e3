"""The stage `deadline`: time limits of tools, providers and callers."""

import asyncio
import logging
import threading
from time import monotonic

import pytest

from surehand import Call, Context, Failed, Pending, Provider, Queue, Runtime, ToolError, tool
from surehand.runtime import background_tasks
from surehand.testing import ManualClock, settle

pytestmark = pytest.mark.timeout(30)  # threads are waited for, and a busy machine takes its time


def hanging(**facets):
    @tool(**facets)
    async def hang() -> None:
        """Never end."""
        await asyncio.Event().wait()

    return hang


class Remote(Provider):
    namespace, timeout = "remote", 7.0

    def __init__(self, **facets) -> None:
        self._facets = facets

    async def tools(self):
        return [hanging(**self._facets).evolve(handler=None)]

    async def invoke(self, call, context):
        await asyncio.Event().wait()


async def ends_after(clock: ManualClock, call: asyncio.Task, seconds: float) -> None:
    await clock.advance(seconds - 0.01)
    assert not call.done()
    await clock.advance(0.02)
    assert (await call).code == "timed_out"


async def test_the_default_limit_holds_where_nothing_else_is_said():
    clock = ManualClock()

    async with Runtime(hanging(), clock=clock) as runtime:
        await ends_after(clock, asyncio.create_task(runtime.call("hang")), 30)


async def test_a_providers_limit_comes_before_the_default():
    clock = ManualClock()

    async with Runtime(Remote(), defaults={"tool_timeout": 2}, clock=clock) as runtime:
        await ends_after(clock, asyncio.create_task(runtime.call("remote__hang")), 7)


async def test_a_tools_limit_comes_before_its_providers():
    clock = ManualClock()

    async with Runtime(Remote(timeout=11), clock=clock) as runtime:
        await ends_after(clock, asyncio.create_task(runtime.call("remote__hang")), 11)


async def test_the_callers_limit_comes_before_the_tools():
    clock = ManualClock()

    async with Runtime(hanging(timeout=11), clock=clock) as runtime:
        await ends_after(clock, asyncio.create_task(runtime.call("hang", timeout=3)), 3)


async def test_the_callers_longer_limit_does_not_lengthen_the_tools():
    clock = ManualClock()

    async with Runtime(hanging(timeout=5), clock=clock) as runtime:
        await ends_after(clock, asyncio.create_task(runtime.call("hang", timeout=60)), 5)


async def test_a_limit_may_depend_on_the_arguments():
    clock = ManualClock()

    @tool(timeout=lambda arguments: arguments["seconds"] or None)
    async def wait(seconds: float) -> None:
        """Never end."""
        await asyncio.Event().wait()

    async with Runtime(wait, clock=clock) as runtime:
        await ends_after(clock, asyncio.create_task(runtime.call("wait", {"seconds": 90})), 90)
        await ends_after(clock, asyncio.create_task(runtime.call("wait", {"seconds": 4})), 4)
        unlimited = asyncio.create_task(runtime.call("wait", {"seconds": 0}))
        await clock.advance(100_000)
        assert not unlimited.done()

    assert (await unlimited).code == "cancelled"


async def test_a_limit_function_that_raises_is_a_crash_and_no_exception():
    @tool(timeout=lambda arguments: 1 / 0)
    async def wait() -> None:
        """Wait."""
        await asyncio.sleep(0)

    async with Runtime(wait) as runtime:
        assert (await runtime.call("wait")).code == "crashed"
        assert runtime.stats().running == 0


async def test_the_message_names_the_tool_and_the_limit():
    clock = ManualClock()

    async with Runtime(hanging(timeout=2.5), clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("hang"))
        await clock.advance(3)
        outcome = await call

    assert outcome.text == "(tool failed: hang timed out after 2.5 s.)"
    assert outcome.executed


async def test_many_limits_of_different_lengths_end_in_their_own_time():
    clock, ended = ManualClock(), []

    @tool(timeout=lambda arguments: arguments["seconds"])
    async def wait(seconds: float) -> None:
        """Never end."""
        await asyncio.Event().wait()

    async def one(seconds: float) -> None:
        await runtime.call("wait", {"seconds": seconds})
        ended.append(seconds)

    async with Runtime(wait, clock=clock) as runtime:
        lengths = [float(n % 90 + 1) for n in range(180)]
        tasks = [asyncio.create_task(one(seconds)) for seconds in lengths]
        await clock.advance(91)
        await asyncio.gather(*tasks)

    assert ended == sorted(lengths)


async def test_waiting_in_the_queue_does_not_count():
    clock, first, second = ManualClock(), asyncio.Event(), asyncio.Event()

    @tool(queue="one", timeout=10)
    async def work(n: int) -> int:
        """Work."""
        await (first, second)[n].wait()
        return n

    async with Runtime(work, queues={"one": Queue(concurrent=1)}, clock=clock) as runtime:
        calls = [asyncio.create_task(runtime.call("work", {"n": n})) for n in range(2)]
        await clock.advance(9)
        first.set()
        await clock.advance(9)
        second.set()
        assert [outcome.data for outcome in await asyncio.gather(*calls)] == [0, 1]


async def test_each_attempt_has_the_whole_limit():
    clock, tries = ManualClock(), []

    @tool(effects={"read"}, retries=2, timeout=10)
    async def slow(ctx: Context) -> str:
        """Be slow at first."""
        tries.append(ctx.attempt)
        if ctx.attempt < 3:
            await asyncio.Event().wait()
        return "at last"

    async with Runtime(slow, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("slow"))
        await clock.advance(30)
        outcome = await call

    assert (outcome.data, tries, outcome.meta.attempts) == ("at last", [1, 2, 3], 3)


async def test_the_callers_limit_bounds_waiting_in_the_queue():
    clock = ManualClock()

    async with Runtime(hanging(queue="one"), queues={"one": Queue(concurrent=1)}, clock=clock) as runtime:
        holder = asyncio.create_task(runtime.call("hang"))
        waiter = asyncio.create_task(runtime.call("hang", timeout=3))
        await clock.advance(3)
        outcome = await waiter
        assert (outcome.code, outcome.executed) == ("timed_out", False)
        assert "waiting included" in outcome.message
        assert runtime.queues()["one"].waiting == 0

    assert (await holder).code == "cancelled"


async def test_the_callers_limit_bounds_the_back_off():
    clock = ManualClock()

    @tool(effects={"read"}, retries=5)
    async def busy() -> None:
        """Be busy."""
        raise ToolError("busy", code="unavailable", retry_after=100)

    async with Runtime(busy, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("busy", timeout=3))
        await clock.advance(3)
        outcome = await call

    assert (outcome.code, outcome.executed) == ("timed_out", True)


async def test_the_callers_limit_leaves_nothing_behind_when_the_call_ends_in_time():
    clock = ManualClock()

    @tool
    async def quick() -> int:
        """Be quick."""
        await asyncio.sleep(0)
        return 1

    async with Runtime(quick, clock=clock) as runtime:
        assert (await runtime.call("quick", timeout=3)).data == 1
        await clock.advance(10)
        await settle()
        assert asyncio.current_task().cancelling() == 0


async def test_a_handler_that_swallows_cancellation_does_not_keep_its_caller_waiting(caplog):
    clock, stubborn = ManualClock(), asyncio.Event()

    @tool(timeout=1)
    async def deaf() -> None:
        """Ignore everybody."""
        while not stubborn.is_set():
            try:
                await stubborn.wait()
            except asyncio.CancelledError:
                continue

    async with Runtime(deaf, clock=clock) as runtime:
        call, began = asyncio.create_task(runtime.call("deaf")), monotonic()
        await clock.advance(1)
        assert (await call).code == "timed_out"
        assert 0.4 < monotonic() - began < 20
        assert runtime.stats().running == 0
        with caplog.at_level(logging.CRITICAL, "surehand"):
            await runtime.close()

    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_a_handler_that_cleans_up_in_time_is_waited_for(monkeypatch):
    monkeypatch.setattr(background_tasks, "CANCELLATION_GRACE_SECONDS", 20)  # however busy the machine is
    clock, cleaned = ManualClock(), []

    @tool(timeout=1)
    async def tidy() -> None:
        """Clean up."""
        try:
            await asyncio.Event().wait()
        finally:
            await settle()
            cleaned.append(True)

    async with Runtime(tidy, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("tidy"))
        await clock.advance(1)
        assert (await call).code == "timed_out"
        assert cleaned == [True]


async def test_a_sync_handler_that_blocks_is_abandoned_replaced_and_found_again():
    clock, begun, release, ended = ManualClock(), threading.Event(), threading.Event(), threading.Event()

    @tool(timeout=1)
    def block() -> str:
        """Block a thread."""
        begun.set()
        release.wait(20)
        ended.set()
        return "too late"

    @tool
    def quick() -> str:
        """Be quick."""
        return threading.current_thread().name

    async with Runtime(block, quick, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("block"))
        await asyncio.to_thread(begun.wait, 20)
        await clock.advance(1)
        assert (await call).code == "timed_out"
        assert runtime.stats().abandoned == 1
        assert (await runtime.call("quick")).ok

        release.set()
        await asyncio.to_thread(ended.wait, 20)
        while runtime.stats().abandoned:
            await asyncio.to_thread(threading.Event().wait, 0.001)
        assert (await runtime.call("quick")).ok


async def all_begun(begun: threading.Semaphore, count: int) -> None:
    for _ in range(count):
        assert await asyncio.to_thread(begun.acquire, timeout=20)


async def test_a_call_that_waits_for_a_thread_gets_one_when_the_blocked_ones_are_abandoned():
    clock, begun, release = ManualClock(), threading.Semaphore(0), threading.Event()

    @tool(timeout=1)
    def block() -> None:
        """Block a thread."""
        begun.release()
        release.wait(20)

    @tool(timeout=1000)
    def patient() -> str:
        """Wait for a thread."""
        return "ran"

    async with Runtime(block, patient, clock=clock) as runtime:
        blocked = [asyncio.create_task(runtime.call("block")) for _ in range(32)]
        await all_begun(begun, 32)
        waiting = asyncio.create_task(runtime.call("patient"))
        await clock.advance(2)
        assert {(await call).code for call in blocked} == {"timed_out"}
        assert (await asyncio.wait_for(waiting, 20)).data == "ran"
        release.set()


async def test_too_many_abandoned_threads_make_a_sync_tool_unavailable_until_they_end():
    clock, begun, release = ManualClock(), threading.Semaphore(0), threading.Event()

    @tool(timeout=1)
    def block() -> str:
        """Block a thread."""
        begun.release()
        release.wait(20)
        return "done"

    async with Runtime(block, clock=clock) as runtime:
        for _ in range(2):
            calls = [asyncio.create_task(runtime.call("block")) for _ in range(32)]
            await all_begun(begun, 32)
            await clock.advance(1)
            assert {outcome.code for outcome in await asyncio.gather(*calls)} == {"timed_out"}
        assert runtime.stats().abandoned == 64
        assert (await runtime.call("block")).code == "unavailable"

        release.set()
        while runtime.stats().abandoned:
            await asyncio.to_thread(threading.Event().wait, 0.001)
        assert (await runtime.call("block")).data == "done"


async def test_a_sync_handler_can_see_that_its_call_was_cancelled():
    clock, seen, entered = ManualClock(), threading.Event(), threading.Event()

    @tool(timeout=1)
    def polite(ctx: Context) -> None:
        """Look up now and then."""
        entered.set()
        while not ctx.cancelled:
            seen.wait(0.001)
        seen.set()

    async with Runtime(polite, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("polite"))
        await settle()
        await asyncio.to_thread(entered.wait, 20)
        await clock.advance(1)
        assert (await call).code == "timed_out"
        assert await asyncio.to_thread(seen.wait, 20)


async def test_waiting_for_a_client_is_exempt():
    clock = ManualClock()
    confirm = tool.client("confirm", "Ask the person.", reply="wait", timeout=500)

    async with Runtime(confirm, defaults={"tool_timeout": 1}, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("confirm", call_id="c1"))
        await clock.advance(499)
        assert not call.done()
        assert (await runtime.settle("c1", "yes")).data == "yes"
        assert (await call).data == "yes"


async def test_a_client_wait_that_runs_out_stays_open():
    clock = ManualClock()
    confirm = tool.client("confirm", "Ask the person.", reply="wait", timeout=5)

    async with Runtime(confirm, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("confirm"))
        await clock.advance(5)
        pending = await call
        assert isinstance(pending, Pending)
        assert (await runtime.settle(pending.call_id, "late")).data == "late"


async def test_agents_have_no_limit_but_the_callers():
    clock = ManualClock()

    async with Runtime(hanging().evolve(kind="agent"), clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("hang", timeout=5000))
        await clock.advance(4999)
        assert not call.done()
        await clock.advance(2)
        assert (await call).code == "timed_out"


async def test_cancelling_the_caller_raises_and_cancels_the_handler_too():
    entered, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Runtime(wait) as runtime:
        call = asyncio.create_task(runtime.call("wait"))
        await entered.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert ended.is_set()
        assert runtime.stats().running == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert runtime.stats().calls["wait"].failures == 1


async def test_an_asyncio_timeout_around_a_call_works_as_usual():
    async with Runtime(hanging()) as runtime:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await runtime.call("hang")
        assert runtime.stats().running == 0


async def test_a_call_can_be_cancelled_by_its_id():
    entered = asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        entered.set()
        await asyncio.Event().wait()

    async with Runtime(wait) as runtime:
        call = asyncio.create_task(runtime.call("wait", call_id="c1"))
        await entered.wait()
        assert await runtime.cancel("c1")
        outcome = await call
        assert (outcome.code, outcome.executed) == ("cancelled", True)
        assert call.cancelling() == 0
        assert not await runtime.cancel("c1")
        assert not await runtime.cancel("nobody")


async def test_the_callers_task_continues_after_its_call_was_cancelled_by_id():
    entered = asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        entered.set()
        await asyncio.Event().wait()

    async def caller():
        first = await runtime.call("wait", call_id="c1")
        await asyncio.sleep(0)
        return first.code, asyncio.current_task().cancelling()

    async with Runtime(wait) as runtime:
        task = asyncio.create_task(caller())
        await entered.wait()
        await runtime.cancel("c1")
        assert await task == ("cancelled", 0)


async def test_all_calls_of_a_scope_can_be_cancelled_at_once():
    async with Runtime(hanging()) as runtime:
        ann, bob = runtime.scope(user="ann"), runtime.scope(user="bob")
        anns = [asyncio.create_task(ann.call("hang")) for _ in range(3)]
        bobs = asyncio.create_task(bob.call("hang"))
        await settle()
        assert await ann.cancel()
        assert {(await call).code for call in anns} == {"cancelled"}
        assert not bobs.done()
        assert await runtime.cancel()
        assert (await bobs).code == "cancelled"
        assert not await runtime.cancel()


async def test_a_strangers_call_cannot_be_cancelled():
    async with Runtime(hanging()) as runtime:
        call = asyncio.create_task(runtime.scope(user="ann").call("hang", call_id="c1"))
        await settle()
        assert not await runtime.scope(user="bob").cancel("c1")
        assert not call.done()
        await runtime.cancel("c1")
        await call


async def test_cancelling_an_outer_call_cancels_the_inner_one():
    entered = asyncio.Event()

    @tool
    async def inner() -> None:
        """Wait."""
        entered.set()
        await asyncio.Event().wait()

    @tool
    async def outer(ctx: Context):
        """Call another."""
        return await ctx.call("inner")

    async with Runtime(inner, outer) as runtime:
        call = asyncio.create_task(runtime.call("outer", call_id="outer"))
        await entered.wait()
        await runtime.cancel("outer")
        assert (await call).code == "cancelled"
        assert runtime.stats().running == 0


async def test_closing_the_runtime_cancels_running_calls():
    async with Runtime(hanging()) as runtime:
        calls = [asyncio.create_task(runtime.call("hang")) for _ in range(3)]
        await settle()

    outcomes = await asyncio.gather(*calls)
    assert {outcome.code for outcome in outcomes} == {"cancelled"}
    assert "the runtime closed" in outcomes[0].message
    assert (await runtime.call("hang")).code == "unavailable"


@pytest.mark.parametrize("first", ["handler", "limit"])
async def test_a_handler_that_finishes_in_the_moment_of_its_limit_gets_one_outcome(first):
    clock, finish = ManualClock(), asyncio.Event()

    @tool(timeout=5)
    async def punctual() -> str:
        """End exactly in time."""
        if first == "limit":
            clock.call_later(5, finish.set)
        await finish.wait()
        return "in time"

    async with Runtime(punctual, clock=clock) as runtime:
        if first == "handler":
            clock.call_later(5, finish.set)
        call = asyncio.create_task(runtime.call("punctual"))
        await clock.advance(5)
        outcome = await call
        assert (outcome.data if outcome.ok else outcome.code) == {"handler": "in time", "limit": "timed_out"}[first]
        assert runtime.stats().running == 0


async def test_a_call_cancelled_in_the_moment_it_ends_gives_an_outcome_and_no_exception():
    finish = asyncio.Event()

    @tool
    async def work() -> str:
        """Work."""
        await finish.wait()
        return "done"

    async with Runtime(work) as runtime:
        for rounds in range(6):
            finish.clear()
            call = asyncio.create_task(runtime.call("work", call_id=f"c{rounds}"))
            await settle()
            finish.set()
            await settle(rounds)
            await runtime.cancel(f"c{rounds}")
            outcome = await call
            assert outcome.ok or outcome.code == "cancelled"
            assert call.cancelling() == 0
        assert runtime.stats().running == 0


async def test_an_async_generator_is_closed_when_its_time_is_up():
    clock, closed = ManualClock(), []

    @tool(timeout=1)
    async def stream():
        """Stream and never end."""
        try:
            yield {"status": "started"}
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async with Runtime(stream, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("stream"))
        await clock.advance(1)
        assert (await call).code == "timed_out"
        assert closed == [True]


async def test_an_async_generator_is_closed_when_its_caller_goes():
    entered, closed = asyncio.Event(), asyncio.Event()

    @tool
    async def stream():
        """Stream and never end."""
        try:
            yield 1
            entered.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with Runtime(stream) as runtime:
        call = asyncio.create_task(runtime.call("stream"))
        await entered.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert closed.is_set()


async def test_parallel_calls_end_each_in_its_own_way():
    clock = ManualClock()

    @tool(timeout=1)
    async def either(hang: bool) -> str:
        """Hang or not."""
        if hang:
            await asyncio.Event().wait()
        return "ok"

    async with Runtime(either, clock=clock) as runtime:
        calls = asyncio.create_task(runtime.call_many(Call("either", {"hang": n % 2 == 0}) for n in range(4)))
        await clock.advance(1)
        outcomes = await calls

    assert [getattr(outcome, "code", "done") for outcome in outcomes] == ["timed_out", "done"] * 2


async def test_a_call_outside_async_with_is_refused_and_not_raised():
    runtime = Runtime(hanging())

    outcome = await runtime.call("hang")

    assert isinstance(outcome, Failed)
    assert outcome.code == "unavailable"
