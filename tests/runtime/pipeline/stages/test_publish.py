"""The stage `publish`: a visible call is one message in the active space, amended as the call proceeds."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from surehand import Runtime, ToolError, tool


class Wall:
    """Spaces as a list of messages, the way a host application may keep them."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.states: list[str] = []

    async def post(self, space: str, message: Mapping[str, Any]) -> str:
        self.messages.append((space, dict(message)))
        self.states.append(message["status"])
        return str(len(self.messages) - 1)

    async def amend(self, space: str, message_id: str, message: Mapping[str, Any]) -> None:
        self.messages[int(message_id)] = (space, dict(message))
        self.states.append(message["status"])


@tool
async def add(a: int, b: int) -> int:
    return a + b


@tool
async def fails() -> None:
    raise ToolError("no luck")


@tool(confirm=True)
async def pay(amount: int) -> str:
    return f"paid {amount}"


async def test_a_visible_call_is_one_message_from_running_to_complete():
    wall = Wall()
    async with Runtime(add, spaces=wall) as runtime:
        await runtime.scope(space="lobby", turn="run-1").call("add", {"a": 1, "b": 2})

    assert wall.states == ["running", "complete"]
    [(space, message)] = wall.messages
    assert space == "lobby"
    assert message["type"] == "tool_call"
    assert (message["toolName"], message["args"], message["result"]) == ("add", {"a": 1, "b": 2}, "3")
    assert message["runId"] == "run-1"


async def test_a_failed_call_shows_as_error():
    wall = Wall()
    async with Runtime(fails, spaces=wall) as runtime:
        await runtime.scope(space="lobby").call("fails")

    assert wall.states == ["running", "error"]
    assert "no luck" in wall.messages[0][1]["result"]


async def test_a_resumed_call_amends_the_same_message():
    wall = Wall()
    async with Runtime(pay, spaces=wall) as runtime:
        pending = await runtime.scope(space="lobby").call("pay", {"amount": 5})
        assert wall.states == ["running", "requires_action"]

        await runtime.approve(pending.call_id, arguments={"amount": 3})

    assert len(wall.messages) == 1
    assert wall.states == ["running", "requires_action", "running", "complete"]
    assert wall.messages[0][1]["args"] == {"amount": 3}


async def test_without_an_active_space_nothing_is_posted_and_a_warning_says_so(caplog):
    wall = Wall()
    async with Runtime(add, spaces=wall) as runtime:
        with caplog.at_level(logging.WARNING, "surehand"):
            outcome = await runtime.call("add", {"a": 1, "b": 2})

    assert outcome.data == 3
    assert wall.messages == []
    assert "no space is active" in caplog.text


async def test_an_invisible_tool_is_never_posted():
    wall = Wall()
    quiet = add.evolve(name="quiet", presentation=add.presentation.__class__(visible=False))
    async with Runtime(quiet, spaces=wall) as runtime:
        await runtime.scope(space="lobby").call("quiet", {"a": 1, "b": 2})

    assert wall.messages == []
