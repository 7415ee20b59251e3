"""Sync handlers run in daemon threads that can be abandoned."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from surehand import Done, Failed, tool
from surehand.core.errors import Unavailable
from surehand.core.threads import HandlerThreads


@contextmanager
def threads(**limits: int) -> Iterator[HandlerThreads]:
    made = HandlerThreads(**limits)
    try:
        yield made
    finally:
        made.close()


class Stuck:
    """A function that will not end before it is let go."""

    def __init__(self) -> None:
        self.began, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.began.set()
        self.go.wait()
        self.ended.set()
        return "late"

    async def abandon(self, on: HandlerThreads) -> None:
        task = asyncio.create_task(on.run(self))
        await asyncio.to_thread(self.began.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110  # it is a thread that makes it true
        await asyncio.sleep(0)


async def test_a_plain_function_runs_in_a_daemon_thread_of_its_own() -> None:
    @tool
    def where() -> list[Any]:
        thread = threading.current_thread()
        return [thread is threading.main_thread(), thread.daemon, thread.name]

    assert await where.run() == Done([False, True, "surehand"])


async def test_the_event_loop_runs_while_a_sync_function_works() -> None:
    stuck = Stuck()
    blocked = tool(name="blocked")(stuck)

    task = asyncio.create_task(blocked.run())
    await asyncio.to_thread(stuck.began.wait)
    assert not task.done()
    stuck.go.set()

    assert await task == Done("late")


async def test_context_variables_of_the_caller_are_visible_and_stay_its_own() -> None:
    who = contextvars.ContextVar("who", default="nobody")

    @tool
    def ask() -> str:
        seen = who.get()
        who.set("the thread")
        return seen

    who.set("the caller")

    assert await ask.run() == Done("the caller")
    assert who.get() == "the caller"


async def test_a_stop_iteration_is_a_crash_and_not_a_hang() -> None:
    @tool
    def take() -> Any:
        return next(iter([]))

    outcome = await take.run()

    assert isinstance(outcome, Failed)
    assert outcome.code == "crashed"
    assert "StopIteration" in outcome.message


async def test_an_error_in_a_thread_is_raised_to_the_caller() -> None:
    with threads() as pool:
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 // 0)
        with pytest.raises(SystemExit):
            await pool.run(lambda: exit(1))

        assert await pool.run(lambda: 3) == 3


async def test_threads_are_used_again() -> None:
    with threads() as pool:
        seen = [await pool.run(threading.get_ident) for _ in range(10)]

    assert len(set(seen)) <= 2


async def test_no_more_than_the_size_work_at_once_and_the_rest_waits_its_turn() -> None:
    with threads(max_threads=2) as pool:
        first = [Stuck(), Stuck()]
        tasks = [asyncio.create_task(pool.run(stuck)) for stuck in first]
        for stuck in first:
            await asyncio.to_thread(stuck.began.wait)
        waiting = asyncio.create_task(pool.run(lambda: "turn"))
        await asyncio.sleep(0)
        assert not waiting.done()

        first[0].go.set()
        assert await waiting == "turn"

        first[1].go.set()
        assert await asyncio.gather(*tasks) == ["late", "late"]


async def test_an_abandoned_thread_is_counted_replaced_and_recovered() -> None:
    stuck = Stuck()
    with threads(max_threads=1) as pool:
        await stuck.abandon(pool)
        assert pool.abandoned_count == 1

        assert await pool.run(lambda: "replaced") == "replaced"

        stuck.go.set()
        await until(lambda: pool.abandoned_count == 0)
        assert stuck.ended.is_set()
        assert await pool.run(lambda: "recovered") == "recovered"


async def test_work_that_waits_for_a_thread_gets_the_replacement_of_an_abandoned_one() -> None:
    stuck = Stuck()
    with threads(max_threads=1) as pool:
        busy = asyncio.create_task(pool.run(stuck))
        await asyncio.to_thread(stuck.began.wait)
        waiting = asyncio.create_task(pool.run(lambda: "turn"))
        await asyncio.sleep(0)

        busy.cancel()
        with pytest.raises(asyncio.CancelledError):
            await busy

        assert await waiting == "turn"
        stuck.go.set()
        await until(lambda: pool.abandoned_count == 0)


async def test_work_that_is_cancelled_while_it_waits_never_runs() -> None:
    stuck, ran = Stuck(), []
    with threads(max_threads=1) as pool:
        busy = asyncio.create_task(pool.run(stuck))
        await asyncio.to_thread(stuck.began.wait)
        waiting = asyncio.create_task(pool.run(lambda: ran.append(1)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        stuck.go.set()
        await busy
        assert await pool.run(lambda: "next") == "next"

    assert (ran, pool.abandoned_count) == ([], 0)


async def test_too_many_abandoned_threads_make_the_tool_unavailable_before_it_runs() -> None:
    left = [Stuck() for _ in range(3)]
    with threads(max_threads=2, max_abandoned=3) as pool:
        for stuck in left:
            await stuck.abandon(pool)

        with pytest.raises(Unavailable, match="3 earlier calls still occupy their threads") as caught:
            await pool.run(lambda: None)
        assert caught.value.executed is False

        left[0].go.set()
        await until(lambda: pool.abandoned_count == 2)
        assert await pool.run(lambda: "again") == "again"

        for stuck in left:
            stuck.go.set()
        await until(lambda: pool.abandoned_count == 0)


async def test_many_short_calls_all_come_back() -> None:
    with threads(max_threads=4) as pool:
        assert await asyncio.gather(*(pool.run(lambda n=n: n) for n in range(500))) == list(range(500))


def test_a_thread_may_outlive_its_event_loop() -> None:
    stuck = Stuck()
    with threads() as pool:

        async def leave() -> None:
            await stuck.abandon(pool)

        asyncio.run(leave())
        stuck.go.set()
        assert stuck.ended.wait(20)
        assert asyncio.run(pool.run(lambda: "another loop")) == "another loop"
