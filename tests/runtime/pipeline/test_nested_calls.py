"""Nested calls: a handler calls other tools, and handles their Pending outcomes."""

import asyncio
from typing import Any

import pytest

from surehand import Context, Done, Failed, Outcome, Pending, Runtime, ToolError, tool
from surehand.testing import ManualClock


@tool
async def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool(confirm=True)
async def pay(amount: int = 5) -> str:
    """Pay an amount."""
    return f"paid {amount}"


choose = tool.client("choose", "Let the person choose.", reply="later")


@tool
async def passing_on(name: str, ctx: Context) -> Outcome:
    """Call another tool and return what it gave."""
    return await ctx.call(name)


@tool
async def unwrapping(name: str, ctx: Context) -> Any:
    """Call another tool and take its value."""
    return (await ctx.call(name)).unwrap()


def pending(outcome: Outcome) -> Pending:
    assert isinstance(outcome, Pending), outcome
    return outcome


def failed(outcome: Outcome, code: str) -> Failed:
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == code, outcome
    return outcome


def id_of(outcome: Outcome) -> str:
    found = pending(outcome).call_id
    assert found
    return found


async def inner_id(runtime: Runtime) -> str:
    (wait,) = await runtime.pending()
    return wait.call_id


async def test_a_nested_call_gives_the_inner_outcome() -> None:
    seen: list[Outcome] = []

    @tool
    async def outer(ctx: Context) -> int:
        """Calls others."""
        seen.append(await ctx.call("double", {"number": 4}))
        seen.append(await ctx.call("double", {"number": "many"}))
        seen.append(await ctx.call("dubble"))
        return len(seen)

    async with Runtime(outer, double) as runtime:
        outcome = await runtime.call("outer")

    assert outcome == Done(3)
    assert seen[0] == Done(8)
    failed(seen[1], "invalid_arguments")
    failed(seen[2], "not_found")


async def test_a_nested_failure_is_a_value_until_it_is_unwrapped() -> None:
    @tool
    async def broken() -> None:
        """Never works."""
        raise ToolError("the printer is on fire", code="unavailable")

    async with Runtime(broken, passing_on, unwrapping) as runtime:
        passed = failed(await runtime.call("passing_on", {"name": "broken"}), "unavailable")
        unwrapped = failed(await runtime.call("unwrapping", {"name": "broken"}), "unavailable")

    assert passed.message == unwrapped.message == "the printer is on fire"
    assert passed.executed
    assert unwrapped.executed


async def test_returning_an_inner_pending_makes_the_outer_call_wait() -> None:
    async with Runtime(passing_on, pay) as runtime:
        outer = pending(await runtime.call("passing_on", {"name": "pay"}, call_id="outer"))
        waits = await runtime.pending()

    assert (outer.call_id, outer.waiting_for) == ("outer", "approval")
    assert [wait.tool for wait in waits] == ["pay"]
    assert waits[0].call_id != "outer"


@pytest.mark.parametrize("through", ["inner", "outer"])
async def test_approving_the_inner_or_the_outer_call_ends_both(through: str) -> None:
    ended: dict[str, Outcome] = {}
    async with Runtime(passing_on, pay) as runtime:
        await runtime.call("passing_on", {"name": "pay"}, call_id="outer")
        inner = await inner_id(runtime)
        runtime.listen(
            lambda event: ended.update({event.call_id: event.outcome}) if type(event).__name__ == "CallEnded" else None
        )
        answered = await runtime.approve("outer" if through == "outer" else inner)
        left = await runtime.pending()
        outer = await runtime.call("passing_on", {"name": "pay"}, call_id="outer")

    assert answered == outer == Done("paid 5")
    assert ended == {inner: Done("paid 5"), "outer": Done("paid 5")}
    assert left == []


async def test_rejecting_the_inner_call_ends_the_outer_one_too() -> None:
    async with Runtime(passing_on, pay) as runtime:
        await runtime.call("passing_on", {"name": "pay"}, call_id="outer")
        await runtime.reject(await inner_id(runtime), "too expensive")
        outer = failed(await runtime.call("passing_on", {"name": "pay"}, call_id="outer"), "rejected")

    assert "too expensive" in outer.text


async def test_edited_arguments_are_meant_for_the_inner_call_whichever_id_is_approved() -> None:
    async with Runtime(passing_on, pay) as runtime:
        await runtime.call("passing_on", {"name": "pay"}, call_id="outer")
        failed(await runtime.approve("outer", arguments={"amount": "much"}), "invalid_arguments")
        still_open = len(await runtime.pending())
        outcome = await runtime.approve("outer", arguments={"amount": 7})

    assert still_open == 1
    assert outcome == Done("paid 7")


async def test_settling_the_outer_id_answers_the_inner_client_tool() -> None:
    async with Runtime(passing_on, choose) as runtime:
        await runtime.call("passing_on", {"name": "choose"}, call_id="outer")
        inner = await inner_id(runtime)

        assert await runtime.settle("outer", "large") == Done("large")
        assert await runtime.settle(inner, "large") == Done("large")
        failed(await runtime.settle("outer", "small"), "conflict")


async def test_calls_may_wait_for_one_another_several_deep() -> None:
    @tool
    async def outermost(ctx: Context) -> Outcome:
        """Calls one that calls one that asks."""
        return await ctx.call("passing_on", {"name": "pay"})

    async with Runtime(outermost, passing_on, pay) as runtime:
        await runtime.call("outermost", call_id="top")
        await runtime.approve(await inner_id(runtime))

        assert await runtime.call("outermost", call_id="top") == Done("paid 5")
        assert await runtime.pending() == []


async def test_an_inner_call_that_has_ended_does_not_keep_the_outer_one_pending() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def outer(ctx: Context) -> Outcome:
        """Returns late."""
        inner = await ctx.call("pay")
        asked.set()
        await go_on.wait()
        return inner

    async with Runtime(outer, pay) as runtime:
        running = asyncio.create_task(runtime.call("outer"))
        await asked.wait()
        await runtime.approve(await inner_id(runtime))
        go_on.set()

        assert await running == Done("paid 5")


async def test_an_inner_call_that_expires_ends_the_outer_one() -> None:
    clock = ManualClock()
    async with Runtime(passing_on, pay, clock=clock, defaults={"pending_ttl": 60.0}) as runtime:
        await runtime.call("passing_on", {"name": "pay"}, call_id="outer")
        await clock.advance(60)

        failed(await runtime.call("passing_on", {"name": "pay"}, call_id="outer"), "expired")


async def test_an_outer_call_ends_once_and_a_different_answer_to_it_is_a_conflict() -> None:
    async with Runtime(passing_on, pay) as runtime:
        await runtime.call("passing_on", {"name": "pay"}, call_id="outer")
        inner = await inner_id(runtime)
        await runtime.reject(inner, "no")

        failed(await runtime.approve("outer"), "conflict")


async def test_unwrapping_a_pending_interrupts_the_outer_call_and_names_the_inner_id() -> None:
    async with Runtime(unwrapping, pay) as runtime:
        outcome = failed(await runtime.call("unwrapping", {"name": "pay"}), "interrupted")
        inner = await inner_id(runtime)
        approved = await runtime.approve(inner)

    assert outcome.executed
    assert inner in outcome.message
    assert outcome.data == inner
    assert approved == Done("paid 5")


async def test_a_handler_may_catch_the_error_of_unwrapping_a_pending() -> None:
    @tool
    async def outer(ctx: Context) -> str:
        """Goes on without the answer."""
        try:
            return (await ctx.call("choose")).unwrap()
        except ToolError as error:
            return f"later: {error.code}"

    async with Runtime(outer, choose) as runtime:
        assert await runtime.call("outer") == Done("later: interrupted")


async def test_events_tell_which_call_is_part_of_which() -> None:
    started: list[Any] = []
    async with Runtime(passing_on, double, pay) as runtime:
        runtime.listen(lambda event: started.append(event) if type(event).__name__ == "CallStarted" else None)
        await runtime.call("passing_on", {"name": "double"}, call_id="outer")

    outer, inner = started
    assert (outer.tool, outer.parent) == ("passing_on", None)
    assert (inner.tool, inner.parent) == ("double", "outer")
    assert inner.call_id not in (None, "outer")


async def test_a_nested_call_is_made_for_the_same_people_with_the_same_things() -> None:
    class Sandbox: ...

    @tool
    async def inner(ctx: Context) -> list[Any]:
        """Say for whom it runs."""
        ctx.state["count"] = ctx.state.get("count", 0) + 1
        return [ctx.user, ctx.session, ctx.agent, ctx.space, ctx.use(Sandbox) is sandbox, ctx.state["count"]]

    sandbox = Sandbox()
    async with Runtime(passing_on, inner) as runtime:
        scope = runtime.scope(sandbox, user="ann", session="s1", agent="a", space="sp")
        first = await scope.call("passing_on", {"name": "inner"})
        second = await scope.call("inner")

    assert first == Done(["ann", "s1", "a", "sp", True, 1])
    assert second == Done(["ann", "s1", "a", "sp", True, 2])


async def test_the_wait_of_a_nested_call_belongs_to_the_user_of_the_outer_one() -> None:
    async with Runtime(passing_on, pay) as runtime:
        ann, eve = runtime.scope(user="ann"), runtime.scope(user="eve")
        await ann.call("passing_on", {"name": "pay"})
        inner = await inner_id(runtime)

        assert await eve.pending() == []
        failed(await eve.approve(inner), "not_found")
        assert [wait.user for wait in await ann.pending()] == ["ann"]


async def test_a_nested_call_has_its_own_time_limit() -> None:
    clock, started = ManualClock(), asyncio.Event()

    @tool
    async def slow() -> None:
        """Never ends."""
        started.set()
        await asyncio.Event().wait()

    @tool
    async def outer(ctx: Context) -> str:
        """Waits five seconds for another."""
        return (await ctx.call("slow", timeout=5)).text

    async with Runtime(outer, slow, clock=clock) as runtime:
        running = asyncio.create_task(runtime.call("outer"))
        await started.wait()
        await clock.advance(5)

        assert "timed out after 5 s" in (await running).unwrap()


async def test_cancelling_the_outer_call_cancels_the_inner_one() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> None:
        """Never ends."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with Runtime(passing_on, slow) as runtime:
        running = asyncio.create_task(runtime.call("passing_on", {"name": "slow"}, call_id="outer"))
        await started.wait()
        await runtime.cancel("outer")

        failed(await running, "cancelled")
        assert stopped.is_set()
        assert runtime.stats().running == 0
