"""Announcements: a write notifies other processes when it is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from surehand.store.database import Statement, UnexpectedRowCount
from surehand.store.migrations import AnyDatabase, open_database

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server
ANNOUNCE = Statement("{announce}")


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[AnyDatabase]:
    database = await open_database(address)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def listening(database: AnyDatabase) -> AsyncIterator[asyncio.Event]:
    """Set whenever it is called back; clear once listening has begun."""
    heard = asyncio.Event()
    stop = database.on_announce(heard.set)
    try:
        await asyncio.wait_for(heard.wait(), 20)
        heard.clear()
        yield heard
    finally:
        stop()


@pytest.fixture
def postgres_address(request: pytest.FixtureRequest) -> str:
    server = request.getfixturevalue("postgres")
    name = f"announcements_{abs(hash(request.node.nodeid))}"
    server.psql(f"CREATE DATABASE {name}")
    return str(server.get_uri(database=name))


async def test_a_write_may_announce_itself_on_every_database(address):
    async with opened(address) as database:
        assert await database.write([ANNOUNCE, Statement("SELECT 1 AS one")]) == [[], [{"one": 1}]]


async def test_on_sqlite_no_callback_runs(tmp_path):
    async with opened(str(tmp_path / "store.db")) as database:
        heard = asyncio.Event()
        stop = database.on_announce(heard.set)
        await database.write([ANNOUNCE])
        stop()

    assert not heard.is_set()


async def test_an_announcement_reaches_other_processes_and_this_one(postgres_address):
    async with (
        opened(postgres_address) as first,
        opened(postgres_address) as second,
        listening(first) as by_first,
        listening(second) as by_second,
    ):
        await first.write([ANNOUNCE])

        await asyncio.wait_for(by_first.wait(), 20)
        await asyncio.wait_for(by_second.wait(), 20)


async def test_a_rolled_back_write_announces_nothing(postgres_address):
    async with opened(postgres_address) as database, listening(database) as heard:
        with pytest.raises(UnexpectedRowCount):
            await database.write([ANNOUNCE, Statement("SELECT 1", expect=2)])
        await asyncio.sleep(0.05)

        assert not heard.is_set()


async def test_an_unsubscribed_callback_is_not_called(postgres_address):
    async with opened(postgres_address) as database:
        async with listening(database) as stopped:
            pass
        async with listening(database) as heard:
            stopped.clear()
            await database.write([ANNOUNCE])
            await asyncio.wait_for(heard.wait(), 20)

        assert not stopped.is_set()


async def test_a_failing_callback_does_not_affect_the_others(postgres_address):
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))

    async with opened(postgres_address) as database:
        stop = database.on_announce(lambda: 1 / 0)
        async with listening(database) as heard:
            await database.write([ANNOUNCE])
            await asyncio.wait_for(heard.wait(), 20)
        stop()

    assert complaints


async def test_locks_are_taken_while_listening(postgres_address):
    async with opened(postgres_address) as database, listening(database) as heard:
        await database.acquire_owner_lock("a11ce")
        heard.clear()
        await database.write([ANNOUNCE])

        await asyncio.wait_for(heard.wait(), 20)


async def test_after_a_reconnect_all_callbacks_run_and_notifications_arrive_again(postgres_address):
    lose = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN surehand'
        AND datname = current_database()"""
    async with opened(postgres_address) as database, opened(postgres_address) as other, listening(database) as heard:
        await other.read(lose)
        await asyncio.wait_for(heard.wait(), 20)  # something may have been missed
        heard.clear()
        await other.write([ANNOUNCE])

        await asyncio.wait_for(heard.wait(), 20)
