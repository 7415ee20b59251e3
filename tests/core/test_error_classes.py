"""The error classes of failures: which one `unwrap()` raises, with what message and details."""

import asyncio

import pytest

from surehand import Denied, InvalidArguments, NotFound, Runtime, TimedOut, ToolError, tool


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(timeout=0.01)
async def sleep() -> None:
    """Sleep."""
    await asyncio.sleep(60)


@tool
async def enter() -> None:
    """Enter."""
    raise Denied("Permission denied: the door is closed.")


raw = tool(name="raw", description="Take a size.", parameters={"properties": {"size": {"type": "integer"}}})(
    lambda size: size
)


async def error_of(name: str, **arguments: object) -> ToolError:
    async with Runtime(add, sleep, enter, raw) as runtime:
        with pytest.raises(ToolError) as error:
            (await runtime.call(name, arguments)).unwrap()
    return error.value


async def test_an_unknown_tool_is_not_found():
    error = await error_of("ad")

    assert type(error) is NotFound
    assert "Unknown tool: 'ad'" in str(error)


async def test_arguments_that_do_not_fit_are_listed_one_by_one():
    error = await error_of("add", a="x", c=2)

    assert type(error) is InvalidArguments
    assert [issue["path"] for issue in error.data["issues"]] == ["a", "c"]
    assert "not a parameter" in error.data["issues"][1]["message"]


async def test_arguments_of_a_raw_schema_are_listed_too():
    error = await error_of("raw", size="big")

    assert [issue["path"] for issue in error.data["issues"]] == ["size"]


async def test_a_time_limit_is_named_with_its_value():
    error = await error_of("sleep")

    assert type(error) is TimedOut
    assert "timed out after 0.01 s" in str(error)


async def test_a_missing_permission_says_so():
    error = await error_of("enter")

    assert type(error) is Denied
    assert str(error).startswith("Permission denied: ")
