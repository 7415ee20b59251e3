"""A tool that nobody can run is a mistake at the start, and not at its first call."""

from collections.abc import Sequence
from typing import Any

import pytest

from surehand import Call, Context, DefinitionError, Provider, Runtime, Tool, tool

forecast = tool.provided("forecast", "Tell the weather.", parameters={})
MISTAKE = "forecast has no handler, and no provider offers it"


class Weather(Provider):
    namespace = "weather"

    async def tools(self) -> Sequence[Tool[..., Any]]:
        return [forecast]

    async def invoke(self, call: Call, context: Context) -> Any:
        return "sun"


async def test_a_provided_tool_without_a_provider_is_a_definition_error_at_the_start():
    with pytest.raises(DefinitionError, match=MISTAKE) as error:
        async with Runtime(forecast):
            pass

    assert "test_tools_without_runner.py:10" in str(error.value)


async def test_every_tool_that_nobody_can_run_is_named_in_one_error():
    other = tool.provided("other", "Another.")

    with pytest.raises(DefinitionError) as error:
        async with Runtime(forecast, other):
            pass

    assert "2 tools cannot be used" in str(error.value)
    assert "other has no handler" in str(error.value)


async def test_a_tool_that_a_provider_offers_runs():
    async with Runtime(Weather()) as runtime:
        assert (await runtime.call("weather__forecast")).data == "sun"


async def test_a_running_runtime_and_a_scope_refuse_a_tool_that_nobody_can_run():
    async with Runtime() as runtime:
        with pytest.raises(DefinitionError, match=MISTAKE):
            await runtime.add(forecast)
        with pytest.raises(DefinitionError, match=MISTAKE):
            runtime.scope(tools=[forecast])


async def test_a_hosted_tool_needs_no_handler_of_ours():
    async with Runtime(tool.hosted("search", options={"openai": {"type": "web_search"}})) as runtime:
        assert runtime.describe("openai")
