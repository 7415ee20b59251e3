"""Under random events the limit holds, every call gets an outcome, and no slot is left behind."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from surehand import Context, Done, Runtime, Store, tool
from surehand.runtime.limits import shared_queue
from surehand.store.database import Statement, StoreUnavailable
from tests.durable.bank_tools import wait_until
from tests.shared.limited_queue import is_queue_free, limited_queue_options

pytestmark = pytest.mark.timeout(60)  # the first test on PostgreSQL starts the server


class Inside:
    """How many calls run at once, in all runtimes together."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self.now, self.peak = chance, 0, 0

    @tool(queue="narrow", effects={"read"})
    async def work(self) -> str:
        """Take a moment."""
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            await asyncio.sleep(self._chance.choice([0, 0, 0.001, 0.01]))
        finally:
            self.now -= 1
        return "done"

    @tool(queue="narrow", effects={"read"})
    async def nest(self, ctx: Context) -> str:
        """Call another tool of the same queue."""
        return (await ctx.call("work")).text


async def one(runtime: Runtime, chance: random.Random) -> Any:
    """A call that may come late, and may be cancelled at any moment."""
    await asyncio.sleep(chance.random() * 0.3)
    call = asyncio.create_task(runtime.call(chance.choice(["work", "nest"])))
    if chance.random() < 0.4:
        await asyncio.wait([call], timeout=chance.choice([0, 0.0001, 0.001, 0.005, 0.02]))
        call.cancel()
    try:
        return await call
    except asyncio.CancelledError:
        return None


@pytest.mark.parametrize("seed", range(2))
async def test_calls_that_come_and_leave_at_any_moment_keep_the_limit(
    address: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    limit, inside = chance.choice([1, 2, 4]), Inside(chance)
    monkeypatch.setattr(shared_queue, "MAX_HANDOVER_SECONDS", chance.choice([0.0, 0.01, 0.25]))
    options = limited_queue_options(address, limit, chance.choice([None, "100/100ms"]))
    async with Runtime(inside, **options) as a, Runtime(inside, **options) as b, Runtime(inside, **options) as c:
        outcomes = await asyncio.gather(*(one(chance.choice([a, b, c]), chance) for _ in range(200)))
        await wait_until(lambda: is_queue_free(a))
        waiting = [runtime.queues()["narrow"].waiting for runtime in (a, b, c)]

    assert inside.peak == limit
    assert all(outcome == Done("done") for outcome in outcomes if outcome is not None)
    assert waiting == [0, 0, 0]


class Flaky:
    """A store that fails now and then, sometimes after it has written."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._database: Any = store.database
        self._write, self._chance, self.on = self._database.write, chance, True
        self._database.write = self.write
        self._failing = 0

    async def has_no_running_writes(self) -> bool:
        """Whether no write is left that has been made, and has yet to fail."""
        return self._failing == 0

    async def write(self, statements: list[Statement]) -> Any:
        about_slots = any("slots" in step.sql for step in statements)
        if not (self.on and about_slots and self._chance.random() < 0.1):
            return await self._write(statements)
        self._failing += 1
        try:
            if self._chance.random() < 0.5:
                await self._write(statements)
            raise StoreUnavailable("The connection was lost.")
        finally:
            self._failing -= 1


@pytest.mark.parametrize("seed", range(3))
async def test_a_store_that_fails_now_and_then_costs_calls_but_no_slots(address: str, seed: int) -> None:
    chance = random.Random(seed)
    inside, options = Inside(chance), limited_queue_options(address, 2)
    async with Runtime(inside, **options) as a, Runtime(inside, **options) as b:
        assert a.store is not None
        assert b.store is not None
        flaky = [Flaky(a.store, chance), Flaky(b.store, chance)]
        outcomes = await asyncio.gather(*(one(chance.choice([a, b]), chance) for _ in range(200)))
        for each in flaky:
            each.on = False
            await wait_until(each.has_no_running_writes)
        await wait_until(lambda: is_queue_free(a))
        after = await asyncio.gather(*(runtime.call("work") for runtime in (a, b) for _ in range(5)))

    assert inside.peak == 2
    assert {getattr(outcome, "code", "done") for outcome in outcomes if outcome is not None} <= {"done", "unavailable"}
    assert all(outcome.ok for outcome in after)


async def test_connections_that_are_cut_cost_calls_but_no_slots(request: pytest.FixtureRequest, tmp_path: Any) -> None:
    from tests.durable.conftest import new_address

    address, chance = new_address("postgres", request, tmp_path), random.Random(7)
    server: Any = request.getfixturevalue("postgres")
    inside, options = Inside(chance), limited_queue_options(address, 2)
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query <> ''"
    async with Runtime(inside, **options) as a, Runtime(inside, **options) as b:
        calls = asyncio.gather(*(one(chance.choice([a, b]), chance) for _ in range(200)))
        for _ in range(3):
            await asyncio.sleep(0.05)
            await asyncio.to_thread(server.psql, cut)
        outcomes = await calls
        await wait_until(lambda: _works(a, b))
        await wait_until(lambda: _uses_every_slot(inside, a, b))
        await wait_until(lambda: is_queue_free(a))

    assert inside.peak == 2
    assert {getattr(outcome, "code", "done") for outcome in outcomes if outcome is not None} <= {"done", "unavailable"}


async def _works(*runtimes: Runtime) -> bool:
    return all([(await runtime.call("work")).ok for runtime in runtimes])


async def _uses_every_slot(inside: Inside, *runtimes: Runtime) -> bool:
    await asyncio.gather(*(runtime.call("work") for runtime in runtimes for _ in range(10)))
    return inside.peak >= 2
