"""`tool(mcp_config={...})`: tools that a program declares and an MCP server runs."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from surehand import DefinitionError, Done, Pending, Policy, Runtime, tool
from tests.providers.mcp.steady_server import PEER, SteadyServer, tool_definition
from tests.providers.mcp.test_caching import effect


def config(server: SteadyServer, **more: Any) -> dict[str, Any]:
    command = {"command": sys.executable, "args": ["-I", "-S", str(PEER), str(server.folder)]}
    return {"serverName": "steady", "transport": "stdio", "manifest": False, **command, **more}


async def test_without_a_handler_the_servers_tool_of_that_name_runs(steady: SteadyServer) -> None:
    echo = tool(name="echo", description="Say it again.", mcp_config=config(steady))

    async with Runtime(echo) as runtime:
        assert await runtime.call("echo", {"text": "hello"}) == Done("hello")
        [entry] = runtime.describe("openai")
        assert entry["function"]["description"] == "Say it again."
        assert entry["function"]["parameters"]["properties"].keys() == {"text"}


async def test_with_a_handler_the_handler_runs(server: SteadyServer) -> None:
    @tool(name="echo", mcp_config=config(server))
    async def echo(text: str) -> str:
        """Say it here."""
        return f"here: {text}"

    async with Runtime(echo) as runtime:
        assert await runtime.call("echo", {"text": "hello"}) == Done("here: hello")
    assert server.starts == 0


async def test_declared_tools_with_one_configuration_share_one_server(server: SteadyServer) -> None:
    names = ("echo", "pid")

    async with Runtime(*(tool(name=name, mcp_config=config(server)) for name in names)) as runtime:
        assert (await runtime.call("echo", {"text": "hello"})).ok
        assert (await runtime.call("pid")).ok
        assert [listing.name for listing in runtime.catalogue] == ["echo", "pid"]
    assert server.starts == 1


async def test_declared_effects_and_confirmations_count(server: SteadyServer) -> None:
    look = tool(name="echo", effects={"read"}, mcp_config=config(server))
    change = tool(name="effect", mcp_config=config(server))

    async with Runtime(look, change, policy=Policy.default()) as runtime:
        assert (await runtime.call("echo", {"text": "hello"})).ok
        asked = await runtime.call("effect", {"text": "x"})
        assert isinstance(asked, Pending)
        assert await runtime.approve(asked.call_id) == Done("done")


async def test_a_tool_with_a_changed_name_reaches_the_tool_of_the_written_name(server: SteadyServer) -> None:
    server.set_tools(tool_definition("no such thing"))

    async with Runtime(tool(name="no such thing", mcp_config=config(server))) as runtime:
        outcome = await runtime.call("no_such_thing")

    assert outcome.message.endswith("no tool no such thing")  # the server's own answer


async def test_a_server_that_does_not_start_or_lacks_the_tool_is_named_by_the_call(server: SteadyServer) -> None:
    server.set_tools(effect())
    async with Runtime(tool(name="echo", mcp_config=config(server))) as runtime:
        assert "steady offers no echo" in (await runtime.call("echo")).message

    server.set_flag("down")
    async with Runtime(tool(name="echo", mcp_config=config(server))) as runtime:
        outcome = await runtime.call("echo")
    assert outcome.code == "unavailable"
    assert "it is down today" in outcome.message


async def test_a_tool_added_later_is_run_by_its_server_too(server: SteadyServer) -> None:
    async with Runtime() as runtime:
        await runtime.add(tool(name="echo", mcp_config=config(server)))

        assert await runtime.call("echo", {"text": "hello"}) == Done("hello")


async def test_a_lazy_tool_may_be_run_by_a_server(server: SteadyServer) -> None:
    lazy = tool.lazy("echo", lambda: tool(name="echo", mcp_config=config(server)))

    async with Runtime(lazy) as runtime:
        assert await runtime.call("echo", {"text": "hello"}) == Done("hello")


def test_a_configuration_without_a_server_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match="steady has neither a command nor a url"):
        Runtime(tool(name="echo", mcp_config={"serverName": "steady"}))
    with pytest.raises(DefinitionError, match="mcp_config='x' is not a mapping"):
        tool(name="echo", mcp_config="x")  # type: ignore[call-overload]


async def test_a_decorator_that_knows_no_mcp_servers_says_so() -> None:
    from surehand.core.define import tool as tool_of_core

    echo: Any = tool_of_core(name="echo", mcp_config={"serverUrl": "https://example.com/mcp"})

    with pytest.raises(DefinitionError, match=r"knows no MCP servers\. Fix: define it with surehand\.tool\."):
        Runtime(echo)


async def test_a_call_whose_server_lacks_a_variable_fails_before_a_person_is_asked(server: SteadyServer) -> None:
    missing = config(server, env={"TOKEN": "${NO_SUCH_VARIABLE}"})
    change = tool(name="effect", confirm=True, mcp_config=missing)

    async with Runtime(change) as runtime:
        outcome = await runtime.call("effect", {"text": "x"})

    assert (outcome.code, outcome.executed) == ("unavailable", False)
    assert "the environment variable NO_SUCH_VARIABLE is not set" in outcome.message
