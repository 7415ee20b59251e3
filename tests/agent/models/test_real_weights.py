"""A language model with real weights, without native tools, in JSON-schema mode."""

from __future__ import annotations

import faulthandler
import json
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from surehand import Runtime, tool
from surehand.agent.agent import Agent
from surehand.agent.limits import Limits
from surehand.agent.models.base import ModelRequest
from surehand.agent.models.choose import choose_model
from tests.agent.models.wires import collect, user
from tests.requirements import needs

pytestmark = [needs("weights"), pytest.mark.long, pytest.mark.timeout(600)]
CITY = {"type": "string", "enum": ["Paris", "Rome"]}
PARAMETERS = {"type": "object", "properties": {"city": CITY}, "required": ["city"], "additionalProperties": False}
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather in a city.", "parameters": PARAMETERS},
}


@pytest.fixture(autouse=True)
def disable_faulthandler_timeout() -> None:
    """On a busy machine the weights take longer than the faulthandler's limit; the tests' own timeout applies."""
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def base_url():
    """The address of a server with the weights, in a process of its own."""
    script = Path(__file__).with_name("weights_server.py")
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        lines = iter(process.stdout.readline, "")
        yield next(line for line in lines if line.startswith("http")).strip() + "/v1"
        process.stdin.close()


def small_model(base_url):
    return choose_model(
        "openai:smollm2", base_url=base_url, mode="json", temperature=0.0, max_tokens=600, idle_timeout=300
    )


async def test_calls_have_arguments_that_fit_the_schema(base_url):
    asked = ModelRequest([user("Use the tool get_weather for Paris.")], [WEATHER])

    _, answer = await collect(small_model(base_url), asked)

    assert answer.calls
    for call in answer.calls:
        assert call.name == "get_weather"
        assert json.loads(call.arguments)["city"] in CITY["enum"]
    assert answer.usage.tokens_in > 0


def example(city, number):
    """A turn of an earlier conversation, from which so small a model learns when to call the tool, and when to end."""
    function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
    call = {"id": f"example{number}", "type": "function", "function": function}
    return [
        user(f"What is the weather in {city}?"),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {
            "role": "tool",
            "tool_call_id": f"example{number}",
            "name": "get_weather",
            "content": f"It is sunny in {city}.",
        },
        {"role": "assistant", "content": f"It is sunny in {city}."},
    ]


async def test_an_agent_calls_its_tool_and_ends_its_run(base_url, tmp_path):
    cities = []

    @tool(effects={"read"})
    async def get_weather(city: Literal["Paris", "Rome"]) -> str:
        """The weather in a city."""
        cities.append(city)
        return f"It is sunny in {city}."

    prompt = [*example("Rome", 1), *example("Paris", 2), user("What is the weather in Rome?")]
    agent = Agent("forecaster", model=small_model(base_url), limits=Limits(steps=4))
    async with Runtime(get_weather, store=str(tmp_path / "s.db")) as runtime:
        run = await agent.run(prompt, runtime=runtime)

    assert (run.status, set(cities)) == ("done", {"Rome"})
    assert "sunny" in run.text
    assert run.usage.tokens_out > 0


async def test_the_output_follows_its_schema(base_url):
    asked = ModelRequest([user("Which city is the capital of France?")], output_schema=PARAMETERS)

    _, answer = await collect(small_model(base_url), asked)

    assert json.loads(answer.text)["city"] in CITY["enum"]
