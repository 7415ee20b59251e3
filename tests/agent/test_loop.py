"""An agent asks its model, makes the calls of the answer, and asks again, until there are no more."""

import asyncio

import pytest

from surehand import Agent, DefinitionError, Image, Runtime, events, tool
from surehand.agent.models.base import ModelAnswer, ModelCall, ModelError
from surehand.testing import ScriptedModel
from tests.agent.conftest import add


def contents(run, role):
    return [message["content"] for message in run.messages if message["role"] == role]


async def test_a_text_without_calls_ends_the_run():
    model = ScriptedModel("An old silent pond")

    run = await Agent("poet", model=model, instructions="You are a poet.").run("A haiku")

    assert (run.status, run.text, run.output, run.reason) == ("done", "An old silent pond", "An old silent pond", "")
    assert model.requests[0].messages == [
        {"role": "system", "content": "You are a poet."},
        {"role": "user", "content": "A haiku"},
    ]
    assert model.requests[0].tools == []


async def test_the_model_is_shown_the_results_of_its_calls(store):
    model = ScriptedModel([("add", {"a": 1, "b": 2}), ("add", '{"a": 3, "b": "4"}')], "3 and 7")
    async with Runtime(add, store=store) as runtime:
        run = await Agent("counter", model=model).run("Count", runtime=runtime)

    assert run.text == "3 and 7"
    assert contents(run, "tool") == ["3", "7"]
    [first, second] = model.requests
    assert [entry["function"]["name"] for entry in first.tools] == ["add"]
    assert second.messages[1]["tool_calls"][0] == {
        "id": "call_1",
        "type": "function",
        "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'},
    }
    assert second.messages[2:] == [
        {"role": "tool", "tool_call_id": "call_1", "name": "add", "content": "3"},
        {"role": "tool", "tool_call_id": "call_2", "name": "add", "content": "7"},
    ]


async def test_usage_counts_requests_tokens_and_calls():
    run = await Agent("counter", model=ScriptedModel([("add", {"a": 1, "b": 2})], "3", cost=0.25), tools=[add]).run(
        "Go"
    )

    assert (run.usage.requests, run.usage.calls, run.usage.cost) == (2, 1, 0.5)
    assert run.usage.tokens_in > 0
    assert run.usage.tokens_out > 0


async def test_calls_of_one_answer_run_at_the_same_time():
    everyone_is_here = asyncio.Barrier(3)

    @tool
    async def meet() -> str:
        """Meet."""
        async with asyncio.timeout(20):
            await everyone_is_here.wait()
        return "met"

    run = await Agent("host", model=ScriptedModel([("meet", {})] * 3, "All met."), tools=[meet]).run("Go")

    assert contents(run, "tool") == ["met"] * 3


async def test_two_identical_calls_of_one_answer_are_two_calls(store):
    sent = []

    @tool
    async def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return "sent"

    async with Runtime(send, store=store) as runtime:
        model = ScriptedModel([("send", {"to": "Ada"}), ("send", {"to": "Ada"})], "Sent.")
        await Agent("writer", model=model).run("Write", session="s1", runtime=runtime)

    assert sent == ["Ada", "Ada"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (("subtract", {}), "subtract"),
        (("add", '{"a": 1, "b": '), "b"),
        (("add", "[1, 2]"), "object"),
        (("add", {"a": "one", "b": 2}), "a"),
    ],
)
async def test_a_call_that_cannot_be_made_is_told_to_the_model(store, call, expected):
    model = ScriptedModel([call], "I see.")
    async with Runtime(add, store=store) as runtime:
        run = await Agent("counter", model=model).run("Go", runtime=runtime)

    [result] = [message for message in model.requests[1].messages if message["role"] == "tool"]
    assert result["is_error"] is True
    assert expected in result["content"]
    assert run.status == "done"


async def test_an_image_is_shown_beside_the_text():
    @tool
    async def look() -> Image:
        """Look."""
        return Image("aGVsbG8=", "image/png")

    model = ScriptedModel([("look", {})], "A pond.")
    await Agent("eye", model=model, tools=[look]).run("Look")

    [text, image] = model.requests[1].messages[-1]["content"]
    assert text["type"] == "text"
    assert (image["type"], image["data"], image["mime_type"]) == ("image", "aGVsbG8=", "image/png")


async def test_a_prompt_may_be_blocks_or_a_conversation():
    model = ScriptedModel("A pond.", "Blue.")
    agent = Agent("eye", model=model)
    first = await agent.run(["What is this?", Image("aGVsbG8=", "image/png")])
    await agent.run([*first.messages, {"role": "user", "content": "Which colour?"}])

    assert [block["type"] for block in model.requests[0].messages[0]["content"]] == ["text", "image"]
    assert [message["role"] for message in model.requests[1].messages] == ["user", "assistant", "user"]
    with pytest.raises(TypeError, match="A prompt is a text"):
        await agent.run([1])


@pytest.mark.parametrize("error", [ModelError("The server is down."), RuntimeError("boom")])
async def test_an_error_of_the_model_fails_the_run_and_keeps_its_messages(store, error):
    async with Runtime(add, store=store) as runtime:
        agent = Agent("counter", model=ScriptedModel([("add", {"a": 1, "b": 2})], error))
        run = await agent.run("Go", runtime=runtime)

        assert run.status == "failed"
        assert str(error) in run.reason
        assert contents(run, "tool") == ["3"]
        assert (await agent.resume(run.id, runtime=runtime)) == run


async def test_a_stream_without_an_end_runs_none_of_its_calls():
    ran = []

    @tool
    async def send() -> None:
        """Send a letter."""
        ran.append(1)

    class BrokenModel:
        name = "broken"

        async def stream(self, request):
            for chunk in ():
                yield chunk

    run = await Agent("writer", model=BrokenModel(), tools=[send]).run("Go")

    assert (run.status, ran) == ("failed", [])
    assert "has no end" in run.reason


async def test_a_server_that_repeats_its_ids_confuses_no_call(store):
    answers = [[("add", {"a": 1, "b": 1})], [("add", {"a": 2, "b": 2})], "2 and 4"]
    model = ScriptedModel(*answers)
    async with Runtime(add, store=store) as runtime:
        run = await Agent("counter", model=model).run("Go", runtime=runtime)

    ids = [message["tool_call_id"] for message in run.messages if message["role"] == "tool"]
    assert contents(run, "tool") == ["2", "4"]
    assert len(set(ids)) == 2


async def test_two_calls_of_one_answer_with_the_same_id_get_their_own_results():
    answer = ModelAnswer("", (ModelCall("add", '{"a": 1, "b": 1}', "x"), ModelCall("add", '{"a": 2, "b": 2}', "x")))
    model = ScriptedModel(answer, "2 and 4")
    run = await Agent("counter", model=model, tools=[add]).run("Go")

    [assistant, *results] = run.messages[1:4]
    assert [call["id"] for call in assistant["tool_calls"]] == [each["tool_call_id"] for each in results]
    assert len({each["tool_call_id"] for each in results}) == 2


async def test_the_same_id_again_is_the_same_run(store):
    model = ScriptedModel("one", "two")
    agent = Agent("counter", model=model)
    async with Runtime(add, store=store) as runtime:
        first = await agent.run("Go", runtime=runtime, run_id="r1", user="ada")
        again = await agent.run("Go", runtime=runtime, run_id="r1", user="ada")

        assert first.id == "r1"
        assert again.text == "one"
        assert len(model.requests) == 1
        if store:
            with pytest.raises(ValueError, match="belongs to another run"):
                await agent.run("Go", runtime=runtime, run_id="r1", user="eve")


def test_definitions_that_cannot_work_are_refused():
    with pytest.raises(DefinitionError, match="cannot be the name"):
        Agent("my agent", model=ScriptedModel())
    with pytest.raises(DefinitionError, match="is not a model"):
        Agent("a", model=42)
    with pytest.raises(DefinitionError, match="give a list"):
        Agent("a", model=ScriptedModel(), tools="git__*")


async def test_without_a_store_no_call_has_an_id_of_the_run():
    model = ScriptedModel([("add", {"a": 1, "b": 2})], "3")
    async with Runtime(add) as runtime:
        seen = [event async for event in Agent("counter", model=model).stream("Go", runtime=runtime, run_id="r1")]

    [started] = [event for event in seen if isinstance(event, events.CallStarted)]
    assert {event.call_id for event in seen if isinstance(event, events.ToolInputDelta)} == {None}
    assert (started.run_id, started.call_id.startswith("r1")) == ("r1", False)
