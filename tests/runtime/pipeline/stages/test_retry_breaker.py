"""The stages `retry` and `breaker`: back-off, and providers that are down."""

import asyncio
from itertools import pairwise

import pytest

from surehand import Context, Done, Failed, Provider, Queue, Runtime, ToolError, tool
from surehand.core.errors import FAILURE_CODES, Denied, NotFound, RateLimited, TimedOut, Unavailable
from surehand.testing import ManualClock, settle

PASSING = {"unavailable", "rate_limited", "timed_out"}


def failing(clock: ManualClock, tries: list[float], code: str = "unavailable", **facets):
    @tool(**{"effects": {"read"}, "retries": 3, **facets})
    async def flaky() -> None:
        """Fail always."""
        tries.append(clock.now())
        raise ToolError("no luck", code=code)

    return flaky


@pytest.mark.parametrize("code", sorted(FAILURE_CODES))
async def test_only_failures_that_may_pass_are_tried_again(code):
    clock, tries = ManualClock(), []

    async with Runtime(failing(clock, tries, code), clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("flaky"))
        await clock.advance(100)
        outcome = await call

    assert outcome.code == code
    assert len(tries) == outcome.meta.attempts == (4 if code in PASSING else 1)


@pytest.mark.parametrize("error", [Unavailable("x"), RateLimited("x"), TimedOut("x"), NotFound("x"), Denied("x")])
async def test_the_named_errors_count_by_their_code(error):
    clock, tries = ManualClock(), []

    @tool(effects={"read"}, retries=1)
    async def flaky() -> None:
        """Fail always."""
        tries.append(1)
        raise error

    async with Runtime(flaky, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("flaky"))
        await clock.advance(10)
        await call

    assert len(tries) == (2 if error.code in PASSING else 1)


@pytest.mark.parametrize("effects", [set(), {"write"}, {"read", "network"}, {"execute"}])
async def test_a_tool_that_is_not_repeatable_runs_once(effects):
    clock, tries = ManualClock(), []

    async with Runtime(failing(clock, tries, effects=effects), clock=clock) as runtime:
        assert (await runtime.call("flaky")).code == "unavailable"

    assert len(tries) == 1


async def test_a_tool_that_says_it_is_repeatable_is_tried_again_whatever_its_effects():
    clock, tries = ManualClock(), []

    async with Runtime(failing(clock, tries, effects={"write"}, repeatable=True), clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("flaky"))
        await clock.advance(100)
        await call

    assert len(tries) == 4


async def test_a_crash_is_not_tried_again():
    tries = []

    @tool(effects={"read"}, retries=3)
    async def buggy() -> None:
        """Crash."""
        tries.append(1)
        raise ValueError("bug")

    async with Runtime(buggy) as runtime:
        assert (await runtime.call("buggy")).code == "crashed"

    assert len(tries) == 1


async def test_delays_double_with_some_chance_in_them_and_end_at_half_a_minute():
    for _ in range(20):
        clock, tries = ManualClock(), []
        defaults = {"retry_delay": 2}

        async with Runtime(failing(clock, tries, retries=7), clock=clock, defaults=defaults) as runtime:
            call = asyncio.create_task(runtime.call("flaky"))
            await clock.advance(1000)
            await call

        delays = [after - before for before, after in pairwise(tries)]
        expected = [2, 4, 8, 16, 30, 30, 30]
        assert len(delays) == 7
        assert all(0.75 * mean <= delay <= 1.25 * mean for delay, mean in zip(delays, expected, strict=True))


async def test_two_callers_do_not_return_as_one():
    clock, tries = ManualClock(), []

    async with Runtime(failing(clock, tries, retries=1), clock=clock) as runtime:
        calls = [asyncio.create_task(runtime.call("flaky")) for _ in range(20)]
        await clock.advance(5)
        await asyncio.gather(*calls)

    assert len(set(tries[20:])) > 10


@pytest.mark.parametrize("seconds", [0, 3, 77.5])
async def test_a_retry_waits_exactly_for_retry_after(seconds):
    clock, tries = ManualClock(), []

    @tool(effects={"read"}, retries=1)
    async def limited() -> str:
        """Be limited at first."""
        tries.append(clock.now())
        if len(tries) == 1:
            raise RateLimited("slow down", retry_after=seconds)
        return "ok"

    async with Runtime(limited, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("limited"))
        await clock.advance(seconds)
        assert (await call).data == "ok"

    assert tries[1] - tries[0] == seconds


async def test_every_attempt_knows_its_number_and_shares_one_idempotency_key():
    clock, seen = ManualClock(), []

    @tool(effects={"read"}, retries=2)
    async def flaky(ctx: Context) -> str:
        """Fail twice."""
        seen.append((ctx.attempt, ctx.idempotency_key, ctx.cancelled))
        if ctx.attempt < 3:
            raise Unavailable("not yet")
        return "ok"

    async with Runtime(flaky, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("flaky"))
        await clock.advance(10)
        outcome = await call

    assert [attempt for attempt, _, _ in seen] == [1, 2, 3]
    assert len({key for _, key, _ in seen}) == 1
    assert seen[0][1] == outcome.meta.call_id
    assert not any(cancelled for *_, cancelled in seen)
    assert (outcome.data, outcome.meta.attempts) == ("ok", 3)


async def test_a_call_counts_once_however_often_it_was_tried():
    clock, tries = ManualClock(), []

    async with Runtime(failing(clock, tries), clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("flaky"))
        await clock.advance(100)
        await call
        assert runtime.stats().calls["flaky"].count == 1
        assert runtime.stats().calls["flaky"].failures == 1


async def test_a_call_can_be_cancelled_in_its_back_off():
    clock, tries = ManualClock(), []

    async with Runtime(failing(clock, tries), clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("flaky", call_id="c1"))
        await settle()
        await runtime.cancel("c1")
        outcome = await call

    assert (outcome.code, outcome.executed, len(tries)) == ("cancelled", True, 1)


class Server(Provider):
    """A provider that works, fails or hangs as it is told."""

    namespace = "server"

    def __init__(self, namespace: str = "server", **facets) -> None:
        self.namespace, self._facets = namespace, facets
        self.calls: list[str] = []
        self.mode = "up"
        self.hanging = asyncio.Event()

    async def tools(self):
        return [
            tool.external(name, "Ask.", **self._facets).evolve(kind="rest", handler=None) for name in ("ask", "tell")
        ]

    async def invoke(self, call, context):
        self.calls.append(call.tool)
        if self.mode == "hang":
            self.hanging.set()
            await asyncio.Event().wait()
        if self.mode != "up":
            raise ToolError("no answer", code=self.mode)
        return "answer"


DEFAULTS = {"breaker_failures": 3, "breaker_pause": 10}


async def opened(runtime: Runtime, server: Server, mode: str = "unavailable") -> None:
    server.mode = mode
    for _ in range(3):
        assert (await runtime.call(f"{server.namespace}__ask")).code == mode
    server.calls.clear()


async def test_a_provider_counts_as_down_after_failures_in_a_row():
    clock, server = ManualClock(), Server()

    async with Runtime(server, defaults=DEFAULTS, clock=clock) as runtime:
        await opened(runtime, server)
        outcome = await runtime.call("server__tell")

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.executed, outcome.retry_after) == ("unavailable", False, 10)
    assert "server is down" in outcome.message
    assert server.calls == []


async def test_a_success_in_between_starts_the_count_again():
    clock, server = ManualClock(), Server()

    async with Runtime(server, defaults=DEFAULTS, clock=clock) as runtime:
        for mode in ["unavailable", "unavailable", "up"] * 3:
            server.mode = mode
            await runtime.call("server__ask")

    assert len(server.calls) == 9


@pytest.mark.parametrize("code", ["failed", "not_found", "invalid_arguments", "denied", "conflict"])
async def test_an_answer_is_a_sign_of_life_even_if_it_is_a_failure(code):
    clock, server = ManualClock(), Server()
    server.mode = code

    async with Runtime(server, defaults=DEFAULTS, clock=clock) as runtime:
        for _ in range(6):
            await runtime.call("server__ask")

    assert len(server.calls) == 6


async def test_other_providers_and_functions_are_not_affected():
    clock, down, up = ManualClock(), Server("down"), Server("up")

    @tool
    async def local() -> str:
        """Work here."""
        return "here"

    async with Runtime(down, up, local, defaults=DEFAULTS, clock=clock) as runtime:
        await opened(runtime, down)
        assert (await runtime.call("up__ask")).data == "answer"
        assert (await runtime.call("local")).data == "here"


async def test_no_call_waits_in_the_queue_of_a_provider_that_is_down():
    clock, server = ManualClock(), Server(queue="one")

    async with Runtime(server, queues={"one": Queue(concurrent=1)}, defaults=DEFAULTS, clock=clock) as runtime:
        server.mode = "hang"
        holder = asyncio.create_task(runtime.call("server__ask"))
        await server.hanging.wait()
        for _ in range(3):
            waiter = asyncio.create_task(runtime.call("server__ask", call_id="w"))
            await settle()
            await runtime.cancel("w")
            await waiter
        await clock.advance(30)
        assert (await holder).code == "timed_out"
        await opened_by_timeouts(runtime, server, clock)

        holder = asyncio.create_task(runtime.call("server__ask"))
        assert (await holder).code == "unavailable"
        assert runtime.queues()["one"].waiting == 0


async def opened_by_timeouts(runtime: Runtime, server: Server, clock: ManualClock) -> None:
    for _ in range(2):
        call = asyncio.create_task(runtime.call("server__ask"))
        await settle()
        await clock.advance(30)
        assert (await call).code == "timed_out"


async def test_after_a_pause_one_call_tries_and_closes_the_breaker():
    clock, server = ManualClock(), Server()

    async with Runtime(server, defaults=DEFAULTS, clock=clock) as runtime:
        await opened(runtime, server)
        server.mode = "up"
        await clock.advance(9)
        assert (await runtime.call("server__ask")).code == "unavailable"
        await clock.advance(1)
        assert await runtime.call("server__ask") == Done("answer")
        for _ in range(3):
            assert (await runtime.call("server__tell")).ok

    assert len(server.calls) == 4


async def test_only_one_call_at_a_time_tries():
    clock, server = ManualClock(), Server()

    async with Runtime(server, defaults=DEFAULTS, clock=clock) as runtime:
        await opened(runtime, server)
        await clock.advance(10)
        server.mode = "hang"
        probe = asyncio.create_task(runtime.call("server__ask"))
        await server.hanging.wait()
        assert (await runtime.call("server__ask")).code == "unavailable"
        assert len(server.calls) == 1
        await runtime.cancel()
        await probe


async def test_a_failed_try_opens_the_breaker_for_another_pause():
    clock, server = ManualClock(), Server()

    async with Runtime(server, defaults=DEFAULTS, clock=clock) as runtime:
        await opened(runtime, server)
        await clock.advance(10)
        assert (await runtime.call("server__ask")).code == "unavailable"
        assert len(server.calls) == 1
        assert (await runtime.call("server__ask")).code == "unavailable"
        assert len(server.calls) == 1
        await clock.advance(10)
        server.mode = "up"
        assert (await runtime.call("server__ask")).ok


@pytest.mark.parametrize("how", ["by id", "with its task"])
async def test_a_cancelled_try_lets_another_try(how):
    clock, server = ManualClock(), Server()

    async with Runtime(server, defaults=DEFAULTS, clock=clock) as runtime:
        await opened(runtime, server)
        await clock.advance(10)
        server.mode = "hang"
        probe = asyncio.create_task(runtime.call("server__ask", call_id="probe"))
        await server.hanging.wait()
        if how == "by id":
            await runtime.cancel("probe")
        else:
            probe.cancel()
        await asyncio.wait({probe})
        server.mode = "up"
        assert (await runtime.call("server__ask")).data == "answer"


async def test_retries_count_as_failures_and_stop_asking_a_provider_that_is_down():
    clock, server = ManualClock(), Server(effects={"read"}, retries=9)
    server.mode = "unavailable"

    async with Runtime(server, defaults=DEFAULTS, clock=clock) as runtime:
        call = asyncio.create_task(runtime.call("server__ask"))
        await clock.advance(9)
        assert len(server.calls) == 3
        server.mode = "up"
        await clock.advance(11)
        assert (await call).data == "answer"

    assert len(server.calls) == 4
