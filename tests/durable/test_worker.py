"""Workers: they share the runs of a store, go on with what was answered or left, and stop without losing anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from surehand import Agent, DefinitionError, Runtime, Worker, tool
from surehand.agent.run_storage import LEFT_REASON
from surehand.runtime.worker import MAX_ATTEMPTS
from surehand.store.tables.inbox import InboxEvent
from surehand.testing import ManualClock, ScriptedModel, runtime
from tests.durable.background_agents import Desk, wait_for_end, wait_for_run_end, wait_for_run_status
from tests.durable.conftest import ON_BOTH_DATABASES

pytestmark = pytest.mark.timeout(60)  # the first test on PostgreSQL starts the server


@asynccontextmanager
async def work(address: str, *agents: Agent, **options: Any) -> AsyncIterator[Runtime]:
    """A process with a runtime and a worker."""
    async with Runtime(store=address) as opened, Worker(opened, agents=agents, **options):
        yield opened


@ON_BOTH_DATABASES
async def test_a_run_goes_on_when_a_process_without_the_agent_answers(address: str) -> None:
    desk = Desk(confirm=True)
    async with work(address, desk.agent()) as here, Runtime(store=address) as elsewhere:
        event = await elsewhere.trigger("clerk", "Hello")
        waiting = await wait_for_run_status(here, event, "waiting")
        [wait] = await elsewhere.pending()
        await elsewhere.approve(wait.call_id)
        ended = await wait_for_end(elsewhere, event)

    assert (waiting.status, waiting.reason) == ("waiting", "Waiting for send.")
    assert (ended.status, ended.run_status) == ("done", "done")
    assert desk.sent == ["Hello"]
    assert desk.prompts == ["Hello"]


@ON_BOTH_DATABASES
async def test_two_workers_share_the_runs_and_drive_none_twice(address: str) -> None:
    desk = Desk()
    places = [0, 0]
    all_places_are_taken = asyncio.Barrier(6)

    async def wait(text: str) -> None:
        await all_places_are_taken.wait()

    desk.before_sending = wait  # type: ignore[method-assign]
    async with work(address, desk.agent(), concurrent=3) as here, work(address, desk.agent(), concurrent=3) as there:
        for number, each in enumerate([here, there]):
            _ = each.listen(lambda event, number=number: _count_starts(places, number, event))
        events = await asyncio.gather(*(here.trigger("clerk", f"letter {number}") for number in range(24)))
        for event in events:
            await wait_for_end(there, event)

    assert sorted(desk.sent) == sorted(f"letter {number}" for number in range(24))
    assert len(desk.prompts) == 24
    assert places == [12, 12]


def _count_starts(places: list[int], number: int, event: Any) -> None:
    if type(event).__name__ == "RunStarted":
        places[number] += 1


async def test_a_worker_drives_only_so_many_runs_at_once(address: str) -> None:
    desk = Desk()
    may_send = asyncio.Event()
    begun: asyncio.Queue[str] = asyncio.Queue()

    async def wait(text: str) -> None:
        begun.put_nowait(text)
        await may_send.wait()

    desk.before_sending = wait  # type: ignore[method-assign]
    async with Runtime(store=address) as opened, Worker(opened, agents=[desk.agent()], concurrent=2) as worker:
        events = [await opened.trigger("clerk", f"letter {number}") for number in range(5)]
        await begun.get()
        await begun.get()
        driven = worker.driven_runs
        may_send.set()
        for event in events:
            await wait_for_end(opened, event)

    assert driven == 2
    assert desk.most_running == 2


async def test_a_run_whose_model_fails_ends_its_event_as_failed_and_the_worker_goes_on(file: str) -> None:
    agent = Agent("clerk", model=ScriptedModel("Good."), tools=[])  # has one reply, and fails after that
    async with work(file, agent, concurrent=1) as opened:
        events = [await opened.trigger("clerk", "Hello") for _ in range(2)]
        first, second = [await wait_for_end(opened, event) for event in events]

    assert (first.status, first.reason) == ("done", "")
    assert (second.status, second.run_status) == ("failed", "failed")
    assert "has 1 replies" in second.reason


async def test_a_failed_attempt_is_repeated_after_a_back_off_until_the_run_is_given_up(file: str) -> None:
    attempts: list[float] = []
    clock = ManualClock()

    def crash(answer: dict[str, Any]) -> dict[str, Any]:
        attempts.append(clock.time())
        raise RuntimeError("The type has a bug.\nSecond line.")

    broken = Agent("broken", model=ScriptedModel("{}"), tools=[], output=Annotated[dict, AfterValidator(crash)])
    clerk = Agent("clerk", model=ScriptedModel(*["Good."] * 9), tools=[])
    async with runtime(store=file, clock=clock) as rt, Worker(rt, agents=[broken, clerk]):
        event = await rt.trigger("broken", "Hello")
        seen = await _advance_until_end(rt, clock, event)
        other = await rt.trigger("clerk", "Hello")
        await wait_for_end(rt, other)

    last = seen[-1]
    assert len(attempts) == MAX_ATTEMPTS
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    # No upper bound: the test advances the clock while the store's thread is still busy with an attempt.
    for pause, back_off in zip(pauses, [2, 8, 32, 128, 512], strict=True):
        assert pause >= back_off
    assert sorted({each.attempts for each in seen}) == list(range(MAX_ATTEMPTS + 1))
    assert (last.status, last.run_status) == ("failed", "failed")
    assert last.reason == f"Given up after {MAX_ATTEMPTS} failed attempts. RuntimeError: The type has a bug."


async def _advance_until_end(rt: Any, clock: ManualClock, event: InboxEvent) -> list[InboxEvent]:
    """Let the time pass until the run of an event has ended; returns what was seen of the event."""
    seen: list[InboxEvent] = [event]
    while seen[-1].status == "waiting":
        await clock.advance(0.5)
        await asyncio.sleep(0.001)  # the store works in a thread, which has its own time
        found = await rt.find_event(event.agent, event.id)
        seen.append(found)
    return seen


async def test_a_run_that_fails_once_goes_on(file: str) -> None:
    clock = ManualClock()
    failures = [RuntimeError("The type has a bug.")]

    def crash_once(answer: dict[str, Any]) -> dict[str, Any]:
        if failures:
            raise failures.pop()
        return answer

    model = ScriptedModel("{}")
    agent = Agent("clerk", model=model, tools=[], output=Annotated[dict, AfterValidator(crash_once)])
    async with runtime(store=file, clock=clock) as rt, Worker(rt, agents=[agent]):
        event = await rt.trigger("clerk", "Hello")
        seen = await _advance_until_end(rt, clock, event)

    first_failure = next(each for each in seen if each.attempts and each.status == "waiting")
    assert first_failure.reason == "RuntimeError: The type has a bug."
    assert (seen[-1].status, seen[-1].attempts, seen[-1].reason) == ("done", 1, "")
    assert len(model.requests) == 1


@ON_BOTH_DATABASES
async def test_a_worker_that_stops_finishes_the_step_and_the_next_one_goes_on(address: str) -> None:
    desk = Desk()
    begun, may_send = asyncio.Event(), asyncio.Event()

    async def wait(text: str) -> None:
        begun.set()
        await may_send.wait()

    desk.before_sending = wait  # type: ignore[method-assign]
    async with Runtime(store=address) as first:
        worker = Worker(first, agents=[desk.agent()])
        await worker.__aenter__()
        event = await first.trigger("clerk", "Hello")
        await begun.wait()
        stopping = asyncio.create_task(worker.__aexit__(None, None, None))
        await asyncio.sleep(0)
        may_send.set()
        await stopping
        assert first.store is not None
        left = await first.store.runs.find(event.run_id or "")
        steps = await first.store.steps.list(event.run_id or "")

        assert left is not None
        assert (left.state, left.owner) == ("running", None)
        assert [[call.outcome is None for call in step.calls] for step in steps] == [[False]]
        async with work(address, desk.agent()) as second:
            ended = await wait_for_end(second, event)

    assert ended.status == "done"
    assert desk.sent == ["Hello"]
    assert desk.prompts == ["Hello"]


async def test_a_step_that_takes_too_long_is_interrupted_and_goes_on_in_another_process(file: str) -> None:
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def think(_: Any) -> str:
        asked.put_nowait("again")
        await asyncio.Event().wait()
        return ""

    async with work(file, Agent("clerk", model=ScriptedModel(think), tools=[]), shutdown_seconds=0.01) as first:
        event = await first.trigger("clerk", "Hello")
        await asked.get()
    async with work(file, Agent("clerk", model=ScriptedModel("Good."), tools=[])) as second:
        ended = await wait_for_end(second, event)

    assert (ended.status, ended.attempts) == ("done", 0)


async def leave_stream(stream: AsyncGenerator[Any], asked: asyncio.Event) -> None:
    async for _ in stream:
        await asked.wait()
        break
    await stream.aclose()


async def cancel_task(stream: AsyncGenerator[Any], asked: asyncio.Event) -> None:
    async def read() -> None:
        async for _ in stream:
            pass

    task = asyncio.create_task(read())
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@ON_BOTH_DATABASES
@pytest.mark.parametrize("leave", [leave_stream, cancel_task])
async def test_a_run_that_its_caller_has_left_goes_on_when_it_is_resumed_and_not_before(
    address: str, leave: Callable[..., Any]
) -> None:
    desk = Desk()
    asked = asyncio.Event()

    async def think(_: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    clerk = Agent("clerk", model=ScriptedModel(think), tools=[])
    boss = Agent("boss", model=ScriptedModel([("agent__clerk", {"prompt": "Go"})]), tools=[], agents=[clerk])
    async with Runtime(store=address) as left:
        await leave(boss.stream("Hello", runtime=left, run_id="r1"), asked)
    clerk = desk.agent()
    boss = Agent("boss", model=ScriptedModel(lambda messages: messages[-1]["content"]), tools=[], agents=[clerk])
    async with work(address, boss) as here:
        # A worker looks at interrupted runs before it starts a new one: it has seen those of the boss and the clerk.
        await wait_for_end(here, await here.trigger("clerk", "Ping"))
        assert here.store is not None
        row = await here.store.runs.find("r1")
        assert row is not None
        assert (row.state, row.reason) == ("running", LEFT_REASON)
        assert desk.sent == ["Ping"]
        run = await boss.resume("r1", runtime=here)

    assert (run.status, desk.sent) == ("done", ["Ping", "Go"])


async def test_a_run_that_was_resumed_and_then_lost_its_process_goes_on_in_a_worker(file: str) -> None:
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def think(_: Any) -> str:
        asked.put_nowait("asked")
        await asyncio.Event().wait()
        return ""

    stuck = Agent("clerk", model=ScriptedModel(think, think), tools=[])
    async with Runtime(store=file) as first:
        await cancel_run_task(stuck.run("Hello", runtime=first, run_id="r1"), asked)
        resumed = asyncio.create_task(stuck.resume("r1", runtime=first))
        await asked.get()
        assert stuck.hand_back("r1")
        resumed.cancel()
        await asyncio.wait({resumed})
    async with work(file, Agent("clerk", model=ScriptedModel("Good."), tools=[])) as second:
        assert second.store is not None
        while (row := await second.store.runs.find("r1")) is None or not row.has_ended:
            await second.clock.sleep(0)

    assert row.state == "done"


async def cancel_run_task(run: Any, asked: asyncio.Queue[str]) -> None:
    task = asyncio.create_task(run)
    await asked.get()
    task.cancel()
    await asyncio.wait({task})


async def test_an_approved_call_of_a_run_starts_no_second_run(file: str) -> None:
    desk = Desk(confirm=True)
    async with work(file, desk.agent()) as opened:
        event = await opened.trigger("clerk", "Hello")
        await wait_for_run_status(opened, event, "waiting")
        [wait] = await opened.pending()
        await opened.approve(wait.call_id)
        await wait_for_end(opened, event)
        assert opened.store is not None
        while await opened.store.inbox.count("clerk"):  # noqa: ASYNC110 - the worker has no event for this
            await asyncio.sleep(0.02)
        result = await opened.find_event("clerk", f"tr:{wait.call_id}")
        runs = await opened.store.runs.latest("clerk")

    assert len(runs) == 1
    assert result is not None
    assert (result.type, result.status, result.run_id) == ("tool_result", "done", event.run_id)


async def test_results_without_a_run_messages_and_plans_wake_an_agent_too(file: str) -> None:
    ask = tool.client("ask_boss", "Ask the boss.", reply="later")
    heard: list[str] = []
    heard_one = asyncio.Semaphore(0)

    def hear(messages: list[dict[str, Any]]) -> str:
        heard.append(messages[-1]["content"])
        heard_one.release()
        return "Understood."

    agent = Agent("clerk", model=ScriptedModel(*[hear] * 9), tools=[])
    async with Runtime(ask, store=file) as opened, Worker(opened, agents=[agent], concurrent=1):
        store = opened.store
        assert store is not None
        asked = await opened.scope(agent="clerk").call("ask_boss")
        await opened.settle(asked.call_id, {"granted": True})  # type: ignore[union-attr]
        await store.inbox.push(
            "clerk", "plan:p1:1", "plan", {"planId": "p1", "name": "tidy", "instruction": "Tidy up."}
        )
        space = await store.spaces.create("office")
        await store.spaces.join("office", "ada", name="Ada")
        await store.spaces.join("office", "clerk", kind="agent")
        message = await store.spaces.post("office", "Where are you?", sender="ada")
        await store.inbox.push("clerk", "odd", "plan", "not what a plan looks like")
        for _ in range(4):
            await heard_one.acquire()

    call_id = asked.call_id  # type: ignore[union-attr]
    assert space is not None
    assert sorted(heard) == sorted(
        [
            f'[Tool Result: ask_boss] (callId: {call_id}) {{"granted":true}}',
            "[Plan: tidy] (planId: p1) Tidy up.",
            f"[Message: Ada] (spaceId: office, messageId: {message.message_id}) Where are you?",
            "not what a plan looks like",
        ]
    )


async def test_a_worker_runs_the_agents_that_its_agents_call(file: str) -> None:
    desk = Desk()
    boss = Agent("boss", model=ScriptedModel("Good."), tools=[], agents=[desk.agent()])
    async with work(file, boss) as opened:
        await wait_for_end(opened, await opened.trigger("clerk", "Hello"))

    assert desk.sent == ["Hello"]


async def test_a_worker_says_what_it_lacks(file: str) -> None:
    agent = Desk().agent()
    opened = Runtime(store=file)
    with pytest.raises(RuntimeError, match="open it first"):
        async with Worker(opened, agents=[agent]):
            pass
    with pytest.raises(DefinitionError, match="without agents"):
        Worker(opened, agents=[])
    with pytest.raises(ValueError, match="positive integer"):
        Worker(opened, agents=[agent], concurrent=0)


async def test_a_run_whose_calls_are_answered_together_goes_on_after_all_answers(file: str) -> None:
    @tool(confirm=True)
    async def send(text: str) -> str:
        """Send a letter."""
        return f"sent {text}"

    two_letters = [("send", {"text": "one"}), ("send", {"text": "two"})]
    busy = Agent("busy", model=ScriptedModel(two_letters, "Both are answered."), tools=[send])
    other = Agent("other", model=ScriptedModel([("send", {"text": "three"})], "Sent."), tools=[send])
    async with Runtime(store=file) as opened, Worker(opened, agents=[busy, other]) as worker:
        run = await busy.run("Send two.", runtime=opened)
        other_run = await other.run("Send one.", runtime=opened)
        with worker.leave_alone(run.id):
            await opened.approve(run.waiting[0].call_id)
            await opened.approve(other_run.waiting[0].call_id)
            assert (await wait_for_run_end(opened, other_run.id)).state == "done"  # the worker has looked for work
            await opened.reject(run.waiting[1].call_id)
        ended = await wait_for_run_end(opened, run.id)

    assert (ended.state, ended.report["text"]) == ("done", "Both are answered.")
    assert len(busy.model.requests) == 2
