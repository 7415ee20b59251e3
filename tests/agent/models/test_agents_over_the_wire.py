"""Agents on models over the real wire: calls run once, whatever the server does to the streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from surehand import Runtime, tool
from surehand.agent.agent import Agent
from surehand.agent.limits import Limits
from surehand.agent.models.choose import choose_model
from tests.agent.models.byte_server import serve
from tests.agent.models.wires import WIRES, answer_events

pytestmark = [pytest.mark.parametrize("wire", WIRES), pytest.mark.timeout(60)]


class Weather:
    """A tool that counts its calls."""

    def __init__(self):
        self.cities = []

    def tool(self):
        @tool(effects={"write"})
        async def get_weather(city: str) -> str:
            """Get the current weather for a city."""
            self.cities.append(city)
            return f"21 degrees in {city}"

        return get_weather


def build_agent(wire, model_name="m1", *, limits=None, **options):
    model = choose_model(f"{wire}:{model_name}", **options)
    return Agent("forecaster", model=model, instructions="Help.", limits=limits)


async def run(agent, weather, store=None):
    async with Runtime(weather.tool(), store=store) as runtime:
        return await agent.run("What is the weather in Paris?", runtime=runtime)


async def test_a_run_calls_the_tool_and_ends_with_the_model_s_text(wire, llmock):
    weather = Weather()
    result = await run(build_agent(wire), weather)  # llmock sets the SDKs' variables

    assert (result.status, weather.cities) == ("done", ["mock-city"])
    assert result.text
    assert result.usage.requests == 2
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("kind", ["truncate", "disconnect", "corrupt"])
async def test_a_stream_that_breaks_within_a_call_runs_the_call_once(wire, llmock, kind, tmp_path):
    getattr(llmock, kind)(after_chunks=3)
    weather = Weather()

    result = await run(build_agent(wire), weather, store=str(tmp_path / "s.db"))

    assert (result.status, weather.cities) == ("done", ["mock-city"])
    assert len(llmock.requests) == 3
    llmock.assert_resilient()


async def test_a_failure_that_cannot_pass_fails_the_run_with_its_reason(wire, llmock):
    llmock.fail(401, message="No such key.")
    weather = Weather()

    result = await run(build_agent(wire), weather)

    assert (result.status, weather.cities) == ("failed", [])
    assert "answered 401" in result.reason
    assert "No such key." in result.reason
    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


async def test_an_endless_loop_of_calls_is_a_bounded_number_of_requests(wire, llmock):
    llmock.call_tool("get_weather", {"city": "Paris"}, times=None)
    weather = Weather()

    result = await run(build_agent(wire, limits=Limits(steps=4)), weather)

    assert (result.status, weather.cities) == ("stopped", ["Paris"] * 4)
    assert len(llmock.requests) == 5
    llmock.assert_resilient(strict=True)


async def test_a_conversation_that_the_server_finds_too_long_is_sent_again_shorter(wire, llmock):
    llmock.context_overflow()
    weather = Weather()
    earlier = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good day. " * 500}]
    question = {"role": "user", "content": "What is the weather in Paris?"}

    async with Runtime(weather.tool()) as runtime:
        result = await build_agent(wire).run([*earlier * 6, question], runtime=runtime)

    assert (result.status, weather.cities) == ("done", ["mock-city"])
    too_long, shorter = [len(json.dumps(record.body)) for record in llmock.requests][:2]
    assert shorter < too_long * 0.6
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
async def test_a_broken_call_is_explained_to_the_model_and_runs_nothing(wire, llmock, kind):
    llmock.break_tool_call(kind)
    weather = Weather()

    result = await run(build_agent(wire), weather)

    assert result.status == "done"
    assert weather.cities == []
    assert "tool failed" in json.dumps(llmock.last_request.body)
    llmock.assert_resilient(strict=True)


async def test_a_server_that_says_call_1_every_time_runs_every_call(wire, tmp_path):
    calls = [("call_1", "get_weather", '{"city": "Paris"}'), ("call_1", "get_weather", '{"city": "Rome"}')]
    more = [("call_1", "get_weather", '{"city": "Oslo"}')]
    weather = Weather()
    replies = [answer_events(wire, "", calls), answer_events(wire, "", more), answer_events(wire, "All done.")]
    async with serve(*map(b"".join, replies)) as server:
        agent = build_agent(wire, base_url=server.url, api_key="k")
        result = await run(agent, weather, store=str(tmp_path / "s.db"))

    assert (result.status, result.text) == ("done", "All done.")
    assert sorted(weather.cities) == ["Oslo", "Paris", "Rome"]


async def test_many_calls_in_one_answer_all_run(wire):
    calls = [(f"call_{number}", "get_weather", json.dumps({"city": f"c{number}"})) for number in range(792)]
    weather = Weather()
    async with serve(*map(b"".join, [answer_events(wire, "", calls), answer_events(wire, "All done.")])) as server:
        result = await run(build_agent(wire, base_url=server.url, api_key="k"), weather)

    assert result.status == "done"
    assert len(set(weather.cities)) == 792


async def test_a_key_is_not_in_the_store(wire, llmock, tmp_path):
    llmock.fail(401, message="The key sk-not-to-be-seen-here is wrong.")
    weather = Weather()

    result = await run(build_agent(wire, api_key="sk-not-to-be-seen-here"), weather, store=str(tmp_path / "s.db"))

    assert result.status == "failed"
    assert "sk-not-to-be-seen-here" not in result.reason
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        assert b"sk-not-to-be-seen-here" not in path.read_bytes()
