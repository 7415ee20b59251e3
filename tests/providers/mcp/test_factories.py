"""Mistakes in the arguments of the factories are errors at definition time, with a fix."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import DefinitionError, Runtime, mcp

MISTAKES: list[tuple[Any, str]] = [
    (lambda: mcp.stdio("uvx mcp-server-git"), r"separate arguments: mcp.stdio\('uvx', 'mcp-server-git'\)"),
    (lambda: mcp.stdio("https://example.com/mcp"), r"mcp.http\('https://example.com/mcp'\)"),
    (lambda: mcp.stdio("uvx", args=["x"]), "the words after the command"),
    (lambda: mcp.http("uvx mcp-server-git"), "is not a URL.*for a command use mcp.stdio"),
    (lambda: mcp.http("localhost:3000/mcp"), "is not a URL.*write http://"),
    (lambda: mcp.http("ws://localhost/mcp"), r"use mcp.websocket\("),
    (lambda: mcp.websocket("http://localhost/mcp"), r"use mcp.http\("),
    (lambda: mcp.http("ftp://localhost/mcp"), "write http://"),
    (lambda: mcp.http("http://x/mcp", header={}), "use headers"),
    (lambda: mcp.http("http://x/mcp", auth="basic"), "mcp.oauth"),
    (lambda: mcp.stdio("x", tools_allowed=["a"]), "use allow"),
    (lambda: mcp.stdio("x", sandbox="yes"), "give a Sandbox"),
    (lambda: mcp.stdio("x", effects={"*": ["reads"]}), "Unknown effects: reads"),
    (lambda: mcp.stdio("x", effects=["reads"]), "Unknown effects: reads"),
    (lambda: mcp.stdio("x", queue=5), "the name of a queue"),
    (lambda: mcp.stdio("x", allow=5), "not a list of tool names"),
    (lambda: mcp.stdio("x", deny=[5]), "not a list of tool names"),
    (lambda: mcp.stdio("x", lock=True), "a path"),
    (lambda: mcp.stdio("x", sessions=0), "`sessions` must be at least 1, got 0"),
    (lambda: mcp.stdio("x", retries=-1), "`retries` must not be negative, got -1"),
    (lambda: mcp.stdio("x", cache=True), "is not a duration"),
    (lambda: mcp.stdio("x", timeout="soon"), "duration"),
    (lambda: mcp.stdio("x", required="yes"), "True or False"),
    (lambda: mcp.stdio("x", per="nobody"), "use 'user' or 'session' or 'everyone'"),
    (lambda: mcp.stdio("x", namespace="a__b"), "is not a legal name"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_a_mistake_names_its_fix(mistake: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        mistake()


def test_a_list_of_effects_applies_to_all_tools() -> None:
    assert mcp.stdio("x", effects=["read"]).options.effects == {"*": frozenset({"read"})}


def test_values_of_a_configuration_file_work_in_python_too() -> None:
    assert mcp.http("https://x/mcp", auth="oauth").address.auth is not None
    assert mcp.stdio("x", sandbox=True).address is not None


async def test_refreshing_an_unknown_namespace_names_it() -> None:
    async with Runtime() as runtime:
        with pytest.raises(KeyError, match="There is no provider 'nope'"):
            await runtime.refresh("nope")
