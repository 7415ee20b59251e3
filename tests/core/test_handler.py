"""How the return values and errors of a handler become outcomes."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from surehand import Done, Failed, Pending, Runtime, ToolError, tool
from surehand.core.content import Image, Json, Text
from surehand.core.errors import NotFound, RateLimited
from surehand.core.events import CallProgress

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


def returning(value: Any) -> Any:
    @tool(name="give")
    async def give() -> Any:
        return value

    return give


def raising(error: BaseException) -> Any:
    @tool(name="fail")
    async def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("value", [None, "", 0, False, 1.5, 2**70, "text", [1], {"a": (1, 2)}])
async def test_a_returned_value_is_the_data(value: Any) -> None:
    outcome = await returning(value).run()

    assert outcome == Done(value)
    assert type(outcome.data) is type(value)


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (Done(1, title="T"), Done(1, title="T")),
        (Failed("conflict", "no"), Failed("conflict", "no", executed=True)),
        (Pending("input", request={}), Pending("input", request={})),
        (Text("a"), Done("a", content=[Text("a")])),
        ([Text("a"), Image("AAAA")], Done("a\n[image: image/png, 3 bytes]", content=[Text("a"), Image("AAAA")])),
        ([Text("a"), Json([1])], Done([1], content=[Text("a"), Json([1])])),
    ],
    ids=range(6),
)
async def test_a_returned_outcome_or_block_is_taken_as_it_is(value: Any, outcome: Any) -> None:
    assert await returning(value).run() == outcome


async def test_what_json_cannot_hold_crashes_at_once_and_not_later(caplog: pytest.LogCaptureFixture) -> None:
    outcome = await returning(object()).run()

    assert (outcome.code, outcome.executed) == ("crashed", True)
    assert outcome.message.startswith("give returned object, which cannot be written as JSON")
    assert caplog.records


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ToolError("It is gone."), "failed"),
        (NotFound("It is gone."), "not_found"),
        (ToolError("It is gone.", code="conflict"), "conflict"),
        (RateLimited("It is gone.", retry_after=3), "rate_limited"),
    ],
)
async def test_a_tool_error_is_for_the_model_to_read(error: ToolError, code: str) -> None:
    outcome = await raising(error).run()

    assert (outcome.code, outcome.message, outcome.executed) == (code, "It is gone.", True)
    assert outcome.retry_after == error.retry_after


@pytest.mark.parametrize(
    "error", [ValueError("bad\nsecond line"), SystemExit("bad"), ExceptionGroup("bad", [ValueError()]), KeyError("bad")]
)
async def test_any_other_exception_is_a_crash_with_one_line_for_the_model(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = await raising(error).run()

    assert (outcome.code, outcome.executed) == ("crashed", True)
    assert outcome.message.startswith(f"fail crashed with {type(error).__name__}: ")
    assert "bad" in outcome.message
    assert "second line" not in outcome.text
    assert "Traceback" not in outcome.text
    assert caplog.records[0].levelno == logging.ERROR
    assert caplog.records[0].exc_info is not None


async def test_a_crash_message_is_cut() -> None:
    assert len((await raising(ValueError("x" * 10_000)).run()).message) < 700


async def test_a_handler_that_cancels_itself_does_not_cancel_its_caller() -> None:
    assert (await raising(asyncio.CancelledError()).run()).code == "cancelled"


async def test_cancelling_the_caller_raises() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(wait.run())
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_async_generator_is_closed_when_its_caller_is_cancelled() -> None:
    closed, started = [], asyncio.Event()

    @tool
    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
            started.set()
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    task = asyncio.create_task(stream.run())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert closed == [True]


async def _async_steps() -> AsyncIterator[Any]:
    yield {"message": "loading", "fraction": 0.5, "rows": 3}
    yield "half way"
    yield {"status": "complete"}


def _steps() -> Iterator[Any]:
    yield {"message": "loading", "fraction": 0.5, "rows": 3}
    yield "half way"
    yield {"status": "complete"}


@pytest.mark.parametrize("function", [_async_steps, _steps])
async def test_every_value_of_a_generator_is_progress_and_the_last_is_also_the_result(
    function: Callable[[], Any],
) -> None:
    heard = []

    async with Runtime(tool(name="steps")(function)) as runtime:
        runtime.listen(lambda event: heard.append(event) if isinstance(event, CallProgress) else None)
        outcome = await runtime.call("steps")

    assert outcome == Done({"status": "complete"})
    assert [(event.message, event.fraction, event.data) for event in heard] == [
        ("loading", 0.5, {"rows": 3}),
        ("half way", None, {}),
        (None, None, {"status": "complete"}),
    ]


@pytest.mark.parametrize("ending", ["async", "sync"])
async def test_a_generator_that_fails_midway_fails_the_call(ending: str) -> None:
    @tool(name="steps")
    async def a() -> AsyncIterator[int]:
        yield 1
        raise ToolError("midway")

    @tool(name="steps")
    def b() -> Iterator[int]:
        yield 1
        raise ToolError("midway")

    assert await (a if ending == "async" else b).run() == Failed("failed", "midway", executed=True)


async def test_recursion_without_end_is_a_crash() -> None:
    @tool
    async def deep() -> None:
        def again(n: int) -> int:
            return again(n + 1)

        again(0)

    limit = sys.getrecursionlimit()

    assert (await deep.run()).code == "crashed"
    assert sys.getrecursionlimit() == limit


async def test_the_text_of_a_crash_does_not_claim_that_the_call_will_crash_again() -> None:
    @tool
    async def flaky() -> None:
        """Fail now and then."""
        raise ConnectionResetError("peer")

    outcome = await flaky.run()

    assert outcome.text == (
        "(tool failed: flaky crashed with ConnectionResetError: peer. Try other arguments, or another way)"
    )
