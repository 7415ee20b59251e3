"""Mistakes in what is said of a server are told when they are made, with how to mend them."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import DefinitionError, Runtime, mcp

MISTAKES: list[tuple[Any, str]] = [
    (lambda: mcp.stdio("uvx mcp-server-git"), r"give its words apart: mcp.stdio\('uvx', 'mcp-server-git'\)"),
    (lambda: mcp.stdio("https://example.com/mcp"), r"mcp.http\('https://example.com/mcp'\)"),
    (lambda: mcp.stdio("uvx", args=["x"]), "the words after the command"),
    (lambda: mcp.http("uvx mcp-server-git"), "is no URL.*a command is mcp.stdio"),
    (lambda: mcp.http("localhost:3000/mcp"), "is no URL.*write http://"),
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
    (lambda: mcp.stdio("x", allow=5), "names no tools"),
    (lambda: mcp.stdio("x", deny=[5]), "names no tools"),
    (lambda: mcp.stdio("x", lock=True), "a path"),
    (lambda: mcp.stdio("x", sessions=0), "at least one"),
    (lambda: mcp.stdio("x", retries=-1), "no `retries` below zero"),
    (lambda: mcp.stdio("x", cache=True), "is no time"),
    (lambda: mcp.stdio("x", timeout="soon"), "is not a duration"),
    (lambda: mcp.stdio("x", required="yes"), "True or False"),
    (lambda: mcp.stdio("x", per="nobody"), "use 'user' or 'session' or 'everyone'"),
    (lambda: mcp.stdio("x", namespace="a__b"), "is no name"),
]


@pytest.mark.parametrize(("mistake", "told"), MISTAKES)
def test_a_mistake_says_how_to_mend_it(mistake: Any, told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        mistake()


def test_a_list_of_effects_is_said_of_all_tools() -> None:
    assert mcp.stdio("x", effects=["read"]).options.effects == {"*": frozenset({"read"})}


def test_what_a_configuration_takes_is_taken_in_python_too() -> None:
    assert mcp.http("https://x/mcp", auth="oauth").address.auth is not None
    assert mcp.stdio("x", sandbox=True).address is not None


async def test_a_namespace_that_is_not_there_is_named() -> None:
    async with Runtime() as runtime:
        with pytest.raises(KeyError, match="There is no provider 'nope'"):
            await runtime.refresh("nope")
