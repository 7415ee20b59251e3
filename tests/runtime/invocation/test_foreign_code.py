"""Functions of the application in the pipeline: whatever they raise, and however they ignore their cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Approval, Done, Failed, Pending, Policy, Runtime, tool
from surehand.core.outcome import Outcome
from surehand.runtime.pipeline.installed_middleware import OuterMiddleware
from surehand.testing import ManualClock, settle


class OwnBaseException(BaseException):
    """An exception that `except Exception` does not catch."""


RAISED = [asyncio.CancelledError, SystemExit, GeneratorExit, OwnBaseException, RuntimeError]


def raising(error: type[BaseException], *, is_async: bool) -> Any:
    """A function of any arguments that raises."""

    def raise_now(*arguments: Any) -> Any:
        raise error("from the application")

    async def raise_later(*arguments: Any) -> Any:
        await asyncio.sleep(0)
        raise error("from the application")

    return raise_later if is_async else raise_now


def make_tool(**facets: Any) -> Any:
    @tool(**{"effects": {"write"}, **facets})
    async def pay(amount: int = 1) -> str:
        """Pay."""
        await asyncio.sleep(0)
        return f"paid {amount}"

    return pay


def assert_pending(outcome: Outcome) -> None:
    assert isinstance(outcome, Pending)
    assert outcome.waiting_for == "approval"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize("facet", ["confirm", "confirm_message", "preview"])
async def test_whatever_a_confirmation_raises_a_person_is_asked(facet, error, is_async):
    facets = {"confirm": True, facet: raising(error, is_async=is_async)}

    async with Runtime(make_tool(**facets)) as runtime:
        assert_pending(await runtime.call("pay"))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", RAISED)
async def test_whatever_an_approver_raises_a_person_is_asked(error, is_async):
    async with Runtime(make_tool(confirm=True), approver=raising(error, is_async=is_async)) as runtime:
        assert_pending(await runtime.call("pay"))


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", RAISED)
async def test_whatever_middleware_raises_is_a_crash_of_the_call(error, is_async, outer):
    broken = raising(error, is_async=is_async)
    wrapper = OuterMiddleware(broken) if outer else broken

    async with Runtime(make_tool(), middleware=[wrapper]) as runtime:
        outcome = await runtime.call("pay")

    assert isinstance(outcome, Failed)
    assert outcome.code == "crashed"
    assert error.__name__ in outcome.message


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", RAISED)
async def test_whatever_outer_middleware_raises_for_an_unknown_tool_is_an_outcome(error, is_async):
    wrapper = OuterMiddleware(raising(error, is_async=is_async))

    async with Runtime(middleware=[wrapper]) as runtime:
        assert (await runtime.call("no_such_tool")).code == "crashed"


@pytest.mark.parametrize("error", RAISED)
async def test_a_policy_function_that_raises_denies_the_call(error):
    policy = Policy([{"arguments": {"amount": raising(error, is_async=False)}, "decision": "ask"}])

    async with Runtime(make_tool(), policy=policy) as runtime:
        assert (await runtime.call("pay", {"amount": 2})).code == "denied"


@pytest.mark.parametrize("error", RAISED)
async def test_a_policy_function_that_raises_for_edited_arguments_denies_the_call(error):
    def check(amount: int) -> bool:
        if amount == 2:
            raise error("from the application")
        return False

    async def edit(pending: Any) -> Any:
        return Approval(True, arguments={"amount": 2})

    policy = Policy([{"arguments": {"amount": check}, "decision": "deny"}, {"decision": "ask"}])
    async with Runtime(make_tool(), policy=policy, approver=edit) as runtime:
        assert (await runtime.call("pay", {"amount": 1})).code == "denied"


@pytest.mark.parametrize("error", RAISED)
async def test_a_time_limit_function_that_raises_is_a_crash_before_the_handler_ran(error):
    async with Runtime(make_tool(timeout=raising(error, is_async=False))) as runtime:
        outcome = await runtime.call("pay")

    assert (outcome.code, outcome.executed) == ("crashed", False)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", RAISED)
async def test_whatever_on_commit_raises_changes_no_outcome(error, is_async):
    async with Runtime(make_tool(), on_commit=raising(error, is_async=is_async)) as runtime:
        assert (await runtime.call("pay")).data == "paid 1"


@pytest.mark.parametrize("error", RAISED)
async def test_whatever_a_listener_raises_changes_no_outcome(error):
    async with Runtime(make_tool()) as runtime:
        runtime.listen(raising(error, is_async=False))
        assert (await runtime.call("pay")).data == "paid 1"


async def test_a_confirmation_cannot_change_the_nested_arguments_that_run():
    seen: list[Any] = []

    def confirm(arguments: dict[str, Any], context: Any) -> bool:
        arguments["to"]["account"] = "mallory"
        return False

    @tool(effects={"write"}, confirm=confirm)
    async def send(to: dict[str, Any]) -> None:
        """Send."""
        seen.append(to)

    async with Runtime(send) as runtime:
        await runtime.call("send", '{"to": {"account": "ann"}}')

    assert seen == [{"account": "ann"}]


class Stubborn:
    """A function that ignores every cancellation until it is released."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.released = asyncio.Event()
        self.cancellations = 0

    async def __call__(self, *arguments: Any) -> Any:
        self.started.set()
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancellations += 1
        return None


def runtime_with(stubborn: Stubborn, place: str, **options: Any) -> Runtime:
    async def wrapper(invocation: Any, proceed: Any) -> Any:
        await stubborn()
        return Done("too late")

    async def wrapper_after(invocation: Any, proceed: Any) -> Any:
        outcome = await proceed(invocation)
        await stubborn()
        return outcome

    match place:
        case "approver":
            return Runtime(make_tool(confirm=True), approver=stubborn, **options)
        case "middleware":
            return Runtime(make_tool(), middleware=[wrapper], **options)
        case "middleware after its handler":
            return Runtime(make_tool(), middleware=[wrapper_after], **options)
        case "outer middleware":
            return Runtime(make_tool(), middleware=[OuterMiddleware(wrapper)], **options)
        case "on_commit":
            return Runtime(make_tool(), on_commit=stubborn, **options)
    return Runtime(make_tool(**{"confirm": True, place: stubborn}), **options)


PLACES = [
    "approver",
    "confirm",
    "confirm_message",
    "preview",
    "middleware",
    "middleware after its handler",
    "outer middleware",
    "on_commit",
]


@pytest.mark.parametrize("place", PLACES)
async def test_code_that_ignores_its_cancellation_does_not_keep_a_caller_with_a_timeout(place):
    stubborn = Stubborn()
    clock = ManualClock()

    async with runtime_with(stubborn, place, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("pay", timeout=5))
        await stubborn.started.wait()
        await clock.advance(5)
        outcome = await call
        still_runs = stubborn.cancellations and not stubborn.released.is_set()
        stubborn.released.set()
        await settle()

    assert outcome.code == "timed_out"
    assert still_runs


@pytest.mark.parametrize("place", PLACES)
async def test_code_that_ignores_its_cancellation_does_not_keep_a_cancelled_call(place):
    stubborn = Stubborn()

    async with runtime_with(stubborn, place) as runtime:
        call = asyncio.create_task(runtime.call("pay", call_id="c1"))
        await stubborn.started.wait()
        assert await runtime.cancel("c1")
        outcome = await call
        stubborn.released.set()
        await settle()

    assert outcome.code == "cancelled"


@pytest.mark.parametrize("place", PLACES)
async def test_code_that_ignores_its_cancellation_does_not_keep_the_task_of_its_caller(place):
    stubborn = Stubborn()

    async with runtime_with(stubborn, place) as runtime:
        call = asyncio.create_task(runtime.call("pay"))
        await stubborn.started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        stubborn.released.set()
        await settle()


@pytest.mark.parametrize("place", ["approver", "middleware"])
async def test_code_that_ignores_its_cancellation_ends_with_the_runtime(place):
    stubborn = Stubborn()

    async with runtime_with(stubborn, place) as runtime:
        await runtime.call("pay", timeout=0.01)

    assert not stubborn.released.is_set()


async def test_a_handler_that_cleans_up_is_waited_for_inside_middleware():
    steps: list[str] = []

    @tool
    async def work() -> None:
        """Work."""
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            steps.append("handler")

    async def wrapper(invocation: Any, proceed: Any) -> Any:
        try:
            return await proceed(invocation)
        finally:
            steps.append("middleware")

    async with Runtime(work, middleware=[wrapper, OuterMiddleware(wrapper)]) as runtime:
        outcome = await runtime.call("work", timeout=0.01)

    assert outcome.code == "timed_out"
    assert steps == ["handler", "middleware", "middleware"]
