"""Handlers that raise, return or block in unusual ways: every call still gets an outcome."""

import asyncio
import errno
import logging
import sys
import threading
from collections import UserDict
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import pytest
from pydantic import BaseModel

from surehand import Done, Failed, Runtime, ToolError, tool
from surehand.testing import settle

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL, "surehand")


@tool
async def well() -> str:
    """End well."""
    return "fine"


class Unreadable(Exception):
    def __str__(self) -> str:
        raise self


class Nasty(Exception):
    def __str__(self) -> str:
        return "first line\nsecond line\nTraceback (most recent call last):"


class Renamed(ToolError):
    code = "no such code"


RAISED = [
    ValueError("bad value"),
    Exception(),
    SystemExit(3),
    SystemExit("bye"),
    BaseException("base"),
    ExceptionGroup("many", [ValueError("a"), OSError("b")]),
    BaseExceptionGroup("all", [SystemExit(1), ValueError("x")]),
    BaseExceptionGroup("cancelled", [asyncio.CancelledError()]),
    OSError(errno.ENOSPC, "No space left on device"),
    BrokenPipeError(),
    ConnectionResetError("gone"),
    MemoryError(),
    RecursionError("deep"),
    TimeoutError("their own"),
    asyncio.InvalidStateError(),
    StopAsyncIteration(),
    NotImplementedError(),
    AssertionError("no"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    Unreadable(),
    Nasty(),
    Renamed("strange"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("style", ["quick", "slow", "thread", "stream", "generator"])
async def test_every_exception_of_a_handler_becomes_a_failure(error, style):
    @tool
    async def quick() -> None:
        """Raise at once."""
        raise error

    @tool
    async def slow() -> None:
        """Raise later."""
        await asyncio.sleep(0)
        raise error

    @tool
    def thread() -> None:
        """Raise in a thread."""
        raise error

    @tool
    async def stream():
        """Raise in a stream."""
        yield 1
        raise error

    @tool
    def generator():
        """Raise in a generator."""
        yield 1
        raise error

    async with Runtime(quick, slow, thread, stream, generator, well) as runtime:
        outcome = await runtime.call(style)
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.executed) == ("crashed", True)
        assert "Traceback" not in outcome.text
        assert outcome.meta.latency_ms >= 0
        assert await runtime.call("well") == Done("fine")
        assert runtime.stats().running == 0


@pytest.mark.parametrize("style", ["quick", "slow", "thread"])
async def test_stop_iteration_is_a_crash_like_any_other(style):
    @tool
    async def quick() -> None:
        """Raise at once."""
        next(iter(()))

    @tool
    async def slow() -> None:
        """Raise later."""
        await asyncio.sleep(0)
        next(iter(()))

    @tool
    def thread() -> None:
        """Raise in a thread."""
        next(iter(()))

    async with Runtime(quick, slow, thread, well) as runtime:
        assert (await runtime.call(style)).code == "crashed"
        assert (await runtime.call("well")).ok


async def test_a_handler_that_calls_sys_exit_does_not_end_the_program():
    @tool
    def leave() -> None:
        """Leave."""
        sys.exit("goodbye")

    async with Runtime(leave, well) as runtime:
        assert (await runtime.call("leave")).code == "crashed"
        assert (await runtime.call("well")).ok


@pytest.mark.parametrize("style", ["quick", "slow", "thread"])
def test_a_keyboard_interrupt_is_meant_for_the_program(style):
    @tool
    async def quick() -> None:
        """Interrupt at once."""
        raise KeyboardInterrupt

    @tool
    async def slow() -> None:
        """Interrupt later."""
        await asyncio.sleep(0)
        raise KeyboardInterrupt

    @tool
    def thread() -> None:
        """Interrupt in a thread."""
        raise KeyboardInterrupt

    async def main() -> None:
        async with Runtime(quick, slow, thread) as runtime:
            await runtime.call(style)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


@pytest.mark.parametrize("how", ["raise", "cancel itself", "await a cancelled future"])
async def test_a_handler_that_cancels_itself_does_not_cancel_its_caller(how):
    @tool
    async def strange() -> None:
        """Cancel itself."""
        await asyncio.sleep(0)
        if how == "raise":
            raise asyncio.CancelledError
        if how == "cancel itself":
            asyncio.current_task().cancel()
            await asyncio.sleep(0)
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async with Runtime(strange, well) as runtime:
        outcome = await runtime.call("strange")
        assert (outcome.code, outcome.executed) == ("cancelled", True)
        assert (await runtime.call("well")).ok
        assert asyncio.current_task().cancelling() == 0


async def test_a_handler_that_leaves_a_loop_of_tasks_behind_ends_with_its_own_outcome():
    left = []

    @tool
    async def messy() -> str:
        """Leave a task behind."""
        left.append(asyncio.create_task(asyncio.Event().wait()))
        return "done"

    async with Runtime(messy) as runtime:
        assert (await runtime.call("messy")).data == "done"

    left[0].cancel()
    await asyncio.wait(left)


async def test_a_handler_that_ignores_being_cancelled_is_ended_when_the_runtime_closes():
    never, ended = asyncio.Event(), []

    @tool
    async def ignore() -> None:
        """Ignore that one is cancelled."""
        try:
            while True:
                with suppress(asyncio.CancelledError):
                    await never.wait()
        finally:
            ended.append(True)

    async with Runtime(ignore, well) as runtime:
        call = asyncio.create_task(runtime.call("ignore", call_id="c1"))
        await settle()
        began = monotonic()
        await runtime.cancel("c1")
        assert (await call).code == "cancelled"
        assert monotonic() - began < 20
        assert (await runtime.call("well")).ok
        assert ended == []
    assert ended == [True]


class Circle:
    pass


class Model(BaseModel):
    name: str = "x"
    more: list[int] = [1]


@dataclass
class Point:
    x: int = 1
    y: float = 2.5


def deep(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


def circular() -> dict:
    value: dict = {}
    value["self"] = [value]
    return value


UNWRITABLE = {
    "object": object(),
    "instance": Circle(),
    "class": Circle,
    "function": len,
    "circular": circular(),
    "deep": deep(100_000),
    "lock": threading.Lock(),
    "module": sys,
    "nested": {"a": [1, {"b": object()}]},
    "lone surrogate inside": ["\ud800"],
    "5,000 digits": 10**5000,
    "complex dict": {object(): 1},
}


@pytest.mark.parametrize("kind", UNWRITABLE)
async def test_a_value_that_cannot_be_written_is_a_crash_of_that_call(kind):
    @tool
    async def give():
        """Give it."""
        return UNWRITABLE[kind]

    async with Runtime(give, well) as runtime:
        outcome = await runtime.call("give")
        assert isinstance(outcome, (Done, Failed))
        if isinstance(outcome, Failed):
            assert outcome.code == "crashed"
            assert len(outcome.text) < 1_000
        assert isinstance(outcome.text, str)
        assert (await runtime.call("well")).ok


WRITABLE = {
    "nothing": (None, "(no output)"),
    "empty": ("", "(no output)"),
    "yes": (True, "true"),
    "big": (10**25, "1" + "0" * 25),
    "largest": (2**63 - 1, str(2**63 - 1)),
    "smallest": (-(2**63), str(-(2**63))),
    "nan": (float("nan"), '"NaN"'),
    "infinity": ([float("inf")], '["Infinity"]'),
    "model": (Model(), '{"name":"x","more":[1]}'),
    "dataclass": (Point(), '{"x":1,"y":2.5}'),
    "bytes": (b"\xff\x00", '"_wA="'),
    "set": ({1}, "[1]"),
    "tuple": ((1, "a"), '[1,"a"]'),
    "number keys": ({1: 2}, '{"1":2}'),
    "nul": ("a\x00b", "a\x00b"),
}


@pytest.mark.parametrize("kind", WRITABLE)
async def test_a_serialisable_value_is_preserved_and_shown_as_json(kind):
    value, text = WRITABLE[kind]

    @tool
    async def give():
        """Give it."""
        return value

    async with Runtime(give) as runtime:
        outcome = await runtime.call("give")

    assert outcome.ok
    assert outcome.data is value
    assert outcome.text.replace("/", "_") == text


async def test_a_mapping_of_its_own_kind_has_some_outcome():
    @tool
    async def give():
        """Give it."""
        return UserDict(a=1)

    async with Runtime(give, well) as runtime:
        assert isinstance(await runtime.call("give"), (Done, Failed))
        assert (await runtime.call("well")).ok


async def test_a_generator_that_is_returned_has_some_outcome():
    @tool
    async def give():
        """Give it."""
        return (n for n in range(3))

    async with Runtime(give, well) as runtime:
        outcome = await runtime.call("give")
        assert outcome.text == "[0,1,2]" or outcome.code == "crashed"
        assert (await runtime.call("well")).ok


@pytest.mark.long
async def test_an_output_of_two_hundred_megabytes_is_stored_and_not_shown():
    @tool
    async def huge() -> str:
        """Give much."""
        return "x" * 200_000_000

    async with Runtime(huge, well) as runtime:
        outcome = await runtime.call("huge")
        assert len(outcome.data) == 200_000_000
        assert len(outcome.text) < 2_000
        assert (await runtime.call("well")).ok


async def test_the_outcomes_a_handler_may_return_are_taken_as_they_are():
    @tool
    async def done() -> Done:
        """Give an outcome."""
        return Done({"a": 1}, title="A", metadata={"b": 2})

    @tool
    async def failed() -> Failed:
        """Give a failure."""
        return Failed("conflict", "taken")

    @tool
    async def unwritable() -> Done:
        """Give an outcome that cannot be written."""
        return Done(object())

    async with Runtime(done, failed, unwritable) as runtime:
        first, second = await runtime.call("done"), await runtime.call("failed")
        assert (first.data, first.title, first.metadata) == ({"a": 1}, "A", {"b": 2})
        assert (second.code, second.executed) == ("conflict", True)
        assert (await runtime.call("unwritable")).code == "crashed"


# What a crash shows


async def crash_text(error: BaseException, **settings) -> str:
    @tool
    async def crash() -> None:
        """Crash."""
        raise error

    async with Runtime(crash, **settings) as runtime:
        outcome = await runtime.call("crash")
    assert outcome.code == "crashed"
    return outcome.text


async def test_a_crash_shows_its_type_and_the_first_line():
    text = await crash_text(KeyError("\n  first line\nsecond line\nthird"))
    assert "KeyError" in text

    text = await crash_text(ValueError("\n  first line\nsecond line\nthird"))
    assert "ValueError: first line" in text
    assert "second" not in text
    assert "test_hostile" not in text


async def test_a_crash_shows_at_most_five_hundred_characters_of_it():
    text = await crash_text(ValueError("x" * 100_000))

    assert len(text) < 650
    assert "ValueError: xxx" in text


async def test_a_crash_does_not_show_known_secrets():
    text = await crash_text(ValueError("login as root:hunter22 failed"), secrets=["hunter22"])

    assert "hunter22" not in text
    assert "login as root:" in text


async def test_a_secret_at_the_cut_does_not_show_either():
    text = await crash_text(ValueError("x" * 480 + "hunter22hunter22"), secrets=["hunter22hunter22"])

    assert "hunter" not in text


async def test_a_runtime_can_keep_the_details_of_crashes_to_itself():
    text = await crash_text(ValueError("inside information"), crash_details=False)

    assert "ValueError" in text
    assert "inside" not in text


async def test_a_crash_is_logged_whole_for_the_developer(caplog):
    caplog.set_level(logging.ERROR, "surehand")

    await crash_text(ValueError("first\nsecond"))

    assert "second" in caplog.text
    assert "Traceback" in caplog.text


async def test_a_tool_error_is_shown_as_it_was_written():
    @tool
    async def fail() -> None:
        """Fail."""
        raise ToolError("No file 'a'.\nNear matches: b.", code="not_found", data={"near": ["b"]})

    async with Runtime(fail) as runtime:
        outcome = await runtime.call("fail")

    assert outcome.text == "Tool failed: No file 'a'.\nNear matches: b."
    assert (outcome.code, outcome.data, outcome.executed) == ("not_found", {"near": ["b"]}, True)


async def test_a_listener_that_raises_does_not_break_a_call():
    def listener(event) -> None:
        raise RuntimeError("deaf")

    async with Runtime(well) as runtime:
        runtime.listen(listener)
        assert (await runtime.call("well")).data == "fine"
