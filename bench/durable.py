"""Durable: calls that are remembered before and after they run, against their own statements executed raw."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from bench.measure import ratio
from bench.table import Row
from toolwright import Runtime, Store, tool
from toolwright.core.ids import new_id
from toolwright.store.database import Statement
from toolwright.store.sqlite_dialect import _native as native

Write: TypeAlias = list[tuple[str, Mapping[str, Any]]]
SQLITE_CALLERS, POSTGRES_CALLERS = 64, 32


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def durable(*, rounds: int = 9, count: int = 1_920, waiting: int = 100_000) -> list[Row]:
    """SQLite first; PostgreSQL where a server can be started."""
    with tempfile.TemporaryDirectory(prefix="toolwright-bench-") as folder:
        rows = [await _on_sqlite(Path(folder), rounds, count)]
        rows += await _restart(Path(folder), waiting)
        rows.append(await _on_postgres(Path(folder), rounds, count // 2))
    return rows


async def _on_sqlite(folder: Path, rounds: int, count: int) -> Row:
    first, second = await written_by_a_call(str(folder / "shape.db"))
    raw = await _opened_raw(folder / "raw.db")
    try:
        async with Runtime(add, store=str(folder / "ours.db")) as runtime:

            async def limit() -> float:
                return _raw_groups(raw, first, second, count)

            measured = await ratio(limit, lambda: _calls(runtime, SQLITE_CALLERS, count), rounds=rounds)
    finally:
        raw.close()
    return Row(f"{SQLITE_CALLERS} callers on SQLite, synchronous=FULL: raw statements in the same commits / durable calls",
               measured, 0.5, at_least=True)


async def _calls(runtime: Runtime, callers: int, count: int) -> float:
    async def caller() -> None:
        for _ in range(count // callers):
            await runtime.call("add", '{"a": 1, "b": 2}')

    began = perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return perf_counter() - began


async def written_by_a_call(address: str) -> list[Write]:
    """The two writes of one durable call, as they reach the database."""
    async with Store.open(address) as store:
        writes: list[Write] = []
        write = store.database.write

        async def noting(statements: Sequence[Statement]) -> Any:
            if any(step.params.get("call_id") for step in statements):
                writes.append([(step.sql, dict(step.params)) for step in statements])
            return await write(statements)

        store.database.write = noting  # type: ignore[method-assign]
        async with Runtime(add, store=store) as runtime:
            assert (await runtime.call("add", '{"a": 1, "b": 2}')).data == 3
    assert len(writes) == 2
    return writes


async def _opened_raw(path: Path) -> sqlite3.Connection:
    async with Store.open(str(path)):
        pass
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    connection.execute("PRAGMA synchronous=FULL")
    connection.create_function("toolwright_now", 0, time.time)
    return connection


def _raw_groups(connection: sqlite3.Connection, first: Write, second: Write, count: int) -> float:
    steps = [[(native(sql), params) for sql, params in write] for write in (first, second)]
    began = perf_counter()
    for _ in range(count // SQLITE_CALLERS):
        ids = [new_id() for _ in range(SQLITE_CALLERS)]
        for write in steps:
            connection.execute("BEGIN IMMEDIATE")
            for call_id in ids:
                for sql, params in write:
                    connection.execute(sql, {**params, "call_id": call_id})
            connection.execute("COMMIT")
    return perf_counter() - began
