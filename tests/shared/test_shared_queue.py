"""A shared queue within one process, and between runtimes on one store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from surehand import Context, DefinitionError, Done, Pending, Queue, Runtime, Tool, tool
from surehand.core.events import CallQueued
from surehand.runtime.limits import shared_queue
from surehand.runtime.maintenance import store_maintenance
from surehand.store.database import StoreUnavailable
from surehand.testing import ManualClock
from tests.durable.bank_tools import assert_failed, execute, read_rows, wait_until
from tests.shared.limited_queue import FailingStore, Gate, count_slots, is_queue_free, limited_queue_options

pytestmark = pytest.mark.timeout(60)  # the first test on PostgreSQL starts the server
ROUNDS = 5
"""One of two may be left behind by a server that is itself held up, but not each time."""


async def test_no_more_calls_run_at_once_than_the_queue_allows_in_all_runtimes_together(address: str) -> None:
    gate = Gate()
    options = limited_queue_options(address, 3)
    async with Runtime(gate.tool, **options) as here, Runtime(gate.tool, **options) as other:
        calls = [
            asyncio.create_task(runtime.call("work", {"number": n})) for n in range(10) for runtime in (here, other)
        ]
        await wait_until(lambda: gate.inside == 3)
        await wait_until(lambda: here.queues()["narrow"].in_use == other.queues()["narrow"].in_use == 3)
        await wait_until(lambda: here.queues()["narrow"].waiting + other.queues()["narrow"].waiting == 17)
        gate.open.set()
        outcomes = await asyncio.gather(*calls)
        await wait_until(lambda: is_queue_free(here))
        await wait_until(lambda: here.queues()["narrow"].in_use == other.queues()["narrow"].in_use == 0)

    assert gate.peak == 3
    assert all(outcome.ok for outcome in outcomes)


async def test_the_first_to_come_is_the_first_to_run(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    gate.open.set()
    async with Runtime(gate.tool, **limited_queue_options(address)) as runtime:
        await asyncio.gather(*(runtime.call("work", {"number": n}) for n in range(20)))
        monkeypatch.setattr(shared_queue, "MAX_HANDOVER_SECONDS", 0.0)  # each of them by way of the store
        await asyncio.gather(*(runtime.call("work", {"number": n}) for n in range(20, 40)))

    assert gate.order == list(range(40))
    assert gate.peak == 1


def working(name: str, ran: list[str], seconds: float) -> Tool[..., Any]:
    """A tool that tells in whose runtime it ran."""

    @tool(queue="narrow", effects={"read"})
    async def work() -> None:
        """Work."""
        ran.append(name)
        await asyncio.sleep(seconds)

    return work


@pytest.mark.timeout(85)  # a busy machine takes its time for so many turns at the store
async def test_two_equally_busy_processes_get_a_similar_share(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_queue, "MAX_HANDOVER_SECONDS", 0.05)
    ran: list[str] = []
    options = limited_queue_options(address, 4)
    async with (
        Runtime(working("one", ran, 0.004), **options) as one,
        Runtime(working("two", ran, 0.004), **options) as two,
    ):
        for _ in range(ROUNDS):
            ran.clear()
            both = [asyncio.gather(*(runtime.call("work") for _ in range(200))) for runtime in (one, two)]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            shares = sorted([ran.count("one"), ran.count("two")])
            await asyncio.gather(*both)
            if shares[0] > 50:
                break

    assert shares[1] == 200
    assert shares[0] > 50


@pytest.mark.timeout(85)
async def test_a_busy_process_lets_another_have_its_turn(address: str) -> None:
    ran: list[str] = []
    options = limited_queue_options(address)
    async with (
        Runtime(working("busy", ran, 0.01), **options) as busy,
        Runtime(working("quiet", ran, 0.01), **options) as quiet,
    ):
        for _ in range(ROUNDS):
            ran.clear()
            many = asyncio.gather(*(busy.call("work") for _ in range(200)))
            await wait_until(lambda: len(ran) > 5)
            await asyncio.gather(*(quiet.call("work") for _ in range(3)))
            before_the_end = len(ran)
            await many
            if before_the_end < 150:
                break

    assert ran.count("quiet") == 3
    assert before_the_end < 150


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 20, 50])
async def test_a_call_that_is_cancelled_at_any_moment_leaves_no_slot_taken(address: str, turns: int) -> None:
    gate = Gate()
    async with Runtime(gate.tool, **limited_queue_options(address, 2, "1000/s" if turns % 2 else None)) as runtime:
        calls = [asyncio.create_task(runtime.call("work", {"number": n})) for n in range(6)]
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        await wait_until(lambda: is_queue_free(runtime))
        gate.open.set()

        assert await runtime.call("work", {"number": 7}) == Done(7)
        await wait_until(lambda: is_queue_free(runtime))
        assert runtime.queues()["narrow"].waiting == 0


async def test_some_are_cancelled_and_the_others_keep_their_order(address: str) -> None:
    gate = Gate()
    async with Runtime(gate.tool, **limited_queue_options(address)) as runtime:
        calls = [asyncio.create_task(runtime.call("work", {"number": n})) for n in range(9)]
        await wait_until(lambda: gate.inside)
        for call in calls[1::2]:
            call.cancel()
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(*calls, return_exceptions=True)
        await wait_until(lambda: is_queue_free(runtime))

    assert gate.order == [0, 2, 4, 6, 8]


async def test_a_slot_for_a_cancelled_call_goes_to_the_next_one(address: str) -> None:
    gate = Gate()
    async with Runtime(gate.tool, **limited_queue_options(address, 1)) as runtime:
        assert runtime.store is not None
        first, second = (asyncio.create_task(runtime.call("work", {"number": n})) for n in (1, 2))
        turn = runtime.store.slots.allocate

        async def slow(*args: Any, **options: Any) -> Any:
            given = await turn(*args, **options)
            first.cancel()
            await asyncio.sleep(0.01)
            return given

        runtime.store.slots.allocate = slow  # type: ignore[method-assign]
        await wait_until(lambda: gate.order)
        gate.open.set()

        assert await second == Done(2)
        assert gate.order == [2]
        await wait_until(lambda: is_queue_free(runtime))


@pytest.mark.parametrize("rate", [None, "1000/s"])
async def test_nested_calls_run_in_the_slot_of_their_ancestor(address: str, rate: str | None) -> None:
    @tool(queue="narrow", effects={"read"})
    async def inner() -> str:
        """Be called from another tool."""
        return "inner"

    @tool(queue="narrow", effects={"read"})
    async def outer(ctx: Context) -> list[str]:
        """Call another tool of the same queue, twice at once."""
        outcomes = await asyncio.gather(ctx.call("inner"), ctx.call("inner"))
        return [outcome.text for outcome in outcomes]

    async with Runtime(inner, outer, **limited_queue_options(address, 1, rate)) as runtime:
        outcomes = await asyncio.gather(*(runtime.call("outer") for _ in range(4)))
        starts = await read_rows(runtime, "SELECT * FROM starts")
        await wait_until(lambda: is_queue_free(runtime))

    assert outcomes == [Done(["inner", "inner"])] * 4
    assert len(starts) == (12 if rate else 0)


async def test_only_a_call_that_has_to_wait_emits_queued(address: str) -> None:
    gate, heard = Gate(), list[Any]()
    async with (
        Runtime(gate.tool, **limited_queue_options(address)) as runtime,
        Runtime(gate.tool, **limited_queue_options(address)) as other,
    ):
        other.listen(heard.append)
        runtime.listen(heard.append)
        calls = [asyncio.create_task(runtime.call("work"))]
        await wait_until(lambda: gate.inside)
        calls += [asyncio.create_task(other.call("work")) for _ in range(3)]
        await wait_until(lambda: len([event for event in heard if isinstance(event, CallQueued)]) == 3)
        gate.open.set()
        await asyncio.gather(*calls)

    places = [(event.queue, event.position) for event in heard if isinstance(event, CallQueued)]
    assert sorted(places) == [("narrow", 1), ("narrow", 2), ("narrow", 3)]


async def test_a_call_past_the_bound_is_refused_and_the_others_are_served(address: str) -> None:
    gate = Gate()
    options = limited_queue_options(address, 2)
    options["queues"] = {"narrow": Queue(concurrent=2, shared=True, waiting=3)}
    async with Runtime(gate.tool, **options) as runtime:
        calls = [asyncio.create_task(runtime.call("work", {"number": n})) for n in range(5)]
        await wait_until(lambda: gate.inside == 2 and runtime.queues()["narrow"].waiting == 3)
        refused = assert_failed(await runtime.call("work", {"number": 9}), "rate_limited")
        gate.open.set()
        outcomes = await asyncio.gather(*calls)
        await wait_until(lambda: is_queue_free(runtime))

    assert all(outcome.ok for outcome in outcomes)
    assert not refused.executed
    assert refused.data == {"queue": "narrow", "waiting": 3, "retry_after": refused.retry_after}


async def test_with_a_bound_of_zero_a_call_that_finds_a_free_slot_still_runs(address: str) -> None:
    gate = Gate()
    options = limited_queue_options(address, 2)
    options["queues"] = {"narrow": Queue(concurrent=2, shared=True, waiting=0)}
    async with Runtime(gate.tool, **options) as runtime:
        calls = [asyncio.create_task(runtime.call("work", {"number": n})) for n in range(2)]
        await wait_until(lambda: gate.inside == 2)
        assert_failed(await runtime.call("work", {"number": 2}), "rate_limited")
        gate.open.set()
        assert all(outcome.ok for outcome in await asyncio.gather(*calls))
        await wait_until(lambda: is_queue_free(runtime))
        # The bound counts what this process knows of slots elsewhere, which it reads from the store once a second.
        await wait_until(lambda: runtime.queues()["narrow"].in_use == 0)
        assert (await runtime.call("work", {"number": 3})).ok


async def test_an_unavailable_store_fails_the_waiting_calls_until_it_recovers(address: str) -> None:
    gate = Gate()
    async with Runtime(gate.tool, **limited_queue_options(address)) as runtime:
        first = asyncio.create_task(runtime.call("work", {"number": 1}))
        await wait_until(lambda: gate.inside)
        with FailingStore(runtime):
            gate.open.set()
            assert await first == Done(1)
            refused = assert_failed(await runtime.call("work", {"number": 2}), "unavailable")
            assert runtime.queues()["narrow"].waiting == 0
        back = await runtime.call("work", {"number": 3})
        await wait_until(lambda: is_queue_free(runtime))

    assert refused.message.startswith("work was not run, because its queue 'narrow' cannot be reached: ")
    assert not refused.executed
    assert back == Done(3)
    assert gate.order == [1, 3]


async def test_a_committed_write_that_seemed_to_fail_leaves_no_slot_taken(address: str) -> None:
    gate = Gate()
    gate.open.set()
    async with Runtime(gate.tool, **limited_queue_options(address)) as runtime:
        with FailingStore(runtime, after=True) as broken:
            assert_failed(await runtime.call("work", {"number": 1}), "unavailable")
        await wait_until(broken.has_no_running_writes)
        await wait_until(lambda: is_queue_free(runtime))

        assert await runtime.call("work", {"number": 2}) == Done(2)


async def test_an_approved_call_is_resumed_when_the_store_recovers(address: str) -> None:
    ran: list[int] = []

    @tool(queue="narrow", effects={"write"}, confirm=True)
    async def pay(amount: int) -> str:
        """Pay money."""
        ran.append(amount)
        return f"paid {amount}"

    async with Runtime(pay, **limited_queue_options(address)) as runtime:
        asked = await runtime.call("pay", {"amount": 5}, call_id="c1")
        assert runtime.store is not None
        turn = runtime.store.slots.allocate

        async def away(*args: Any, **options: Any) -> Any:
            raise StoreUnavailable("Away.")

        runtime.store.slots.allocate = away  # type: ignore[method-assign]
        approved = await runtime.approve("c1")
        runtime.store.slots.allocate = turn  # type: ignore[method-assign]
        recalled = await wait_until(lambda: _ended(runtime))

    assert isinstance(asked, Pending)
    assert isinstance(approved, Pending), approved
    assert recalled == Done("paid 5")
    assert ran == [5]


async def _ended(runtime: Runtime) -> Any:
    outcome = await runtime.call("pay", {"amount": 5}, call_id="c1")
    return None if isinstance(outcome, Pending) else outcome


async def test_a_closed_runtime_returns_its_slots_and_can_be_opened_again(address: str) -> None:
    gate = Gate()
    runtime = Runtime(gate.tool, **limited_queue_options(address))
    async with runtime, Runtime(gate.tool, **limited_queue_options(address)) as other:
        running = asyncio.create_task(runtime.call("work"))
        await wait_until(lambda: gate.inside)
        await runtime.close()
        assert_failed(await running, "cancelled")
        assert await count_slots(other) == 0
        async with runtime:
            gate.open.set()
            assert (await runtime.call("work")).ok
            assert (await other.call("work")).ok


async def test_a_queue_that_is_not_shared_costs_the_store_nothing(address: str) -> None:
    gate = Gate()
    gate.open.set()
    async with Runtime(gate.tool, store=address, queues={"narrow": Queue(1)}) as runtime:
        assert (await runtime.call("work")).ok
        rows = await read_rows(runtime, "SELECT queue FROM queues UNION ALL SELECT queue FROM slots")

    assert rows == []


async def test_a_shared_queue_needs_a_store(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--remember"):
        pytest.skip("every runtime has a store there")
    with pytest.raises(DefinitionError, match=r"The queue 'narrow' is shared, but the runtime has no store.") as caught:
        async with Runtime(queues={"narrow": Queue(1, shared=True)}):
            pass

    assert "store='surehand.db'" in str(caught.value)


@pytest.mark.parametrize("days", [1, -1])
async def test_a_clock_that_jumps_releases_no_slot_and_blocks_no_call(
    tmp_path: Path, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_maintenance, "SEAL_INTERVAL_SECONDS", 0.05)
    gate, clock = Gate(), ManualClock()
    options = limited_queue_options(str(tmp_path / "store.db")) | {"clock": clock, "defaults": {"tool_timeout": None}}
    async with Runtime(gate.tool, **options) as here, Runtime(gate.tool, **options) as other:
        first = asyncio.create_task(here.call("work", {"number": 1}))
        await wait_until(lambda: gate.inside)
        second = asyncio.create_task(other.call("work", {"number": 2}))
        await wait_until(lambda: _is_wanted(here))
        clock._now += days * 86_400  # nobody's timers ring: the machine was set to another day
        await asyncio.sleep(0.4)
        at_once = gate.peak
        gate.open.set()

        assert [await first, await second] == [Done(1), Done(2)]
        assert at_once == gate.peak == 1


async def _is_wanted(runtime: Runtime) -> bool:
    return bool(await read_rows(runtime, "SELECT 1 AS found FROM queues WHERE wanted_by IS NOT NULL"))


async def test_a_slot_of_an_unknown_owner_is_released_after_its_lease(address: str) -> None:
    gate = Gate()
    gate.open.set()
    async with Runtime(gate.tool, **limited_queue_options(address)) as runtime:
        left = "INSERT INTO slots (slot_id, queue, owner, lease_until) VALUES (:id, 'narrow', 'f00', {now} + :lease)"
        began = asyncio.get_running_loop().time()
        await execute(runtime, left, id="s1", lease=0.3)

        assert await runtime.call("work", {"number": 1}) == Done(1)
        assert asyncio.get_running_loop().time() - began > 0.25


def test_a_runtime_can_be_opened_again_on_another_loop(tmp_path: Path) -> None:
    gate = Gate()
    runtime = Runtime(gate.tool, **limited_queue_options(str(tmp_path / "store.db")))

    async def work() -> list[Any]:
        gate.open = asyncio.Event()
        async with runtime:
            calls = [asyncio.create_task(runtime.call("work", {"number": n})) for n in range(3)]
            await wait_until(lambda: gate.inside)
            gate.open.set()
            return await asyncio.gather(*calls)

    assert asyncio.run(work()) == asyncio.run(work()) == [Done(0), Done(1), Done(2)]
