"""Queues are bounded: a call that cannot be served in time is refused at once, and the others are served."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import DefinitionError, Failed, Outcome, Queue, Runtime, tool
from surehand.config.config import read_config
from surehand.config.errors import ConfigError
from surehand.testing import ManualClock, settle


class Gate:
    """Holds the calls of a tool until the test opens it."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.order: list[int] = []

    def tool(self, **facets: Any) -> Any:
        @tool(**{"queue": "bank", **facets})
        async def work(number: int = 0) -> int:
            """Work."""
            self.order.append(number)
            await self.opened.wait()
            return number

        return work


def start(runtime: Runtime, count: int) -> list[asyncio.Task[Outcome]]:
    return [asyncio.create_task(runtime.call("work", {"number": number})) for number in range(count)]


def refused(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.executed) == ("rate_limited", False)
    return outcome


@pytest.mark.parametrize("waiting", [0, 1, 5])
async def test_a_call_past_the_bound_is_refused_at_once_and_the_others_are_served(waiting):
    gate = Gate()

    async with Runtime(gate.tool(), queues={"bank": Queue(concurrent=2, waiting=waiting)}) as runtime:
        calls = start(runtime, 2 + waiting)
        await settle()
        late = refused(await runtime.call("work"))
        assert runtime.queues()["bank"].waiting == waiting
        gate.opened.set()
        outcomes = await asyncio.gather(*calls)

    assert [outcome.data for outcome in outcomes] == list(range(2 + waiting))
    assert late.data == {"queue": "bank", "waiting": waiting, "retry_after": late.retry_after}
    assert late.text.endswith(f"Try again in {late.retry_after:g} s.)")


async def test_a_queue_that_says_nothing_lets_ten_thousand_calls_wait():
    gate = Gate()

    async with Runtime(gate.tool(), queues={"bank": Queue(concurrent=100)}) as runtime:
        calls = start(runtime, 10_100)
        await settle()
        refused(await runtime.call("work"))
        gate.opened.set()
        assert all(outcome.ok for outcome in await asyncio.gather(*calls))


async def test_there_is_room_again_when_a_call_is_served_or_gives_up():
    gate = Gate()

    async with Runtime(gate.tool(), queues={"bank": Queue(concurrent=1, waiting=1)}) as runtime:
        _, given_up = start(runtime, 2)
        await settle()
        refused(await runtime.call("work"))
        given_up.cancel()
        await settle()
        call = asyncio.create_task(runtime.call("work", {"number": 7}))
        await settle()
        assert runtime.queues()["bank"].waiting == 1
        gate.opened.set()
        assert (await call).data == 7


async def test_retry_after_says_when_the_waiting_calls_will_be_served():
    clock = ManualClock()

    @tool(queue="bank")
    async def work() -> None:
        """Work."""
        await clock.sleep(1)

    async with Runtime(work, queues={"bank": Queue(concurrent=2, waiting=10)}, clock=clock) as runtime:
        calls = [asyncio.create_task(runtime.call("work")) for _ in range(12)]
        await settle()
        before_any_was_served = refused(await runtime.call("work"))
        await clock.advance(2)
        calls += [asyncio.create_task(runtime.call("work")) for _ in range(4)]
        await settle()
        measured = refused(await runtime.call("work"))
        await clock.advance(20)
        await asyncio.gather(*calls)

    assert before_any_was_served.retry_after == 1.0
    assert measured.retry_after == pytest.approx(5.0)  # ten calls wait, and two are served a second


async def test_retries_do_not_wait_for_room_in_a_full_queue():
    gate = Gate()
    work = gate.tool(effects={"read"}, retries=5)

    async with Runtime(work, queues={"bank": Queue(concurrent=1, waiting=0)}) as runtime:
        [call] = start(runtime, 1)
        await settle()
        outcome = refused(await runtime.call("work"))
        gate.opened.set()
        await call

    assert outcome.meta.attempts == 1


async def test_an_approved_call_waits_in_a_full_queue():
    gate = Gate()

    @tool(queue="bank", confirm=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    async with Runtime(gate.tool(), pay, queues={"bank": Queue(concurrent=1, waiting=0)}) as runtime:
        [call] = start(runtime, 1)
        await settle()
        pending = await runtime.call("pay")
        approved = asyncio.create_task(runtime.approve(pending.call_id))
        await settle()
        assert not approved.done()
        gate.opened.set()
        assert (await approved).data == "paid"
        await call


async def test_a_call_whose_caller_would_give_up_first_is_refused():
    clock = ManualClock()

    @tool(queue="bank")
    async def work() -> None:
        """Work."""
        await clock.sleep(1)

    async with Runtime(work, queues={"bank": Queue(concurrent=1)}, clock=clock) as runtime:
        calls = [asyncio.create_task(runtime.call("work")) for _ in range(20)]
        await clock.advance(10)
        impatient = refused(await runtime.call("work", timeout=5))
        patient = asyncio.create_task(runtime.call("work", timeout=60))
        urgent = asyncio.create_task(runtime.scope(priority=100).call("work", timeout=5))
        await clock.advance(30)
        assert (await patient).ok
        assert (await urgent).ok
        await asyncio.gather(*calls)

    assert "too long for its caller's time limit" in impatient.message
    assert impatient.retry_after is not None


SLOTS, SERVICE_SECONDS, LOAD_FACTOR = 4, 0.1, 10


@pytest.mark.parametrize("patience", [0.3, 1.0])
async def test_a_queue_serves_most_of_its_capacity_at_ten_times_the_load(patience):
    clock = ManualClock()
    served: list[float] = []

    @tool(queue="bank")
    async def work() -> None:
        """Work."""
        await clock.sleep(SERVICE_SECONDS)

    async def call(runtime: Runtime) -> None:
        started_at = clock.now()
        outcome = await runtime.call("work", timeout=patience)
        if outcome.ok:
            served.append(clock.now())
        elif outcome.code == "rate_limited":
            assert clock.now() == started_at

    async with Runtime(work, queues={"bank": Queue(concurrent=SLOTS)}, clock=clock) as runtime:
        began_at, seconds, step = clock.now(), 5.0, 0.025
        calls: list[asyncio.Task[None]] = []
        for _ in range(round(seconds / step)):
            arrivals = round(SLOTS / SERVICE_SECONDS * LOAD_FACTOR * step)
            calls += [asyncio.create_task(call(runtime)) for _ in range(arrivals)]
            await clock.advance(step)
        goodput = len([at for at in served if at - began_at <= seconds]) / (SLOTS / SERVICE_SECONDS * seconds)
        await clock.advance(10)
        await asyncio.gather(*calls)

    assert goodput >= 0.8


async def test_the_default_queue_is_bounded_too():
    gate = Gate()

    async with Runtime(gate.tool(queue=None), defaults={"max_concurrent": 1}) as runtime:
        calls = start(runtime, 10_001)
        await settle()
        refused(await runtime.call("work"))
        gate.opened.set()
        await asyncio.gather(*calls)


@pytest.mark.parametrize("waiting", [-1, 1.5, True, None, "10"])
def test_a_bound_that_is_no_count_is_refused(waiting):
    with pytest.raises(DefinitionError, match=r"Queue\(waiting=\.\.\.\) must be a whole number from 0 on"):
        Queue(concurrent=1, waiting=waiting)


def test_the_configuration_file_sets_the_bound(tmp_path):
    path = tmp_path / "surehand.yaml"
    path.write_text("queues: {bank: {concurrent: 1, waiting: 0}, post: {concurrent: 1}}\n")
    assert read_config(path).queues == {"bank": Queue(concurrent=1, waiting=0), "post": Queue(concurrent=1)}

    path.write_text("queues: {bank: {concurrent: 1, waiting: -1}}\n")
    with pytest.raises(ConfigError, match="waiting must be a whole number from 0 on"):
        read_config(path)


@pytest.mark.parametrize(
    ("queues", "problem"),
    [
        ({"desk": 1}, "The queue 'desk' is given as 1, which is not a Queue."),
        ({"desk": {"concurrent": 1}}, "The queue 'desk' is given as {'concurrent': 1}, which is not a Queue."),
        ([Queue(concurrent=1)], "is not a mapping of names to queues."),
    ],
)
def test_queues_of_another_type_are_a_definition_error(queues: Any, problem: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Runtime(queues=queues)

    assert problem in caught.value.problem
    assert "Queue(concurrent=2)" in caught.value.fix


async def test_the_fix_for_a_missing_queue_names_the_program_and_the_file() -> None:
    @tool(queue="desk")
    async def sign() -> None:
        """Sign a letter."""

    with pytest.raises(DefinitionError) as caught:
        async with Runtime(sign):
            pass

    in_program, in_file = "queues={'desk': Queue(concurrent=2)}", "queues: {desk: {concurrent: 2}}"
    assert caught.value.fix == f"add {in_program} to the runtime, or `{in_file}` to the configuration file."
