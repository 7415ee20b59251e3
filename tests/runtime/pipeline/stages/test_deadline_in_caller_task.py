"""A provider that cancels promptly runs in the caller's task; the caller sees no difference."""

import asyncio

import pytest

from surehand import Done, Provider, Runtime, protocols, tool
from surehand.testing import ManualClock, settle


class Remote(Provider):
    namespace, timeout = "remote", 5.0

    def __init__(self, lets_go: bool, **facets) -> None:
        self.traits, self._facets = protocols.ProviderTraits(cancels_promptly=lets_go), facets
        self.entered, self.answer = asyncio.Event(), asyncio.Event()
        self.at_end = lambda: None
        self.told: list[str] = []
        self.cancelled: list[bool] = []
        self.tasks: list[asyncio.Task | None] = []

    async def tools(self):
        return [tool.external("work", "Work.", **self._facets).evolve(kind="rest", handler=None)]

    async def invoke(self, call, context):
        self.tasks.append(asyncio.current_task())
        self.entered.set()
        try:
            await self.answer.wait()
        finally:
            self.cancelled.append(context.cancelled)
            self.at_end()
        return "done"

    async def cancel(self, call, reason):
        self.told.append(reason)


@pytest.fixture(params=[True, False], ids=["within", "apart"])
def remote(request: pytest.FixtureRequest) -> Remote:
    return Remote(request.param)


async def test_a_provider_runs_in_its_callers_task_only_if_it_cancels_promptly(remote):
    remote.answer.set()

    async with Runtime(remote) as runtime:
        outcome = await runtime.call("remote__work")

    assert outcome == Done("done")
    assert (remote.tasks == [asyncio.current_task()]) is remote.traits.cancels_promptly


async def test_after_a_timeout_the_caller_gets_an_outcome_and_continues(remote):
    clock = ManualClock()

    async def call_and_go_on():
        outcome = await runtime.call("remote__work")
        await asyncio.sleep(0)  # a cancellation that was left would be raised here
        return outcome, asyncio.current_task().cancelling()

    async with Runtime(remote, clock=clock) as runtime:
        calling = asyncio.create_task(call_and_go_on())
        await remote.entered.wait()
        await clock.advance(5.1)
        outcome, cancelling = await calling

    assert (outcome.code, outcome.executed) == ("timed_out", True)
    assert outcome.message == "remote__work timed out after 5 s."
    assert cancelling == 0
    assert remote.told == ["timed_out"]
    assert remote.cancelled == [True]


async def test_a_cancelled_caller_is_cancelled_and_the_provider_notified(remote):
    async with Runtime(remote) as runtime:
        calling = asyncio.create_task(runtime.call("remote__work"))
        await remote.entered.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    assert remote.told == ["cancelled"]


async def test_a_caller_that_is_cancelled_at_the_moment_of_the_timeout_is_cancelled(remote):
    clock = ManualClock()

    async with Runtime(remote, clock=clock) as runtime:
        calling = asyncio.create_task(runtime.call("remote__work"))
        await remote.entered.wait()
        remote.at_end = calling.cancel
        await clock.advance(5.1)
        with pytest.raises(asyncio.CancelledError):
            await calling

    assert len(remote.told) == 1


async def test_an_answer_in_the_moment_the_time_is_up_leaves_no_cancellation_behind(remote):
    clock = ManualClock()

    async def call_and_go_on():
        outcome = await runtime.call("remote__work")
        await asyncio.sleep(0)
        return outcome, asyncio.current_task().cancelling()

    async with Runtime(remote, clock=clock) as runtime:
        calling = asyncio.create_task(call_and_go_on())
        await remote.entered.wait()
        clock.call_later(5.0, remote.answer.set)
        await clock.advance(5.1)
        outcome, cancelling = await calling

    assert outcome == Done("done") or outcome.code == "timed_out"
    assert cancelling == 0


async def test_a_call_can_be_cancelled_by_its_id_and_its_task_continues(remote):
    async with Runtime(remote) as runtime:
        calling = asyncio.create_task(runtime.call("remote__work", call_id="one"))
        await remote.entered.wait()
        assert await runtime.cancel("one")
        outcome = await calling

    assert (outcome.code, outcome.executed) == ("cancelled", True)
    assert remote.told == ["cancelled"]


async def test_the_callers_own_limit_ends_it(remote):
    clock = ManualClock()

    async with Runtime(remote, clock=clock) as runtime:
        calling = asyncio.create_task(runtime.call("remote__work", timeout=2))
        await remote.entered.wait()
        await clock.advance(2.1)
        outcome = await calling

    assert outcome.code == "timed_out"
    assert "waiting included" in outcome.message
    assert remote.told == ["cancelled"]


@pytest.mark.parametrize("lets_go", [True, False], ids=["within", "apart"])
async def test_each_attempt_has_the_whole_time(lets_go):
    clock, remote = ManualClock(), Remote(lets_go, effects={"read"}, retries=1)

    async with Runtime(remote, clock=clock) as runtime:
        calling = asyncio.create_task(runtime.call("remote__work"))
        await remote.entered.wait()
        remote.entered.clear()
        await clock.advance(5.1)
        await clock.advance(1)  # the back-off
        await remote.entered.wait()
        remote.answer.set()
        outcome = await calling

    assert outcome == Done("done")
    assert remote.cancelled == [True, False]


async def test_one_that_cancels_itself_fails_that_call_alone(remote):
    async def give_up(call, context):
        raise asyncio.CancelledError

    remote.invoke = give_up

    async with Runtime(remote) as runtime:
        outcome = await runtime.call("remote__work")

    assert (outcome.code, outcome.message) == ("cancelled", "remote__work cancelled itself.")
    await settle()
