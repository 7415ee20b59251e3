"""Agents that call agents: `agent__name` runs one, waits for what it waits for, and ends with its report."""

import asyncio

import pytest
from pydantic import BaseModel

from surehand import Agent, DefinitionError, Limits, Runtime, events, tool
from surehand.testing import ScriptedModel
from tests.agent.conftest import add


class Question(BaseModel):
    """What the researcher is asked."""

    topic: str
    words: int = 100


class Trip(BaseModel):
    """A trip."""

    city: str


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


def asks(name, prompt="Look."):
    return [(f"agent__{name}", {"prompt": prompt})]


async def test_an_agent_calls_another_one_and_reads_its_report(store):
    child = ScriptedModel([("add", {"a": 1, "b": 2})], "It is 3.")
    model = ScriptedModel(asks("clerk", "1 + 2?"), "Three.")
    agent = Agent("boss", model=model, tools=[], agents=[Agent("clerk", model=child, tools=["add"])])
    async with Runtime(add, store=store) as runtime:
        run = await agent.run("Go", runtime=runtime, user="ada", session="s1")

    assert (run.status, run.text) == ("done", "Three.")
    assert child.requests[0].messages == [{"role": "user", "content": "1 + 2?"}]
    assert model.requests[1].messages[-1]["content"] == "It is 3."
    assert [entry["function"]["name"] for entry in model.requests[0].tools] == ["agent__clerk"]


async def test_what_a_sub_agent_uses_counts_for_its_caller(store):
    clerk = Agent("clerk", model=ScriptedModel([("add", {"a": 1, "b": 2})], "It is 3."), tools=[add])
    agent = Agent("boss", model=ScriptedModel(asks("clerk"), "Three."), tools=[], agents=[clerk])
    async with Runtime(store=store) as runtime:
        usage = (await agent.run("Go", runtime=runtime)).usage

    assert (usage.requests, usage.calls) == (4, 2)


async def test_a_limit_of_tokens_counts_what_a_sub_agent_used(store):
    clerk = Agent("clerk", model=ScriptedModel("x" * 4_000), tools=[])
    model = ScriptedModel(asks("clerk"), "Enough.")
    agent = Agent("boss", model=model, tools=[], agents=[clerk], limits=Limits(tokens=500))
    async with Runtime(store=store) as runtime:
        run = await agent.run("Go", runtime=runtime)

    assert (run.status, run.reason) == ("stopped", "The limit of 500 tokens is reached.")
    assert "0 of 500 tokens" in model.requests[1].messages[-1]["content"]


async def test_a_sub_agent_that_reaches_a_limit_of_its_own_is_a_failed_call(store):
    clerk = Agent(
        "clerk", model=ScriptedModel([("add", {"a": 1, "b": 2})], "Half."), tools=[add], limits=Limits(steps=1)
    )
    model = ScriptedModel(asks("clerk"), "Then without it.")
    agent = Agent("boss", model=model, tools=[], agents=[clerk])
    async with Runtime(store=store) as runtime:
        run = await agent.run("Go", runtime=runtime)

    assert (run.status, run.text) == ("done", "Then without it.")
    assert "The limit of 1 steps is reached. Its last report: Half." in model.requests[1].messages[-1]["content"]


async def test_an_output_type_of_a_sub_agent_is_the_data_of_the_call(store):
    guide = Agent("guide", model=ScriptedModel('{"city": "Porto"}'), tools=[], output=Trip)
    async with Runtime(guide, store=store) as runtime:
        outcome = await runtime.call("agent__guide", {"prompt": "Where?"})

    assert outcome.data == {"city": "Porto"}


async def test_an_agent_with_parameters_reads_them_as_json(store):
    model = ScriptedModel("A report.")
    researcher = Agent("researcher", model=model, tools=[], parameters=Question, description="Looks things up.")
    async with Runtime(researcher, store=store) as runtime:
        outcome = await runtime.call("agent__researcher", {"topic": "bees"})
        refused = await runtime.call("agent__researcher", {"prompt": "bees"})
        [entry] = runtime.describe("openai")

    assert outcome.data == "A report."
    assert refused.code == "invalid_arguments"
    assert model.requests[0].messages == [{"role": "user", "content": '{"topic":"bees","words":100}'}]
    assert entry["function"]["description"] == "Looks things up."
    assert set(entry["function"]["parameters"]["properties"]) == {"topic", "words"}


async def test_an_agent_that_is_a_source_is_a_tool_for_the_others(store):
    model = ScriptedModel(asks("clerk"), "Done.")
    clerk = Agent("clerk", model=ScriptedModel("A report."), tools=[])
    boss = Agent("boss", model=model)
    async with Runtime(clerk, boss, store=store) as runtime:
        run = await boss.run("Go", runtime=runtime)

    assert [entry["function"]["name"] for entry in model.requests[0].tools] == ["agent__clerk"]
    assert run.messages[2]["content"] == "A report."


async def test_an_agents_tool_runs_without_a_runtime():
    clerk = Agent("clerk", model=ScriptedModel("A report."), tools=[])

    assert (await clerk.tool.run({"prompt": "Look."})).data == "A report."


async def test_the_stream_has_the_events_of_the_runs_below(store):
    clerk = Agent("clerk", model=ScriptedModel("A report."), tools=[])
    agent = Agent("boss", model=ScriptedModel(asks("clerk"), "Done."), tools=[], agents=[clerk])
    async with Runtime(store=store) as runtime:
        other = asyncio.create_task(
            Agent("other", model=ScriptedModel("Elsewhere."), tools=[]).run("Go", runtime=runtime)
        )
        seen = [event async for event in agent.stream("Go", runtime=runtime, run_id="r1")]
        await other

    starts = [event for event in seen if isinstance(event, events.RunStarted)]
    texts = {event.run_id: event.text for event in seen if isinstance(event, events.TextDelta)}
    assert [(event.agent, event.parent_run) for event in starts] == [("boss", None), ("clerk", "r1")]
    assert texts == {"r1": "Done.", starts[1].run_id: "A report."}
    assert (type(seen[-1]), seen[-1].run_id) == (events.RunEnded, "r1")


async def test_a_question_of_a_sub_agent_is_a_wait_of_the_run_with_the_agents_above_it(store, book, booked):
    child = ScriptedModel([("book", {"flight": "TW7"})], "The flight is booked.")
    clerk = Agent("clerk", model=child, tools=[book])
    manager = Agent("manager", model=ScriptedModel(asks("clerk"), "Reported."), tools=[], agents=[clerk])
    agent = Agent("boss", model=ScriptedModel(asks("manager"), "Fine."), tools=[], agents=[manager])
    async with Runtime(store=store) as runtime:
        waiting = await agent.run("Go", runtime=runtime, user="ada", session="s1")
        [wait] = waiting.waiting
        still_waiting = await agent.resume(waiting.id, runtime=runtime)
        await runtime.approve(wait.call_id)
        run = await agent.resume(waiting.id, runtime=runtime)

    assert (waiting.status, wait.tool, wait.path) == ("waiting", "book", ("boss", "manager", "clerk"))
    assert [each.call_id for each in still_waiting.waiting] == [wait.call_id]
    assert (run.status, run.text, run.waiting) == ("done", "Fine.", ())
    assert booked == ["TW7"]


async def test_a_late_report_of_a_sub_agent_reaches_a_model_that_went_on(store, book, booked):
    clerk = Agent("clerk", model=ScriptedModel([("book", {"flight": "TW7"})], "The flight is booked."), tools=[book])
    model = ScriptedModel([("add", {"a": 1, "b": 2}), *asks("clerk")], "3, and I wait.", "All done.")
    agent = Agent("boss", model=model, tools=[add], agents=[clerk])
    async with Runtime(store=store) as runtime:
        waiting = await agent.run("Go", runtime=runtime)
        await runtime.approve(waiting.waiting[0].call_id)
        run = await agent.resume(waiting.id, runtime=runtime)

    assert (waiting.status, run.status, run.text) == ("waiting", "done", "All done.")
    assert "The flight is booked." in model.requests[2].messages[-1]["content"]


async def test_several_sub_agents_work_at_the_same_time(store):
    both_run = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        """Meet the other agent."""
        await both_run.wait()
        return "met"

    clerks = [Agent(name, model=ScriptedModel([("meet", {})], f"{name} met."), tools=[meet]) for name in ("a", "b")]
    agent = Agent("boss", model=ScriptedModel([*asks("a"), *asks("b")], "Done."), tools=[], agents=clerks)
    async with Runtime(store=store) as runtime:
        run = await agent.run("Go", runtime=runtime)

    assert [message["content"] for message in run.messages if message["role"] == "tool"] == ["a met.", "b met."]


async def test_agents_that_call_each_other_in_a_circle_are_refused(store):
    first_model = ScriptedModel(asks("second"), "First is done.")
    second_model = ScriptedModel(asks("first"), "Second is done.")
    first = Agent("first", model=first_model)
    second = Agent("second", model=second_model)
    async with Runtime(first, second, store=store) as runtime:
        run = await first.run("Go", runtime=runtime)

    assert run.text == "First is done."
    assert "The agent first cannot be called here" in second_model.requests[1].messages[-1]["content"]
    assert second_model.requests[0].tools == []


async def test_cancelling_a_run_cancels_the_runs_below(store):
    started = asyncio.Event()
    cancelled = asyncio.Event()

    @tool
    async def work() -> None:
        """Work for ever."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    clerk = Agent("clerk", model=ScriptedModel([("work", {})]), tools=[work])
    agent = Agent("boss", model=ScriptedModel(asks("clerk")), tools=[], agents=[clerk])
    async with Runtime(store=store) as runtime:
        task = asyncio.create_task(agent.run("Go", runtime=runtime))
        await started.wait()
        task.cancel()
        await asyncio.wait({task})

        assert cancelled.is_set()


async def test_a_sub_agent_has_the_tools_of_the_runtime_that_its_caller_has_not(store):
    clerk = Agent("clerk", model=ScriptedModel([("add", {"a": 1, "b": 2})], "3"), tools=["add"])
    agent = Agent("boss", model=ScriptedModel(asks("clerk"), "Three."), tools=[], agents=[clerk])
    async with Runtime(add, store=store) as runtime:
        run = await agent.run("Go", runtime=runtime)
        child = await clerk.run("", runtime=runtime, run_id=f"{run.id}.0.0.run") if store else None

    assert run.text == "Three."
    if child is not None:
        assert child.messages[2]["content"] == "3"


@pytest.mark.parametrize("name", ["final_report", "task_status", "batch", "n" * 60])
def test_names_that_no_tool_can_have_are_refused(name):
    with pytest.raises(DefinitionError, match=r"reserved|too long"):
        Agent(name, model=ScriptedModel("Hi"))


def test_two_sub_agents_of_one_name_are_refused():
    with pytest.raises(DefinitionError, match="same name"):
        Agent(
            "boss", model=ScriptedModel(), agents=[Agent("a", model=ScriptedModel()), Agent("a", model=ScriptedModel())]
        )


def test_only_agents_can_be_sub_agents():
    with pytest.raises(DefinitionError, match="is not an agent"):
        Agent("boss", model=ScriptedModel(), agents=[add])
