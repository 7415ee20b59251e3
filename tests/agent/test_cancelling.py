"""Cancelling a run, or the call that started it, ends everything below: runs, calls that wait, and calls that run."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from surehand import Agent, Runtime, events, tool
from surehand.core.ids import derive_run_id
from surehand.testing import ScriptedModel

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def booked():
    return []


@pytest.fixture
def book(booked):
    @tool(confirm=True, effects={"write"})
    async def book(flight: str) -> str:
        """Book a flight."""
        booked.append(flight)
        return f"Booked {flight}."

    return book


class Work:
    """A tool that works until it is cancelled."""

    def __init__(self):
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.tool = tool(self.work)

    async def work(self) -> None:
        """Work for ever."""
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


def calls(name):
    return [(f"agent__{name}", {"prompt": "Look."})]


def record_calls(runtime, tool_name):
    """The ids of the calls of a tool that are made from now on."""
    ids = []
    runtime.listen(
        lambda event: (
            ids.append(event.call_id) if isinstance(event, events.CallStarted) and event.tool == tool_name else None
        )
    )
    return ids


def build_family(book, *, child=None, boss=None):
    """A boss, who calls a manager, who calls a clerk, who books."""
    clerk = Agent("clerk", model=child or ScriptedModel([("book", {"flight": "TW7"})]), tools=[book])
    manager = Agent("manager", model=ScriptedModel(calls("clerk")), tools=[], agents=[clerk])
    model = boss or ScriptedModel(calls("manager"), lambda messages: messages[-1]["content"])
    return Agent("boss", model=model, tools=[], agents=[manager])


async def test_cancelling_a_call_that_waits_for_a_run_ends_the_runs_below(store, book, booked):
    agent = build_family(book)
    async with Runtime(store=store) as runtime:
        outer = record_calls(runtime, "agent__manager")
        inner = record_calls(runtime, "agent__clerk")
        waiting = await agent.run("Go", runtime=runtime, user="ada", session="s1")
        [wait] = waiting.waiting
        assert await runtime.cancel(outer[0])

        assert await runtime.pending() == []
        assert (await runtime.approve(wait.call_id)).code == "conflict"
        assert [(await runtime.result(each, timeout=0)).code for each in (*outer, *inner)] == ["cancelled"] * 2
        run = await agent.resume(waiting.id, runtime=runtime)

    assert (run.status, "cancelled" in run.text, booked) == ("done", True, [])


async def test_cancelling_a_run_closes_what_the_runs_below_wait_for(store, book, booked):
    agent = build_family(book)
    async with Runtime(store=store) as runtime:
        waiting = await agent.run("Go", runtime=runtime, user="ada", session="s1")
        assert await agent.cancel(waiting.id, runtime=runtime)
        run = await agent.resume(waiting.id, runtime=runtime)

        assert await runtime.pending() == []
        assert (await runtime.approve(waiting.waiting[0].call_id)).code == "conflict"
    assert (run.status, booked) == ("stopped", [])


async def test_cancelling_all_calls_of_a_user_ends_the_runs_that_these_wait_for(store, book, booked):
    child = ScriptedModel([("book", {"flight": "TW7"})])
    agent = build_family(book, child=child)
    async with Runtime(store=store) as runtime:
        waiting = await agent.run("Go", runtime=runtime, user="ada", session="s1")
        assert not await runtime.scope(user="eve").cancel()
        assert len(await runtime.pending()) == 1
        assert await runtime.scope(user="ada").cancel()
        assert await runtime.pending() == []
        run = await agent.resume(waiting.id, runtime=runtime)

    assert (run.status, len(child.requests), booked) == ("done", 1, [])


async def test_a_person_cannot_cancel_the_run_of_another_one(store, book):
    agent = build_family(book)
    async with Runtime(store=store) as runtime:
        waiting = await agent.run("Go", runtime=runtime, user="ada", session="s1")
        [wait] = waiting.waiting
        for scope in (runtime.scope(user="eve"), runtime.scope(user="ada", session="s2")):
            assert not await scope.cancel_run(wait.turn, "Mine.")
            assert not await scope.cancel(wait.call_id)

        assert [each.call_id for each in await runtime.pending()] == [wait.call_id]


async def test_another_process_without_the_agents_can_cancel_them(tmp_path, book, booked):
    agent = build_family(book)
    async with Runtime(store=str(tmp_path / "a.db")) as runtime, Runtime(store=str(tmp_path / "a.db")) as other:
        outer = record_calls(runtime, "agent__manager")
        waiting = await agent.run("Go", runtime=runtime)
        assert await other.cancel(outer[0])

        assert await runtime.pending() == []
        assert (await agent.resume(waiting.id, runtime=runtime)).status == "done"
    assert booked == []


async def test_cancelling_a_call_whose_run_is_at_work_ends_the_run(store):
    work = Work()
    clerk = Agent("clerk", model=ScriptedModel([("work", {})]), tools=[work.tool])
    boss = ScriptedModel(calls("clerk"), lambda messages: messages[-1]["content"])
    agent = Agent("boss", model=boss, tools=[], agents=[clerk])
    async with Runtime(store=store) as runtime:
        outer = record_calls(runtime, "agent__clerk")
        task = asyncio.create_task(agent.run("Go", runtime=runtime))
        await work.started.wait()
        assert await runtime.cancel(outer[0])
        run = await task

        assert (run.status, work.cancelled.is_set()) == ("done", True)
        assert "cancelled" in run.text
        assert (await runtime.store.runs.find(derive_run_id(outer[0]))).state == "stopped"


async def test_the_time_limit_of_a_call_ends_its_run(store, book):
    clerk = Agent("clerk", model=ScriptedModel([("work", {}), ("book", {"flight": "TW7"})]), tools=[Work().tool, book])
    async with Runtime(clerk, store=store) as runtime:
        outcome = await runtime.call("agent__clerk", {"prompt": "Look."}, timeout=0.5)

        assert outcome.code == "timed_out"
        assert await runtime.pending() == []
        assert (await runtime.store.runs.find(derive_run_id(outcome.meta.call_id))).state == "stopped"


async def test_a_process_that_drives_a_run_stops_when_another_one_cancels_it(tmp_path):
    work = Work()
    clerk = Agent("clerk", model=ScriptedModel([("work", {})]), tools=[work.tool])
    agent = Agent("boss", model=ScriptedModel(calls("clerk")), tools=[], agents=[clerk])
    address = str(tmp_path / "a.db")
    async with Runtime(store=address) as runtime, Runtime(store=address) as other:
        task = asyncio.create_task(agent.run("Go", runtime=runtime, run_id="r1"))
        await work.started.wait()
        assert await Agent("boss", model=ScriptedModel(), agents=[clerk]).cancel("r1", runtime=other)
        run = await task

        assert (run.status, work.cancelled.is_set()) == ("stopped", True)
        assert (await clerk.resume(derive_run_id("r1.0.0"), runtime=runtime)).status == "stopped"


async def test_a_run_goes_on_whose_caller_left_its_stream(tmp_path):
    work = Work()
    clerk = Agent("clerk", model=ScriptedModel([("work", {})], "Found."), tools=[work.tool])
    agent = Agent("boss", model=ScriptedModel(calls("clerk"), "All done."), tools=[], agents=[clerk])
    async with Runtime(store=str(tmp_path / "a.db")) as runtime:
        stream = agent.stream("Go", runtime=runtime, run_id="r1")
        async for event in stream:
            if isinstance(event, events.CallStarted) and event.tool == "work":
                await work.started.wait()
                break
        await stream.aclose()
        assert work.cancelled.is_set()
        run = await agent.resume("r1", runtime=runtime)

    assert (run.status, run.messages[2]["content"]) == ("done", "Found.")


async def test_what_a_dead_process_has_cancelled_is_ended_by_another_one(tmp_path, book, booked):
    agent = build_family(book)
    address = str(tmp_path / "a.db")
    async with Runtime(store=address) as runtime:
        waiting = await agent.run("Go", runtime=runtime, run_id="r1")
    # As far as a process comes that is killed right after its first write.
    with sqlite3.connect(address) as database:
        database.execute("UPDATE runs SET state = 'stopped', fence = fence + 1 WHERE run_id = 'r1'")
    database.close()
    async with Runtime(store=address) as other:
        ended = await other.result(waiting.waiting[0].call_id)

        assert ended.code == "cancelled"
        assert await other.pending() == []
    assert booked == []


async def test_the_run_of_a_cancelled_run_is_not_driven_on(tmp_path, book):
    child = ScriptedModel([("book", {"flight": "TW7"})], "Booked.")
    agent = build_family(book, child=child)
    [manager] = agent.agents
    [clerk] = manager.agents
    address = str(tmp_path / "a.db")
    async with Runtime(store=address) as runtime:
        waiting = await agent.run("Go", runtime=runtime, run_id="r1")
        [wait] = waiting.waiting
        with sqlite3.connect(address) as database:
            database.execute(
                "UPDATE runs SET state = 'stopped', ended_at = 1, fence = fence + 1 WHERE agent = 'manager'"
            )
        database.close()
        run = await clerk.resume(wait.turn, runtime=runtime)

    assert (run.status, len(child.requests)) == ("stopped", 1)


PROGRAM = '''
import asyncio, os, signal, sys
from itertools import count
from surehand import Agent, Runtime, tool
from surehand.store.sqlite.database import SqliteDatabase
from surehand.testing import ScriptedModel

ADDRESS, KILL_AT = sys.argv[1], int(sys.argv[2])
writes = count(1)
write = SqliteDatabase.write

async def counted_write(self, *args, **options):
    result = await write(self, *args, **options)
    if next(writes) == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

@tool(confirm=True, effects={"write"})
async def book(flight: str) -> str:
    """Book a flight."""
    return "Booked."

async def main():
    clerk = Agent("clerk", model=ScriptedModel([("book", {"flight": "TW7"})]), tools=[book])
    boss = Agent("boss", model=ScriptedModel([("agent__clerk", {"prompt": "Book."})]), tools=[], agents=[clerk])
    async with Runtime(boss, store=ADDRESS) as runtime:
        await boss.run("Go", runtime=runtime, run_id="r1")
        SqliteDatabase.write = counted_write
        await runtime.cancel("r1.0.0")
        SqliteDatabase.write = write
        print(next(writes) - 1)

asyncio.run(main())
'''


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_process_that_is_killed_while_it_cancels_leaves_nothing_half_cancelled(tmp_path):
    kill_at = 1
    while True:
        address = str(tmp_path / f"{kill_at}.db")
        command = [sys.executable, "-c", PROGRAM, address, str(kill_at)]
        ended = await asyncio.to_thread(
            subprocess.run, command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        async with Runtime(store=address) as other:
            outer = await other.result("r1.0.0", timeout=0)
            if not outer.ok and getattr(outer, "code", "") == "cancelled":
                assert (await other.result("r1.0.0.run.0.0")).code == "cancelled"
                assert await other.pending() == []
            else:
                assert [wait.tool for wait in await other.pending()] == ["book"]
        if ended.returncode == 0:
            break
        kill_at += 1
    assert kill_at > 2
