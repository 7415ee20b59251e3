"""The stage `cache`: cached results and concurrent equal calls."""

import asyncio
import json

import pytest

from surehand import Cache, Context, DefinitionError, Pending, Policy, Provider, Runtime, ToolError, tool
from surehand.testing import ManualClock, settle


def counted(ran: list, **facets):
    @tool(**{"effects": {"read"}, "cache": 60, **facets})
    async def look(a: int = 0, b: str = "") -> int:
        """Look something up."""
        ran.append((a, b))
        return len(ran)

    return look


async def test_an_answer_is_given_again_until_it_is_too_old():
    clock, ran = ManualClock(), []

    async with Runtime(counted(ran), clock=clock) as runtime:
        assert (await runtime.call("look")).data == 1
        await clock.advance(59.9)
        assert (await runtime.call("look")).data == 1
        await clock.advance(0.1)
        assert (await runtime.call("look")).data == 2


async def test_the_measurements_tell_a_cached_answer():
    async with Runtime(counted([])) as runtime:
        first, second = await runtime.call("look"), await runtime.call("look")

    assert (first.meta.cached, second.meta.cached) == (False, True)
    assert first.meta.call_id != second.meta.call_id


async def test_other_arguments_are_another_question():
    ran = []

    async with Runtime(counted(ran)) as runtime:
        for a, b in [(1, "x"), (2, "x"), (1, "y"), (1, "x")]:
            await runtime.call("look", {"a": a, "b": b})

    assert ran == [(1, "x"), (2, "x"), (1, "y")]


async def test_the_spelling_of_the_arguments_does_not_matter():
    ran = []

    async with Runtime(counted(ran)) as runtime:
        for arguments in ['{"a": 1, "b": "x"}', '{"b":"x","a":1}', {"b": "x", "a": 1}, {"a": "1", "b": "x"}]:
            assert (await runtime.call("look", arguments)).data == 1

    assert len(ran) == 1


async def test_each_user_has_answers_of_their_own():
    async with Runtime(counted([])) as runtime:
        ann, bob = runtime.scope(user="ann"), runtime.scope(user="bob")
        assert (await ann.call("look")).data == 1
        assert (await bob.call("look")).data == 2
        assert (await ann.call("look")).data == 1
        assert (await runtime.call("look")).data == 3


async def test_a_shared_result_is_cached_for_all_users():
    async with Runtime(counted([], cache=Cache(60, shared=True))) as runtime:
        assert (await runtime.scope(user="ann").call("look")).data == 1
        assert (await runtime.scope(user="bob").call("look")).data == 1


async def test_two_providers_with_the_same_tool_do_not_share_answers():
    class Server(Provider):
        cache = 60.0

        def __init__(self, namespace: str) -> None:
            self.namespace = namespace

        async def tools(self):
            return [tool.external("name", "Who are you?", effects={"read"}).evolve(kind="rest", handler=None)]

        async def invoke(self, call, context):
            return self.namespace

    async with Runtime(Server("one"), Server("two")) as runtime:
        assert (await runtime.call("one__name")).data == "one"
        assert (await runtime.call("two__name")).data == "two"
        assert (await runtime.call("one__name")).meta.cached


async def test_equal_calls_at_the_same_time_run_once():
    ran, release = [], asyncio.Event()

    @tool(effects={"read"}, cache=60)
    async def slow() -> str:
        """Look slowly."""
        ran.append(1)
        await release.wait()
        return "found"

    async with Runtime(slow) as runtime:
        calls = [asyncio.create_task(runtime.call("slow")) for _ in range(50)]
        await settle()
        release.set()
        outcomes = await asyncio.gather(*calls)

    assert len(ran) == 1
    assert [outcome.data for outcome in outcomes] == ["found"] * 50
    assert [outcome.meta.cached for outcome in outcomes] == [False] + [True] * 49


@pytest.mark.parametrize("ending", ["fails", "crashes", "cancelled by id", "cancelled with its task", "times out"])
async def test_if_the_running_call_fails_the_next_waiting_one_runs(ending):
    clock, ran = ManualClock(), []

    @tool(effects={"read"}, cache=60, timeout=5)
    async def slow() -> str:
        """Fail the first time."""
        ran.append(1)
        await settle()
        if len(ran) > 1:
            return "found"
        if ending == "fails":
            raise ToolError("no")
        if ending == "crashes":
            raise RuntimeError("bug")
        return await asyncio.Event().wait()

    async with Runtime(slow, clock=clock) as runtime:
        leader = asyncio.create_task(runtime.call("slow", call_id="leader"))
        await settle(3)
        others = [asyncio.create_task(runtime.call("slow")) for _ in range(5)]
        await settle(60)
        if ending == "cancelled by id":
            await runtime.cancel("leader")
        if ending == "cancelled with its task":
            leader.cancel()
        if ending == "times out":
            await clock.advance(5)
        outcomes = await asyncio.gather(*others)
        await asyncio.wait({leader})
        assert runtime.stats().running == 0

    assert [outcome.data for outcome in outcomes] == ["found"] * 5
    assert len(ran) == 2


async def test_failures_are_not_cached():
    ran = []

    @tool(effects={"read"}, cache=60)
    async def flaky() -> str:
        """Fail twice."""
        ran.append(1)
        if len(ran) < 3:
            raise ToolError("not yet")
        return "ok"

    async with Runtime(flaky) as runtime:
        codes = [(await runtime.call("flaky")).ok for _ in range(4)]

    assert codes == [False, False, True, True]
    assert len(ran) == 3


async def test_pending_outcomes_are_not_cached():
    @tool(effects={"read"}, cache=60)
    async def ask() -> Pending:
        """Ask somebody."""
        return Pending("result")

    async with Runtime(ask) as runtime:
        first, second = await runtime.call("ask"), await runtime.call("ask")
        assert first.call_id != second.call_id


async def test_cancelling_a_waiting_call_does_not_affect_the_running_one():
    release, ran = asyncio.Event(), []

    @tool(effects={"read"}, cache=60)
    async def slow() -> str:
        """Look slowly."""
        ran.append(1)
        await release.wait()
        return "found"

    async with Runtime(slow) as runtime:
        leader = asyncio.create_task(runtime.call("slow"))
        waiter = asyncio.create_task(runtime.call("slow", call_id="w"))
        await settle()
        await runtime.cancel("w")
        assert (await waiter).code == "cancelled"
        release.set()
        assert (await leader).data == "found"

    assert len(ran) == 1


async def test_a_cached_answer_still_obeys_policy():
    ran = []

    async with Runtime(counted(ran)) as runtime:
        assert (await runtime.call("look")).data == 1
        runtime.policy = Policy([{"tools": "look", "decision": "deny"}])
        assert (await runtime.call("look")).code == "denied"
        runtime.policy = Policy([{"tools": "look", "decision": "ask"}])
        pending = await runtime.call("look")
        assert isinstance(pending, Pending)
        assert (await runtime.approve(pending.call_id)).data == 1

    assert len(ran) == 1


async def test_the_handle_of_a_large_cached_answer_belongs_to_each_caller():
    ran = []

    @tool(effects={"read"}, cache=Cache(60, shared=True))
    async def big() -> str:
        """Give much."""
        ran.append(1)
        return "line\n" * 30_000

    async with Runtime(big) as runtime:
        ann, bob = runtime.scope(user="ann"), runtime.scope(user="bob")
        first, second = await ann.call("big"), await bob.call("big")
        handles = [json.loads(outcome.text)["tool_output"]["handle"] for outcome in (first, second)]
        assert handles[0] != handles[1]
        assert (await ann.call("tool_output", {"handle": handles[0], "head": 1})).ok
        assert (await bob.call("tool_output", {"handle": handles[1], "head": 1})).ok
        assert (await bob.call("tool_output", {"handle": handles[0], "head": 1})).code == "not_found"

    assert len(ran) == 1


async def test_a_cached_answer_does_not_hold_on_to_a_call_that_failed_before():
    clock, ran = ManualClock(), []

    @tool(effects={"read"}, cache=1)
    async def look(ctx: Context) -> str:
        """Look."""
        ran.append(ctx.call_id)
        return ctx.call_id

    async with Runtime(look, clock=clock) as runtime:
        first = await runtime.call("look")
        await clock.advance(2)
        second = await runtime.call("look")

    assert first.data != second.data


@pytest.mark.parametrize("effects", [{"write"}, {"read", "network"}, {"execute"}])
def test_a_tool_that_does_more_than_read_cannot_be_cached(effects):
    with pytest.raises(DefinitionError, match="cannot be cached"):
        counted([], effects=effects)


@pytest.mark.parametrize(("written", "seconds"), [("30s", 30), ("5m", 300), (2, 2), ("500ms", 0.5)])
async def test_the_time_to_live_is_written_as_people_write_it(written, seconds):
    clock = ManualClock()

    async with Runtime(counted([], cache=written), clock=clock) as runtime:
        await runtime.call("look")
        await clock.advance(seconds - 0.01)
        assert (await runtime.call("look")).data == 1
        await clock.advance(0.02)
        assert (await runtime.call("look")).data == 2


async def test_a_ttl_of_off_means_no_cache():
    async with Runtime(counted([], cache="off")) as runtime:
        assert [(await runtime.call("look")).data for _ in range(2)] == [1, 2]


async def test_changing_a_result_does_not_change_the_results_of_other_callers():
    @tool(cache=60)
    async def numbers() -> list[int]:
        return [1]

    async with Runtime(numbers) as runtime:
        (await runtime.call("numbers")).data.append(2)
        (await runtime.call("numbers")).data.append(3)

        assert (await runtime.call("numbers")).data == [1]
