"""`unwrap()` of a failure: the error says which tool failed, and why."""

import gc
import weakref
from typing import Any

import pytest

from surehand import Context, Failed, Runtime, ToolError, tool
from surehand.core.errors import InvalidArguments, NotFound, StillPending


class Money:
    """Something that a handler holds while it fails."""


@tool
async def crash() -> None:
    """Crash."""
    raise ZeroDivisionError("by zero")


@tool
async def refuse() -> None:
    """Refuse, with a cause."""
    try:
        raise KeyError("a.txt")
    except KeyError as error:
        raise NotFound("No file 'a.txt'.") from error


@tool
async def plain() -> None:
    """Refuse, without a cause."""
    raise ToolError("Out of order.")


@tool(confirm=True)
async def wait(amount: int) -> str:
    """Wait."""
    return "done"


@tool
async def outer(ctx: Context) -> Any:
    """Call another tool and fail with it."""
    return (await ctx.call("crash")).unwrap()


async def raised_by(name: str, arguments: Any = None) -> ToolError:
    async with Runtime(crash, refuse, plain, wait, outer) as runtime:
        outcome = await runtime.call(name, arguments)
    with pytest.raises(ToolError) as caught:
        outcome.unwrap()
    return caught.value


async def test_the_error_of_a_crash_names_the_tool_and_its_cause_is_the_exception() -> None:
    error = await raised_by("crash")

    assert (error.tool, error.code) == ("crash", "crashed")
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.__cause__.__traceback__ is not None


async def test_the_cause_of_a_tool_error_is_what_it_was_raised_from() -> None:
    error = await raised_by("refuse")

    assert (type(error), error.tool, str(error)) == (NotFound, "refuse", "No file 'a.txt'.")
    assert isinstance(error.__cause__, KeyError)


async def test_the_cause_of_a_tool_error_without_one_is_the_error_itself() -> None:
    error = await raised_by("plain")

    assert (error.tool, str(error.__cause__)) == ("plain", "Out of order.")


async def test_wrong_arguments_and_waiting_calls_name_their_tool_too() -> None:
    wrong, waiting = await raised_by("wait", {"amount": "many"}), await raised_by("wait", {"amount": 1})

    assert (type(wrong), wrong.tool) == (InvalidArguments, "wait")
    assert (type(waiting), waiting.tool) == (StillPending, "wait")


async def test_an_unknown_tool_is_named_as_it_was_called() -> None:
    assert (await raised_by("nonesuch")).tool == "nonesuch"


async def test_a_failure_within_a_call_keeps_the_inner_tool_as_its_cause() -> None:
    error = await raised_by("outer")

    assert error.tool == "outer"
    assert isinstance(error.__cause__, ToolError)
    assert error.__cause__.tool == "crash"
    assert isinstance(error.__cause__.__cause__, ZeroDivisionError)


async def test_a_tool_that_runs_without_a_runtime_is_named_too() -> None:
    with pytest.raises(ToolError) as caught:
        (await crash.run()).unwrap()

    assert caught.value.tool == "crash"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_failure_of_no_call_names_no_tool() -> None:
    with pytest.raises(ToolError) as caught:
        Failed("denied", "No.").unwrap()

    assert (caught.value.tool, caught.value.__cause__) == ("", None)


async def test_a_failure_does_not_outlive_its_last_reference() -> None:
    money: list[weakref.ref[Money]] = []

    @tool
    async def spend() -> None:
        """Fail while holding something."""
        held = Money()
        money.append(weakref.ref(held))
        raise ToolError("Nothing left.")

    async with Runtime(spend) as runtime:
        gc.disable()
        try:
            outcome = await runtime.call("spend")
            assert not outcome.ok
            del outcome
            assert money[0]() is None
        finally:
            gc.enable()
