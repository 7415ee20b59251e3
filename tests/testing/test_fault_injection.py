"""Injected faults replace the handler, so that everything around it has to deal with them."""

import asyncio
from typing import get_args

import pytest

from surehand import Call, Context, DefinitionError, Done, Queue, Runtime, tool
from surehand.core.errors import FAILURE_CODES, FailureCode
from surehand.testing import (
    RecordingProvider,
    chance,
    crash,
    delay,
    error,
    faulty,
    flaky,
    garbage,
    hang,
    runtime,
    settle,
)


@tool(effects={"read"}, timeout=20)
async def look(what: str = "it") -> str:
    """Look at something."""
    return f"saw {what}"


@pytest.mark.parametrize("code", sorted(FAILURE_CODES))
@pytest.mark.parametrize("executed", [True, False])
async def test_every_failure_code_can_be_injected(code: FailureCode, executed: bool) -> None:
    fault = error(code, f"no {code}", executed=executed, data={"why": code})
    async with runtime(faulty(look, {"look": fault})) as rt:
        outcome = await rt.call("look")

    assert (outcome.code, outcome.message, outcome.executed) == (code, f"no {code}", executed)
    assert outcome.data == {"why": code}


@pytest.mark.parametrize("code", sorted(get_args(FailureCode)))
async def test_every_failure_code_can_be_injected_into_a_provider_too(code: FailureCode) -> None:
    git = RecordingProvider("git", ["push"])
    async with runtime(faulty(git, {"git__p*": error(code)})) as rt:
        outcome = await rt.call("git__push")

    assert outcome.code == code
    assert code.replace("_", " ") in outcome.text
    assert git.calls == []


def test_an_unknown_code_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="'broken' is not a failure code"):
        error("broken")


async def test_a_tool_that_hangs_ends_by_its_own_time_limit() -> None:
    async with runtime(faulty(look, {"look": hang()})) as rt:
        call = asyncio.ensure_future(rt.call("look"))
        await rt.clock.advance(19.9)
        assert not call.done()
        await rt.clock.advance(0.1)

        assert (await call).text == "(tool failed: look timed out after 20 s.)"


async def test_a_provider_that_hangs_is_cancelled_by_its_own_time_limit() -> None:
    git = RecordingProvider("git", ["push"], timeout=3)
    async with runtime(faulty(git, {"*": hang()})) as rt:
        call = asyncio.ensure_future(rt.call("git__push"))
        await rt.clock.advance(3)

        assert (await call).code == "timed_out"
    assert [reason for _, reason in git.cancelled] == ["timed_out"]


async def test_a_tool_that_hangs_can_be_cancelled() -> None:
    async with runtime(faulty(look, {"look": hang()})) as rt:
        call = asyncio.ensure_future(rt.call("look", call_id="c1"))
        await settle()
        await rt.cancel("c1")

        assert (await call).code == "cancelled"


async def test_a_delay_is_on_the_runtimes_clock_and_then_the_work_is_done() -> None:
    async with runtime(faulty(look, {"look": delay(10)})) as rt:
        call = asyncio.ensure_future(rt.call("look", {"what": "you"}))
        await rt.clock.advance(9)
        assert not call.done()
        await rt.clock.advance(1)

        assert (await call).unwrap() == "saw you"


async def test_a_delay_beyond_the_time_limit_times_out() -> None:
    async with runtime(faulty(look, {"look": delay(21)})) as rt:
        call = asyncio.ensure_future(rt.call("look"))
        await rt.clock.advance(20)

        assert (await call).code == "timed_out"


async def test_a_delayed_tool_holds_its_slot_meanwhile() -> None:
    @tool(queue="desk")
    async def write() -> str:
        """Write."""
        return "written"

    async with runtime(faulty(write, {"write": delay(5)}), queues={"desk": Queue(concurrent=1)}) as rt:
        calls = asyncio.ensure_future(rt.call_many([Call("write"), Call("write")]))
        await rt.clock.advance(5)
        assert not calls.done()
        await rt.clock.advance(5)

        assert [outcome.ok for outcome in await calls] == [True, True]


async def test_retries_see_an_injected_failure() -> None:
    @tool(effects={"read"}, retries=2)
    async def fetch() -> str:
        """Fetch a page."""
        return "page"

    async with runtime(faulty(fetch, {"fetch": flaky(2, error("unavailable", retry_after=1))})) as rt:
        call = asyncio.ensure_future(rt.call("fetch"))
        await rt.clock.advance(2)
        outcome = await call

    assert (outcome.unwrap(), outcome.meta.attempts) == ("page", 3)


async def test_the_breaker_sees_an_injected_failure_and_recovers() -> None:
    git = RecordingProvider("git", ["status"], {"status": "clean"})
    limits = {"breaker_failures": 3, "breaker_pause": 10}
    async with runtime(faulty(git, {"git__*": flaky(3, error("unavailable"))}), defaults=limits) as rt:
        for _ in range(3):
            assert "injected fault" in (await rt.call("git__status")).text
        assert (await rt.call("git__status")).text == "(tool failed: git is down. It is tried again in 10 s.)"
        await rt.clock.advance(10)

        assert (await rt.call("git__status")).unwrap() == "clean"
    assert len(git.calls) == 1


async def test_garbage_is_an_unexpected_value() -> None:
    async with runtime(faulty(look, {"look": garbage()})) as rt:
        outcome = await rt.call("look")

    assert isinstance(outcome, Done)
    assert not isinstance(outcome.data, str)


async def test_garbage_may_be_a_value_that_json_cannot_represent() -> None:
    async with runtime(faulty(look, {"look": garbage(object())})) as rt:
        assert (await rt.call("look")).code == "crashed"


@pytest.mark.parametrize("exception", [ZeroDivisionError, KeyError("x"), SystemExit(1), BaseException])
async def test_a_crash_is_a_bug_of_the_tool(exception) -> None:
    kind = exception if isinstance(exception, type) else type(exception)
    async with runtime(faulty(look, {"look": crash(exception)})) as rt:
        outcome = await rt.call("look")

    assert outcome.code == "crashed"
    assert kind.__name__ in outcome.text


async def test_flaky_counts_for_each_tool() -> None:
    @tool
    async def listen() -> str:
        """Listen."""
        return "heard"

    async with runtime(faulty([look, listen], {"*": flaky(1, error("failed"))})) as rt:
        first = [(await rt.call(name)).ok for name in ("look", "listen")]
        second = [(await rt.call(name)).ok for name in ("look", "listen")]

    assert (first, second) == ([False, False], [True, True])


async def test_chance_is_the_same_for_the_same_seed() -> None:
    async def pattern(seed: int) -> list[bool]:
        async with runtime(faulty(look, {"look": chance(0.5, error("failed"), seed=seed)})) as rt:
            return [(await rt.call("look")).ok for _ in range(40)]

    assert await pattern(1) == await pattern(1) != await pattern(2)
    assert 5 < sum(await pattern(1)) < 35


async def test_the_first_glob_that_matches_counts_and_other_tools_work() -> None:
    @tool
    async def listen() -> str:
        """Listen."""
        return "heard"

    async with runtime(faulty([look, listen], {"lo*": error("denied"), "look": error("failed")})) as rt:
        assert (await rt.call("look")).code == "denied"
        assert (await rt.call("listen")).ok


async def test_a_tool_without_any_await_gets_a_deadline_with_its_fault() -> None:
    @tool(timeout=1)
    def plain() -> str:
        """Run in a thread."""
        return "plain"

    async with runtime(faulty([plain, look], {"*": hang()})) as rt:
        call = asyncio.ensure_future(rt.call("plain"))
        await rt.clock.advance(1)

        assert (await call).code == "timed_out"


async def test_methods_lazy_tools_and_nested_lists_can_be_faulty() -> None:
    class Bank:
        @tool
        async def pay(self, amount: int) -> int:
            """Pay."""
            return amount

    async def save() -> str:
        return "saved"

    source = [Bank(), [tool.lazy("save", lambda: save)]]
    async with runtime(faulty(source, {"pay": flaky(1, error("conflict")), "save": error("too_large")})) as rt:
        assert (await rt.call("pay", {"amount": 1})).code == "conflict"
        assert (await rt.call("pay", {"amount": 1})).unwrap() == 1
        assert (await rt.call("save")).code == "too_large"


async def test_a_fault_of_your_own_may_look_at_the_call() -> None:
    async def blinding(running, work):
        if running.arguments.get("what") == "the sun":
            return "blinded"
        return await work(running)

    async with runtime(faulty(look, {"look": blinding})) as rt:
        assert (await rt.call("look", {"what": "the sun"})).unwrap() == "blinded"
        assert (await rt.call("look")).unwrap() == "saw it"


async def test_a_client_tool_can_be_faulty_and_a_hosted_one_is_left_alone() -> None:
    ask = tool.client("ask", "Ask the person.", reply="later")
    search = tool.hosted("search", options={"openai": {"type": "web_search"}})
    async with runtime(faulty([ask, search], {"*": error("unavailable")})) as rt:
        assert "injected" in (await rt.call("ask")).text
        assert "model's own provider" in (await rt.call("search")).text


async def test_context_and_progress_reach_the_real_work() -> None:
    @tool
    async def who(ctx: Context) -> str:
        """Say which call this is."""
        return ctx.call_id

    async with Runtime(faulty(who, {"who": delay(0)})) as rt:
        assert (await rt.call("who", call_id="c1")).unwrap() == "c1"
    (direct,) = faulty(who, {"who": delay(0)})
    assert (await direct.run()).ok


def test_a_fault_for_an_unknown_tool_is_an_error() -> None:
    with pytest.raises(DefinitionError, match=r"No tool matches 'loo'.*did you mean 'look'"):
        faulty(look, {"loo": hang()})
