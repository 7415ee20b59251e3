"""The events of a run, in order; leaving the stream cancels the run."""

import asyncio
import json

import pytest

from surehand import Agent, Runtime, events, format_event, tool
from surehand.agent.models.base import AnswerRestarted, ModelAnswer, ToolInputChunk
from surehand.core.ids import derive_call_id
from surehand.testing import ScriptedModel
from tests.agent.conftest import add


async def test_events_tell_the_run_from_start_to_end(store):
    model = ScriptedModel([("add", {"a": 1, "b": 2})], "The answer to your question is 3.")
    async with Runtime(add, store=store) as runtime:
        agent = Agent("counter", model=model)
        seen = [event async for event in agent.stream("Count", runtime=runtime, run_id="r1", user="ada")]

    names = list(dict.fromkeys(type(event).__name__ for event in seen))
    assert names == ["RunStarted", "ToolInputDelta", "CallStarted", "CallEnded", "TextDelta", "RunEnded"]
    assert {event.run_id for event in seen} == {"r1"}
    assert {event.user for event in seen} == {"ada"}
    assert seen[0] == events.RunStarted("r1", "counter", "ada", None, seen[0].at)
    text = "".join(event.text for event in seen if isinstance(event, events.TextDelta))
    assert text == "The answer to your question is 3."
    arguments = "".join(event.text for event in seen if isinstance(event, events.ToolInputDelta))
    assert arguments == '{"a": 1, "b": 2}'
    assert seen[-1].run.text == text


async def test_a_run_in_the_format_of_spaces_begins_a_call_before_its_arguments_are_written(tmp_path):
    model = ScriptedModel([("add", {"a": 1_000_000, "b": 2_000_000}), ("add", {"a": 3, "b": 4})], "3")
    async with Runtime(add, store=str(tmp_path / "agent.db")) as runtime:
        seen = [event async for event in Agent("counter", model=model).stream("Go", runtime=runtime)]

    shown = [fields for event in seen if (fields := format_event(event, "spaces")) is not None]
    first = [fields for fields in shown if fields["streamId"].endswith(".0.0")]
    deltas = [fields["delta"] for fields in first if fields["type"] == "tool-input-delta"]
    assert list(dict.fromkeys(fields["type"] for fields in first)) == [
        "tool-call.start",
        "tool-input-delta",
        "tool-call.complete",
    ]
    assert (first[0].get("input"), len(deltas)) == (None, 2)
    assert json.loads("".join(deltas)) == {"a": 1_000_000, "b": 2_000_000}
    assert [fields["type"] for fields in shown].count("tool-call.complete") == 2


async def test_a_call_begins_again_if_its_answer_is_asked_for_again(store):
    class Restarted:
        name = "restarted"

        async def stream(self, request):
            yield ToolInputChunk(0, "add", '{"a"')
            yield AnswerRestarted("It broke.", 1, 0.0)
            yield ToolInputChunk(0, "add", "{}")
            yield ToolInputChunk(0, "add", "")
            yield ModelAnswer("Done.")

    async with Runtime(add, store=store) as runtime:
        seen = [event async for event in Agent("counter", model=Restarted()).stream("Go", runtime=runtime)]

    assert [event.text for event in seen if isinstance(event, events.ToolInputDelta)] == ["", '{"a"', "", "{}"]


async def test_with_a_store_the_arguments_stream_under_the_id_of_the_call(tmp_path):
    model = ScriptedModel([("add", {"a": 1, "b": 2})], "3")
    async with Runtime(add, store=str(tmp_path / "agent.db")) as runtime:
        seen = [event async for event in Agent("counter", model=model).stream("Go", runtime=runtime, run_id="r1")]

    ids = {event.call_id for event in seen if isinstance(event, (events.ToolInputDelta, events.CallStarted))}
    assert ids == {derive_call_id("r1", 0, 0)}


async def test_listeners_of_a_runtime_hear_of_runs_of_their_user():
    heard = []
    async with Runtime(add) as runtime:
        runtime.scope(user="eve").listen(heard.append)
        runtime.scope(user="ada").listen(lambda event: heard.append(type(event).__name__))
        await Agent("poet", model=ScriptedModel("Hi")).run("Go", runtime=runtime, user="ada")

    assert heard == ["RunStarted", "TextDelta", "RunEnded"]


async def test_an_agent_streams_without_a_runtime():
    seen = [event async for event in Agent("poet", model=ScriptedModel("Hi")).stream("Go")]

    assert [type(event).__name__ for event in seen] == ["RunStarted", "TextDelta", "RunEnded"]


async def test_leaving_the_stream_cancels_the_calls(store):
    started = asyncio.Event()
    cancelled = asyncio.Event()

    @tool(effects={"read"})
    async def wait() -> None:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    agent = Agent("waiter", model=ScriptedModel([("wait", {})], [("wait", {})]))
    async with Runtime(wait, store=store) as runtime:
        stream = agent.stream("Go", runtime=runtime, run_id="r1")
        async for event in stream:
            if isinstance(event, events.CallStarted):
                await started.wait()
                break
        await stream.aclose()

        assert cancelled.is_set()
        assert runtime.stats().running == 0


async def test_cancelling_a_run_ends_its_request_and_what_was_stored_stays(tmp_path):
    asked = asyncio.Event()
    closed = asyncio.Event()

    async def hang(messages):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()

    store = str(tmp_path / "agent.db")
    async with Runtime(add, store=store) as runtime:
        agent = Agent("counter", model=ScriptedModel([("add", {"a": 1, "b": 2})], hang))
        task = asyncio.create_task(agent.run("Go", runtime=runtime, run_id="r1"))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed.is_set()

        again = Agent("counter", model=ScriptedModel(lambda messages: messages[-1]["content"]))
        run = await again.resume("r1", runtime=runtime)

    assert (run.status, run.text) == ("done", "3")
    assert run.usage.requests == 2
