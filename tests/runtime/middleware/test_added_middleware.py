"""Middleware that is added and removed while the runtime runs."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from surehand import Outcome, Runtime, middleware, tool


@tool(aliases=("say",))
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
async def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


def append(suffix: str) -> Any:
    """Middleware that appends a text to every result."""

    async def appending(invocation: Any, proceed: Any) -> Outcome:
        outcome: Outcome = await proceed(invocation)
        return outcome.evolve(data=f"{outcome.unwrap()}{suffix}")

    return appending


async def say(scope: Any, name: str = "echo") -> Any:
    return (await scope.call(name, {"text": "hi"})).data


async def test_middleware_can_be_added_and_removed_while_running() -> None:
    async with Runtime(echo) as runtime:
        assert await say(runtime) == "hi"

        remove = runtime.add_middleware(append("!"))
        assert await say(runtime) == "hi!"

        remove()
        remove()
        assert await say(runtime) == "hi"


async def test_middleware_that_is_added_is_inside_that_of_the_runtime_and_outside_that_of_the_tool() -> None:
    first, second, own = append("1"), append("2"), append("3")
    async with Runtime(echo.evolve(middleware=[own]), middleware=[first]) as runtime:
        runtime.add_middleware(second)

        assert await say(runtime) == "hi321"
        assert runtime.middleware == (first, second)


async def test_the_same_middleware_is_removed_once_for_each_time_it_was_added() -> None:
    loud = append("!")
    async with Runtime(echo, middleware=[loud]) as runtime:
        remove = runtime.add_middleware(loud)
        runtime.add_middleware(loud)

        remove()

        assert await say(runtime) == "hi!!"


@pytest.mark.parametrize("tools", ["echo", "ec*", "say"])
async def test_middleware_can_be_for_some_tools_only(tools: str) -> None:
    async with Runtime(echo, shout) as runtime:
        runtime.add_middleware(append("!"), tools=tools)

        assert [await say(runtime), await say(runtime, "say"), await say(runtime, "shout")] == ["hi!", "hi!", "HI"]


async def test_tools_of_scopes_sessions_and_later_sources_pass_the_added_middleware() -> None:
    async with Runtime() as runtime:
        scope = runtime.scope(tools=[echo], session="s1")
        scope.offer(shout)
        assert [await say(scope), await say(scope, "shout")] == ["hi", "HI"]

        runtime.add_middleware(append("!"))
        await runtime.add(echo.evolve(name="repeat", aliases=()))

        assert [await say(scope), await say(scope, "shout"), await say(runtime, "repeat")] == ["hi!", "HI!", "hi!"]


async def test_a_running_call_ends_with_the_middleware_that_it_began_with() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        began.set()
        await go_on.wait()
        return "hi"

    async with Runtime(wait) as runtime:
        remove = runtime.add_middleware(append("!"))
        running = asyncio.create_task(runtime.call("wait"))
        await began.wait()
        remove()
        go_on.set()

        assert (await running).data == "hi!"


async def test_added_logging_also_logs_unknown_tools(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Runtime(echo) as runtime:
        remove = runtime.add_middleware(middleware.logging())
        await runtime.call("nothing")
        assert "nothing" in caplog.text

        remove()
        caplog.clear()
        await runtime.call("nothing")
        assert "nothing" not in caplog.text


async def test_middleware_of_other_tools_does_not_see_unknown_ones(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Runtime(echo) as runtime:
        runtime.add_middleware(middleware.logging(), tools="echo")
        await runtime.call("nothing")

    assert "nothing" not in caplog.text
