"""Agents with scripted models for the tests of the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from surehand import Context, tool
from surehand.agent.agent import Agent
from surehand.agent.models.scripted import ScriptedModel


@tool(effects={"read"})
async def add(a: int, b: int, ctx: Context) -> int:
    """Add two numbers."""
    ctx.report(0.5, "half way")
    return a + b


@tool(effects={"write"})
async def pay(amount: int, to: str) -> str:
    """Pay somebody."""
    return f"Paid {amount} to {to}."


@tool(effects={"read"})
async def sleep_long() -> str:
    """Sleep for a very long time."""
    await asyncio.sleep(600)
    return "Slept."


ask_size = tool.client(
    "ask_size", "Ask the person for a shoe size.", parameters={"type": "object", "properties": {}}, reply="later"
)


def answer(messages: list[dict[str, Any]]) -> Any:
    """What the last message asks for."""
    last = messages[-1]
    text = str(last["content"])
    if last["role"] == "tool":
        return f"The result: {text}"
    calls: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "add": [("add", {"a": 1, "b": 2})],
        "pay": [("pay", {"amount": 5, "to": "Ada"})],
        "sleep": [("sleep_long", {})],
        "size": [("ask_size", {})],
    }
    if text in calls:
        return calls[text]
    users = [str(each["content"]) for each in messages if each["role"] == "user"]
    return f"I heard: {' | '.join(users)}. \x1b[31mBye."


def steered(messages: list[dict[str, Any]]) -> Any:
    """Makes one slow call, then says what it was told."""
    if messages[-1]["role"] == "user" and messages[-1]["content"] == "walk":
        return [("wait_a_little", {})]
    return f"I heard: {messages[-1]['content']}"


@tool(effects={"read"})
async def wait_a_little(ctx: Context) -> str:
    """Wait until the file `go` exists."""
    ctx.report("waiting")
    while not Path("go").exists():  # noqa: ASYNC110 - another process creates it
        await asyncio.sleep(0.02)
    return "Waited."


helper = Agent("helper", model=ScriptedModel(*[answer] * 50), instructions="Help.")
walker = Agent("walker", model=ScriptedModel(*[steered] * 50))
