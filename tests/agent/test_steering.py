"""Messages to a run: steering before the next answer, follow-ups when it is idle, from any process."""

import pytest

from surehand import Agent, Runtime, tool
from surehand.testing import ScriptedModel
from tests.agent.conftest import add

ADD = [("add", {"a": 1, "b": 1})]


def users(request):
    return [message["content"] for message in request.messages if message["role"] == "user"]


async def test_steering_is_read_before_the_next_answer(store):
    async def steer(messages):
        await agent.steer("r1", "Rather Porto.", runtime=runtime)
        return ADD

    model = ScriptedModel(steer, "Porto.")
    agent = Agent("travel", model=model)
    async with Runtime(add, store=store) as runtime:
        run = await agent.run("Lisbon", runtime=runtime, run_id="r1")

    assert users(model.requests[1]) == ["Lisbon", "Rather Porto."]
    assert [message["role"] for message in run.messages] == ["user", "assistant", "tool", "user", "assistant"]


async def test_a_follow_up_waits_until_the_model_has_answered(store):
    async def send(messages):
        await agent.follow_up("r1", "And a hotel.", runtime=runtime)
        return ADD

    model = ScriptedModel(send, "Booked.", "A hotel too.")
    agent = Agent("travel", model=model)
    async with Runtime(add, store=store) as runtime:
        run = await agent.run("Lisbon", runtime=runtime, run_id="r1")

    assert [users(request) for request in model.requests] == [["Lisbon"], ["Lisbon"], ["Lisbon", "And a hotel."]]
    assert (run.status, run.text) == ("done", "A hotel too.")


async def test_a_message_wakes_a_run_that_waits(store):
    ask = tool.client("ask", "Ask the person.", parameters={}, reply="later")
    model = ScriptedModel([("ask", {})], "Never mind.")
    agent = Agent("clerk", model=model)
    async with Runtime(ask, store=store) as runtime:
        run = await agent.run("Ask", runtime=runtime)
        await agent.follow_up(run.id, "Are you there?", runtime=runtime)
        again = await agent.resume(run.id, runtime=runtime)

    assert (again.status, again.text) == ("waiting", "Never mind.")
    assert users(model.requests[1]) == ["Ask", "Are you there?"]


async def test_another_runtime_on_the_store_can_steer(tmp_path):
    store = str(tmp_path / "agent.db")

    async def steer(messages):
        async with Runtime(store=store) as other:
            await Agent("travel", model=ScriptedModel()).steer("r1", "Rather Porto.", runtime=other)
        return ADD

    model = ScriptedModel(steer, "Porto.")
    async with Runtime(add, store=store) as runtime:
        await Agent("travel", model=model).run("Lisbon", runtime=runtime, run_id="r1")

    assert users(model.requests[1]) == ["Lisbon", "Rather Porto."]


async def test_another_runtime_on_the_store_can_follow_up(tmp_path):
    store = str(tmp_path / "agent.db")

    async def follow_up(messages):
        async with Runtime(store=store) as other:
            await Agent("travel", model=ScriptedModel()).follow_up("r1", "And a hotel.", runtime=other)
        return ADD

    model = ScriptedModel(follow_up, "Lisbon.", "With a hotel.")
    async with Runtime(add, store=store) as runtime:
        run = await Agent("travel", model=model).run("Lisbon", runtime=runtime, run_id="r1")

    assert [users(request) for request in model.requests[1:]] == [["Lisbon"], ["Lisbon", "And a hotel."]]
    assert run.text == "With a hotel."


async def test_a_run_that_has_ended_takes_no_messages(store):
    agent = Agent("poet", model=ScriptedModel("Hi"))
    async with Runtime(store=store) as runtime:
        run = await agent.run("Go", runtime=runtime)

        with pytest.raises(ValueError, match="has ended"):
            await agent.steer(run.id, "More", runtime=runtime)


async def test_a_person_reaches_only_their_own_runs(tmp_path):
    agent = Agent("poet", model=ScriptedModel("Hi"))
    async with Runtime(store=str(tmp_path / "agent.db")) as runtime:
        run = await agent.run("Go", runtime=runtime, user="ada")

        with pytest.raises(LookupError):
            await agent.resume(run.id, runtime=runtime.scope(user="eve"))
        assert (await agent.resume(run.id, runtime=runtime.scope(user="ada"))).text == "Hi"
