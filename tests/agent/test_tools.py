"""Which tools an agent has; what is not among them cannot be called by it."""

import pytest

from surehand import DefinitionError, Runtime, tool
from surehand.agent.agent import Agent
from surehand.agent.models.scripted import ScriptedModel
from tests.agent.conftest import add


@tool(toolsets="numbers")
async def subtract(a: int, b: int) -> int:
    """Subtract."""
    return a - b


@tool
async def secret() -> str:
    """A secret."""
    return "xyzzy"


@tool(audience="user")
async def reset() -> None:
    """For people only."""


def shown(model):
    return [entry["function"]["name"] for entry in model.requests[0].tools]


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (None, ["add", "subtract", "secret"]),
        ([], []),
        (["add"], ["add"]),
        (["*t"], ["subtract", "secret"]),
        (["numbers"], ["subtract"]),
        ([add], ["add"]),
        ([secret, "add"], ["secret", "add"]),
    ],
)
async def test_texts_are_names_globs_or_toolsets_and_tools_are_its_own(tools, expected):
    sources = [each for each in (add, subtract, secret, reset) if tools is None or each not in tools]
    model = ScriptedModel("Hi")
    async with Runtime(*sources) as runtime:
        await Agent("a", model=model, tools=tools).run("Go", runtime=runtime)

    assert shown(model) == expected


async def test_a_tool_that_is_not_the_agents_cannot_be_called(store):
    model = ScriptedModel([("secret", {}), ("add", {"a": 1, "b": 2})], "Hm.")
    async with Runtime(add, secret, store=store) as runtime:
        await Agent("a", model=model, tools=["add"]).run("Go", runtime=runtime)

    [refused, three] = [message["content"] for message in model.requests[1].messages if message["role"] == "tool"]
    assert "secret is not allowed here" in refused
    assert three == "3"


async def test_an_agents_own_tool_is_not_a_tool_of_the_runtime(store):
    model = ScriptedModel([("secret", {})], "Hm.")
    async with Runtime(add, store=store) as runtime:
        run = await Agent("a", model=model, tools=[secret]).run("Go", runtime=runtime)
        outcome = await runtime.call("secret")

    assert run.messages[2]["content"] == "xyzzy"
    assert outcome.code == "not_found"


async def test_an_agent_that_names_tools_of_a_runtime_needs_one():
    with pytest.raises(DefinitionError, match="pass the runtime"):
        await Agent("a", model=ScriptedModel("Hi"), tools=["add"]).run("Go")


async def test_hosted_tools_are_given_to_the_model_as_they_are():
    search = tool.hosted("web_search", options={"openai": {"type": "web_search"}})
    model = ScriptedModel("Hi")
    async with Runtime(add, search) as runtime:
        await Agent("a", model=model).run("Go", runtime=runtime)

    assert shown(model) == ["add"]
    assert model.requests[0].hosted == (search,)
