"""A run ends at its limits, with one more turn in which the model wraps up; the number of requests is bounded."""

import asyncio

import pytest

from surehand import Agent, Limits, Runtime, tool
from surehand.agent.loop import WRAP_UP_SECONDS
from surehand.agent.models.base import ModelError
from surehand.core.events import CallEnded, Event
from surehand.testing import ManualClock, ScriptedModel
from tests.agent.conftest import add

ADD = [("add", {"a": 1, "b": 1})]


async def test_at_the_limit_of_steps_the_model_wraps_up(store):
    model = ScriptedModel(ADD, ADD, "What I have: 2.")
    async with Runtime(add, store=store) as runtime:
        agent = Agent("counter", model=model, limits=Limits(steps=2))
        run = await agent.run("Count", runtime=runtime)

        assert (run.status, run.text, run.reason) == ("stopped", "What I have: 2.", "The limit of 2 steps is reached.")
        assert run.usage.requests == 3
        told = model.requests[2].messages[-1]["content"]
        assert "The limit of 2 steps is reached. Left: 0 of 2 steps." in told
        assert await agent.resume(run.id, runtime=runtime) == run


@pytest.mark.parametrize("reply", [ModelError("The server is down."), lambda messages: 1 / 0])
async def test_a_run_at_a_limit_is_stopped_also_if_the_model_cannot_wrap_up(store, reply):
    heard = []
    model = ScriptedModel("Part one.", reply)
    async with Runtime(add, store=store) as runtime:
        agent = Agent("counter", model=model, limits=Limits(steps=1), output=int)
        agent.add_hook("on_error", lambda error, ctx: heard.append(str(error)) or "Try again.")
        run = await agent.run("Count", runtime=runtime)

        assert (run.status, run.text, len(model.requests)) == ("stopped", "Part one.", 2)
        assert run.reason == f"The limit of 1 steps is reached. The model did not wrap up: {heard[0]}"
        assert await agent.resume(run.id, runtime=runtime) == run


async def test_a_model_that_takes_too_long_to_wrap_up_does_not_hide_which_limit_was_reached():
    clock = ManualClock()

    async def hang(messages):
        await clock.advance(WRAP_UP_SECONDS)
        await asyncio.Event().wait()

    async with Runtime(add, clock=clock) as runtime:
        agent = Agent("counter", model=ScriptedModel(ADD, hang), limits=Limits(steps=1, seconds=1000))
        run = await agent.run("Count", runtime=runtime)

    assert run.status == "stopped"
    assert run.reason == "The limit of 1 steps is reached. The model did not wrap up within 60 seconds."


async def test_the_calls_of_the_last_turn_do_not_run():
    ran = []

    @tool
    async def send() -> str:
        """Send a letter."""
        ran.append(1)
        return "sent"

    model = ScriptedModel([("send", {})], [("send", {})])
    run = await Agent("writer", model=model, tools=[send], limits=Limits(steps=1)).run("Write")

    assert run.status == "stopped"
    assert ran == [1]
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(tokens=3), "The limit of 3 tokens is reached."),
        (Limits(cost=0.1), "The limit of $0.1 is reached."),
    ],
)
async def test_tokens_and_cost_are_limits(limits, reason):
    model = ScriptedModel(ADD, "Enough.", cost=0.2)

    run = await Agent("counter", model=model, tools=[add], limits=limits).run("Count")

    assert (run.status, run.text, run.reason) == ("stopped", "Enough.", reason)


async def test_a_limit_on_the_cost_of_a_model_without_a_price_is_a_warning_once(store, caplog):
    model = ScriptedModel(ADD, "Done.", "Done.")
    agent = Agent("counter", model=model, limits=Limits(cost=0.1))
    async with Runtime(add, store=store) as runtime:
        run = await agent.run("Count", runtime=runtime)
        await agent.run("Count again", runtime=runtime)

    assert run.status == "done"
    [warning] = caplog.messages
    assert warning.startswith("The limit of $0.1 of the agent counter does not hold: scripted does not say")


async def test_a_limit_on_the_cost_of_a_model_with_a_price_is_no_warning(caplog):
    await Agent("counter", model=ScriptedModel("Done.", cost=0.0), limits=Limits(cost=0.1)).run("Count")
    await Agent("counter", model=ScriptedModel("Done.")).run("Count")

    assert caplog.messages == []


async def test_time_in_calls_counts_and_the_model_wraps_up():
    clock = ManualClock()

    @tool(timeout="off")
    async def think() -> str:
        """Think."""
        await clock.advance(11)
        return "thought"

    model = ScriptedModel([("think", {})], "Enough.")
    async with Runtime(think, clock=clock) as runtime:
        run = await Agent("thinker", model=model, limits=Limits(seconds=10)).run("Think", runtime=runtime)

    assert (run.status, run.text, run.reason) == ("stopped", "Enough.", "The limit of 10 seconds is reached.")


async def test_the_time_limit_ends_a_request_in_flight(store):
    clock = ManualClock()
    is_cancelled = asyncio.Event()

    async def hang(messages):
        advance = asyncio.create_task(clock.advance(11))
        try:
            await asyncio.Event().wait()
        finally:
            is_cancelled.set()
            await advance

    async with Runtime(add, clock=clock, store=store) as runtime:
        agent = Agent("slow", model=ScriptedModel(ADD, hang), limits=Limits(seconds=10))
        run = await agent.run("Go", runtime=runtime)

    assert (run.status, run.reason) == ("stopped", "The limit of 10 seconds is reached.")
    assert is_cancelled.is_set()


async def test_the_time_limit_holds_for_a_run_that_cleans_up_after_a_cancellation(store):
    clock = ManualClock()
    is_working = asyncio.Event()

    async def hang(messages):
        await clock.advance(11)
        await asyncio.Event().wait()

    async with Runtime(clock=clock, store=store) as runtime:

        async def work():
            try:
                is_working.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                agent = Agent("slow", model=ScriptedModel(hang), tools=[], limits=Limits(seconds=10))
                return await agent.run("Report", runtime=runtime)

        task = asyncio.create_task(work())
        await is_working.wait()
        task.cancel()
        run = await task

    assert (run.status, run.reason) == ("stopped", "The limit of 10 seconds is reached.")


async def test_the_time_limit_ends_running_calls_and_the_model_wraps_up(store):
    clock = ManualClock()
    has_added = asyncio.Event()
    is_cancelled = asyncio.Event()

    def hear(event: Event) -> None:
        if isinstance(event, CallEnded) and event.tool == "add":
            has_added.set()

    async def end_time() -> None:
        await has_added.wait()
        await clock.advance(11)

    @tool(timeout="off")
    async def hang() -> None:
        """Hang."""
        advance = asyncio.create_task(end_time())
        try:
            await asyncio.Event().wait()
        finally:
            is_cancelled.set()
            await advance

    model = ScriptedModel([*ADD, ("hang", {})], "As far as I came.")
    async with Runtime(add, hang, clock=clock, store=store) as runtime:
        _ = runtime.listen(hear)
        run = await Agent("slow", model=model, limits=Limits(seconds=10)).run("Go", runtime=runtime)

    results = [message["content"] for message in run.messages if message["role"] == "tool"]
    assert (run.status, run.text, run.reason) == ("stopped", "As far as I came.", "The limit of 10 seconds is reached.")
    assert is_cancelled.is_set()
    assert results == [
        "2",
        "(tool failed: hang was stopped: the limit of 10 seconds of this run is reached.)",
    ]


async def test_the_time_limit_ends_the_run_of_an_agent_that_it_called(store):
    clock = ManualClock()

    @tool(timeout="off")
    async def hang() -> None:
        """Hang."""
        advance = asyncio.create_task(clock.advance(11))
        try:
            await asyncio.Event().wait()
        finally:
            await advance

    clerk = Agent("clerk", model=ScriptedModel([("hang", {})]), tools=[hang])
    model = ScriptedModel([("agent__clerk", {"prompt": "Look."})], "I had to stop.")
    agent = Agent("boss", model=model, tools=[], agents=[clerk], limits=Limits(seconds=10))
    async with Runtime(clock=clock, store=store) as runtime:
        ended = []
        runtime.listen(lambda event: ended.append(event) if isinstance(event, CallEnded) else None)
        run = await agent.run("Go", runtime=runtime)
        outer = next(event for event in ended if event.tool == "agent__clerk")
        child = await runtime.store.runs.find(f"{outer.call_id}.run")

    assert (run.status, run.text, outer.outcome.code) == ("stopped", "I had to stop.", "timed_out")
    assert child.state == "stopped"


async def test_time_in_which_an_approver_thinks_does_not_count(store):
    clock = ManualClock()

    async def approve_slowly(wait):
        await clock.advance(60)
        return True

    @tool(confirm=True, timeout="off")
    async def pay() -> str:
        """Pay."""
        await clock.advance(5)
        return "paid"

    model = ScriptedModel([("pay", {})], "Paid.")
    async with Runtime(pay, clock=clock, store=store, approver=approve_slowly) as runtime:
        run = await Agent("clerk", model=model, limits=Limits(seconds=10)).run("Go", runtime=runtime)

    assert (run.status, run.text) == ("done", "Paid.")


async def test_a_call_that_a_person_approves_after_the_time_limit_is_ended(store):
    clock = ManualClock()

    async def approve(wait):
        await clock.advance(5)
        return True

    @tool(confirm=True, timeout="off")
    async def hang() -> None:
        """Hang."""
        advance = asyncio.create_task(clock.advance(20))
        try:
            await asyncio.Event().wait()
        finally:
            await advance

    model = ScriptedModel([("hang", {})], "I had to stop.")
    async with Runtime(hang, clock=clock, store=store, approver=approve) as runtime:
        run = await Agent("clerk", model=model, limits=Limits(seconds=10)).run("Go", runtime=runtime)

    assert (run.status, run.text) == ("stopped", "I had to stop.")


async def test_time_in_which_a_run_waits_does_not_count(store):
    clock = ManualClock()
    ask = tool.client("ask", "Ask the person.", parameters={}, reply="later")
    model = ScriptedModel([("ask", {})], "Thanks.")
    agent = Agent("clerk", model=model, limits=Limits(seconds=10))
    async with Runtime(ask, clock=clock, store=store) as runtime:
        run = await agent.run("Ask", runtime=runtime)
        await clock.advance(60)
        await runtime.settle(run.waiting[0].call_id, "yes")
        run = await agent.resume(run.id, runtime=runtime)

    assert (run.status, run.text) == ("done", "Thanks.")


async def test_limits_count_over_the_whole_run_in_every_process(tmp_path):
    store = str(tmp_path / "agent.db")
    ask = tool.client("ask", "Ask the person.", parameters={}, reply="later")
    limits = Limits(steps=2)
    async with Runtime(ask, add, store=store) as runtime:
        run = await Agent("clerk", model=ScriptedModel([("ask", {})]), limits=limits).run("Ask", runtime=runtime)
        await runtime.settle(run.waiting[0].call_id, "yes")

    async with Runtime(ask, add, store=store) as runtime:
        agent = Agent("clerk", model=ScriptedModel(ADD, "Enough."), limits=limits)
        run = await agent.resume(run.id, runtime=runtime)

    assert (run.status, run.usage.requests, run.usage.calls) == ("stopped", 3, 2)


@pytest.mark.parametrize(
    "reply",
    [ADD, [("unknown", {})], [("add", "{")], [("add", {"a": "x"})], [("denied", {})], [("add", {"a": 1, "b": 1})] * 50],
)
async def test_an_endless_model_is_asked_a_bounded_number_of_times(store, reply):
    @tool
    async def denied() -> None:
        """Never allowed."""

    policy = [{"tools": "denied", "decision": "deny"}]
    model = ScriptedModel(*[reply] * 100)
    async with Runtime(add, denied, store=store, policy=policy) as runtime:
        run = await Agent("counter", model=model, limits=Limits(steps=5)).run("Go", runtime=runtime)

    assert run.status == "stopped"
    assert len(model.requests) == 6


async def test_792_calls_in_one_turn_all_get_their_result(store):
    model = ScriptedModel([("add", {"a": number, "b": 0}) for number in range(792)], "Done.")
    async with Runtime(add, store=store) as runtime:
        run = await Agent("counter", model=model).run("Go", runtime=runtime)

    results = [message["content"] for message in run.messages if message["role"] == "tool"]
    assert results == [str(number) for number in range(792)]
    assert run.status == "done"


async def test_a_spent_budget_of_calls_ends_the_run_instead_of_a_loop(store):
    model = ScriptedModel(*[ADD * 2] * 3, "Enough.")
    async with Runtime(add, store=store, defaults={"max_calls_per_turn": 2}) as runtime:
        run = await Agent("counter", model=model).run("Go", runtime=runtime)

    assert run.status == "stopped"
    assert "budget of this run is spent" in run.reason
    assert len(model.requests) == 3


async def test_a_failing_model_with_a_hook_that_always_recovers_is_bounded():
    model = ScriptedModel(*[ModelError("down")] * 100)
    agent = Agent("sick", model=model, limits=Limits(steps=4), hooks={"on_error": lambda error, ctx: "Try again."})

    run = await agent.run("Go")

    assert (run.status, run.reason) == ("failed", "down")
    assert len(model.requests) == 4


@pytest.mark.parametrize("values", [{"steps": 0}, {"steps": True}, {"tokens": -1}, {"cost": "1"}, {"seconds": 0}])
def test_limits_that_make_no_sense_are_refused(values):
    with pytest.raises(ValueError, match="must be a"):
        Limits(**values)
