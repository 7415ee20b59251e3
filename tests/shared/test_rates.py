"""A shared rate holds in every window of its period, over all runtimes on a store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Runtime, tool
from surehand.store.tables import slots
from tests.durable.bank_tools import read_rows, wait_until
from tests.shared.limited_queue import Gate, is_queue_free, limited_queue_options

pytestmark = pytest.mark.timeout(60)  # the first test on PostgreSQL starts the server
_KEPT_FOR_LONG = "DELETE FROM starts WHERE queue = :queue AND at <= {now} - 100 * :period"


@tool(queue="narrow", effects={"read"})
async def work() -> None:
    """Work."""


@pytest.mark.parametrize("concurrent", [None, 3])
async def test_no_window_contains_more_starts_than_the_rate_in_all_runtimes_together(
    address: str, concurrent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(slots._SQL, "delete_old_starts", _KEPT_FOR_LONG)
    options = limited_queue_options(address, concurrent, "20/300ms")
    async with Runtime(work, **options) as one, Runtime(work, **options) as two, Runtime(work, **options) as three:
        calls = [runtime.call("work") for _ in range(20) for runtime in (one, two, three)]
        outcomes = await asyncio.gather(*calls)
        starts = [row["at"] for row in await read_rows(one, "SELECT at FROM starts ORDER BY at")]
        await wait_until(lambda: is_queue_free(one))

    assert all(outcome.ok for outcome in outcomes)
    assert len(starts) == 60
    assert all(later - earlier > 0.299_999 for earlier, later in zip(starts, starts[20:], strict=False))
    assert starts[-1] - starts[0] < 50 * 0.3  # two would do; a busy machine takes its time


async def test_starts_are_forgotten_when_they_count_no_more(address: str) -> None:
    async with Runtime(work, **limited_queue_options(address, None, "5/50ms")) as runtime:
        for _ in range(12):
            await runtime.call("work")
        await asyncio.sleep(0.06)
        await runtime.call("work")

        assert len(await read_rows(runtime, "SELECT * FROM starts")) == 1


async def test_a_clock_that_was_set_back_blocks_no_call(address: str) -> None:
    async with Runtime(work, **limited_queue_options(address, None, "1/100ms")) as runtime:
        await _write(runtime, "INSERT INTO starts (queue, at) VALUES ('narrow', {now} + 86400)")
        await _write(
            runtime, "INSERT INTO queues (queue, lock_count, wanted_by, wanted_until) VALUES ('narrow', 1, 'x', 9e12)"
        )

        assert (await runtime.call("work")).ok
        assert len(await read_rows(runtime, "SELECT * FROM starts")) == 1


async def _write(runtime: Runtime, sql: str) -> None:
    from surehand.store.database import Statement

    assert runtime.store is not None
    await runtime.store.write([Statement(sql)])


async def test_a_call_that_waits_for_the_rate_holds_no_slot(address: str) -> None:
    gate = Gate()
    gate.open.set()
    options: dict[str, Any] = limited_queue_options(address, 2, "1/h")
    async with Runtime(gate.tool, **options) as runtime:
        assert (await runtime.call("work")).ok
        waiting = asyncio.create_task(runtime.call("work"))
        await wait_until(lambda: runtime.queues()["narrow"].waiting == 1)
        await wait_until(lambda: is_queue_free(runtime))
        waiting.cancel()
        await asyncio.wait([waiting])

        assert runtime.queues()["narrow"].waiting == 0
        assert len(await read_rows(runtime, "SELECT * FROM starts")) == 1
