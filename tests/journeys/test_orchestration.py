"""Orchestration: what happens around a call, in which order, and what a model reads of it."""

import asyncio
import json
import logging
from typing import Any

import pytest

from surehand import (
    Denied,
    Failed,
    InvalidArguments,
    NotFound,
    Queue,
    Runtime,
    TimedOut,
    ToolError,
    middleware,
    tool,
)
from surehand.testing import ManualClock, settle


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def hang() -> None:
    """Never answer."""
    await asyncio.Event().wait()


@tool
async def broken() -> None:
    """Never work."""
    raise ToolError("out of paper")


async def test_a_cached_answer_waits_in_no_line() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    @tool(effects={"read"}, cache="5m", queue="narrow")
    async def look(at: str) -> str:
        """Look."""
        if at == "slow":
            entered.set()
            await release.wait()
        return at

    async with Runtime(look, queues={"narrow": Queue(concurrent=1)}) as runtime:
        first = await runtime.call("look", {"at": "here"})
        holder = asyncio.create_task(runtime.call("look", {"at": "slow"}))
        await entered.wait()
        again = await runtime.call("look", {"at": "here"})
        waiting = runtime.queues()["narrow"].waiting
        release.set()
        await holder

    assert (first.data, again.data, again.meta.cached, waiting) == ("here", "here", True, 0)


async def test_wrong_names_and_wrong_arguments_take_no_slot_and_no_budget() -> None:
    async with Runtime(add, hang, defaults={"max_concurrent": 1}) as runtime:
        holder = asyncio.create_task(runtime.call("hang", call_id="h"))
        await settle()
        turn = runtime.scope(max_calls=1)
        unknown, wrong = await turn.call("ad"), await turn.call("add", {"a": "one", "b": 2})
        await runtime.cancel("h")
        await holder
        right, spent = await turn.call("add", {"a": 1, "b": 2}), await turn.call("add", {"a": 1, "b": 2})

    assert [each.code for each in (unknown, wrong, spent)] == ["not_found", "invalid_arguments", "limit_exceeded"]
    assert not any(each.executed for each in (unknown, wrong, spent))
    assert right.data == 3


async def test_a_model_reads_how_each_call_ended() -> None:
    @tool(max_bytes=1_000)
    async def big() -> str:
        """Give much."""
        return "line\n" * 1_000

    clock = ManualClock()
    async with Runtime(add, hang, broken, big, clock=clock) as runtime:
        slow = asyncio.create_task(runtime.call("hang"))
        await clock.advance(30)
        texts = {
            "timed out": (await slow).text,
            "failed": (await runtime.call("broken")).text,
            "unknown": (await runtime.call("addd")).text,
            "too many": (await runtime.scope(max_calls=0).call("add", {"a": 1, "b": 2})).text,
            "no room": (await runtime.scope(max_tokens=10).call("big")).text,
        }
        handle = json.loads((await runtime.call("big")).text)["tool_output"]

    assert texts["timed out"] == "(tool failed: hang timed out after 30 s.)"
    assert texts["failed"] == "(tool failed: out of paper)"
    assert texts["unknown"] == "(tool failed: Unknown tool: 'addd'. Did you mean add?)"
    assert texts["too many"].startswith("(tool failed: per-turn tool limit of 0 exceeded")
    assert texts["no room"].startswith("(tool failed: context window budget exceeded")
    assert (handle["reason"], handle["bytes"], handle["tokens"]) == ("size_limit_exceeded", 5_000, 1_250)
    assert handle["lines"] >= 1_000
    assert handle["handle"]


async def test_once_an_output_did_not_fit_the_rest_of_the_turn_is_refused() -> None:
    @tool
    async def big() -> str:
        """Give much."""
        return "x" * 4_000

    async with Runtime(add, big) as runtime:
        turn = runtime.scope(max_tokens=100)
        first, later = await turn.call("big"), await turn.call("add", {"a": 1, "b": 2})
        next_turn = await runtime.scope(max_tokens=100).call("add", {"a": 1, "b": 2})

    assert (first.code, first.executed) == ("over_budget", True)
    assert (later.code, later.executed) == ("over_budget", False)
    assert next_turn.data == 3


async def test_a_hanging_tool_gives_its_slot_to_the_next_when_its_time_is_up() -> None:
    clock = ManualClock()
    async with Runtime(add, hang, defaults={"max_concurrent": 1, "tool_timeout": 2.0}, clock=clock) as runtime:
        stuck = [asyncio.create_task(runtime.call("hang")) for _ in range(3)]
        await settle()
        last = asyncio.create_task(runtime.call("add", {"a": 1, "b": 2}))
        for _ in stuck:
            await clock.advance(2)
        codes = [(await call).code for call in stuck]

        assert codes == ["timed_out"] * 3
        assert (await last).data == 3


async def test_no_more_calls_run_at_once_than_the_runtime_allows() -> None:
    running, most, open_gate = 0, 0, asyncio.Event()

    @tool
    async def work(n: int) -> int:
        """Work."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await open_gate.wait()
        running -= 1
        return n

    async with Runtime(work, defaults={"max_concurrent": 3}) as runtime:
        calls = [asyncio.create_task(runtime.call("work", {"n": n})) for n in range(10)]
        await settle()
        assert running == 3
        open_gate.set()
        outcomes = await asyncio.gather(*calls)

    assert most == 3
    assert [outcome.data for outcome in outcomes] == list(range(10))


async def test_a_time_limit_of_half_a_minute_holds_where_none_is_set() -> None:
    clock = ManualClock()
    async with Runtime(hang, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("hang"))
        await clock.advance(29.9)
        assert not call.done()
        await clock.advance(0.1)

        assert (await call).code == "timed_out"


@pytest.mark.parametrize(
    ("error", "code"),
    [(NotFound, "not_found"), (InvalidArguments, "invalid_arguments"), (Denied, "denied"), (TimedOut, "timed_out")],
)
async def test_an_error_of_a_kind_is_raised_coded_and_caught_as_that_kind(error: type[ToolError], code: str) -> None:
    @tool
    async def fail() -> None:
        """Fail."""
        try:
            raise OSError("underneath")
        except OSError as cause:
            raise error("/etc/shadow: no") from cause

    async with Runtime(fail) as runtime:
        outcome = await runtime.call("fail")

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message, outcome.meta.tool) == (code, "/etc/shadow: no", "fail")
    with pytest.raises(error, match="/etc/shadow: no"):
        outcome.unwrap()


async def test_failures_of_the_runtime_itself_are_caught_by_their_kind_too() -> None:
    clock = ManualClock()
    async with Runtime(add, hang, policy=[{"tools": "broken", "decision": "deny"}], clock=clock) as runtime:
        await runtime.add(broken)
        slow = asyncio.create_task(runtime.call("hang"))
        await clock.advance(30)
        for outcome, error in [
            (await runtime.call("nothing"), NotFound),
            (await runtime.call("add", {"a": 1}), InvalidArguments),
            (await runtime.call("broken"), Denied),
            (await slow, TimedOut),
        ]:
            with pytest.raises(error):
                outcome.unwrap()


async def test_requests_answers_and_failures_are_logged_with_where_they_went(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "surehand.calls"):
        async with Runtime(add, broken, middleware=[middleware.logging()]) as runtime:
            await runtime.call("add", {"a": 1, "b": 2})
            await runtime.call("broken")

    told = [
        (record.levelname, record.getMessage().split(" ")[:4][-1], record.__dict__["remote"])
        for record in caplog.records
    ]
    assert told == [
        ("DEBUG", "add", "function::add"),
        ("DEBUG", "add", "function::add"),
        ("DEBUG", "broken", "function::broken"),
        ("WARNING", "broken", "function::broken"),
    ]


async def test_whatever_a_call_meets_the_caller_gets_an_outcome_and_no_exception() -> None:
    @tool
    async def crash(how: str) -> Any:
        """Crash."""
        raise {"bug": RuntimeError, "exit": SystemExit, "memory": MemoryError}[how]("no")

    async with Runtime(crash, add) as runtime:
        outcomes = [await runtime.call("crash", {"how": how}) for how in ("bug", "exit", "memory")]
        good = await runtime.call("add", {"a": 1, "b": 2})

    assert [outcome.code for outcome in outcomes] == ["crashed"] * 3
    assert good.data == 3
