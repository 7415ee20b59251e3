"""Owner locks: a dead runtime is recognised at once, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from surehand.store.database import StoreUnavailable
from surehand.store.migrations import AnyDatabase, open_database
from surehand.store.postgres import database as postgres

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server
ALICE, BOB = "a11ce", "b0b"
RUNTIME = """
import asyncio, sys
from surehand.store.migrations import open_database

async def main():
    database = await open_database(sys.argv[1])
    await database.acquire_owner_lock(sys.argv[2])
    print("held", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
# Without the threads of a store: a fork beside threads may hang for reasons of its own.
FORKING = """
import os, sys, time
from surehand.store.sqlite.owner_locks import FileOwnerLocks

locks = FileOwnerLocks(sys.argv[1])
locks.acquire(sys.argv[2])
who = "child" if os.fork() == 0 else "parent"
os.write(1, f"{who} {os.getpid()}\\n".encode())  # at once: print writes word by word where nothing is buffered
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test server has only just started: without this, every owner would count as live."""
    monkeypatch.setattr(postgres, "RECOVERY_GRACE_SECONDS", 0.0)


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[AnyDatabase]:
    database = await open_database(address)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def runtime(address: str, owner: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process that holds the lock of this owner."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUNTIME, address, owner, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until_alive(database: AnyDatabase, *expected: str) -> None:
    """Give PostgreSQL the moment in which it hears that a socket was closed."""
    async with asyncio.timeout(20):
        while await database.live_owners([ALICE, BOB]) != set(expected):  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(0.005)


async def test_only_owners_that_hold_their_lock_are_live(address):
    async with opened(address) as database:
        await database.acquire_owner_lock(ALICE)

        assert await database.live_owners([ALICE, BOB]) == {ALICE}
        assert await database.live_owners([]) == set()


async def test_an_owner_that_released_its_lock_is_not_live(address):
    async with opened(address) as database:
        for owner in (ALICE, BOB):
            await database.acquire_owner_lock(owner)
        await database.release_owner_lock(ALICE)
        await database.release_owner_lock(ALICE)

        assert await database.live_owners([ALICE, BOB]) == {BOB}


async def test_acquiring_twice_is_acquiring_once(address):
    async with opened(address) as database:
        await database.acquire_owner_lock(ALICE)
        await database.acquire_owner_lock(ALICE)
        await database.release_owner_lock(ALICE)

        assert await database.live_owners([ALICE]) == set()


async def test_several_owners_see_each_other(shared_address):
    async with opened(shared_address) as first, opened(shared_address) as second:
        await asyncio.gather(first.acquire_owner_lock(ALICE), second.acquire_owner_lock(BOB))

        assert await first.live_owners([ALICE, BOB]) == await second.live_owners([ALICE, BOB]) == {ALICE, BOB}


async def test_closing_releases_all_locks(shared_address):
    async with opened(shared_address) as watching:
        async with opened(shared_address) as database:
            await database.acquire_owner_lock(ALICE)
            await database.acquire_owner_lock(BOB)

        await until_alive(watching)


async def test_a_closed_store_cannot_acquire_a_lock(address):
    database = await open_database(address)
    await database.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        await database.acquire_owner_lock(ALICE)


async def test_a_killed_process_is_dead_at_once(shared_address):
    async with opened(shared_address) as database, runtime(shared_address, ALICE) as process:
        assert await process.stdout.readline() == b"held\n"
        assert await database.live_owners([ALICE]) == {ALICE}
        process.kill()
        await process.wait()

        await until_alive(database)


async def test_a_forked_child_does_not_keep_its_dead_parent_alive(tmp_path):
    address = str(tmp_path / "store.db")
    program = [sys.executable, "-c", FORKING, address, ALICE]
    async with opened(address) as database:
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as parent:
            lines = sorted([parent.stdout.readline(), parent.stdout.readline()])
            try:
                assert await database.live_owners([ALICE]) == {ALICE}
                parent.kill()
                parent.wait()
                await until_alive(database)
            finally:
                parent.kill()
                os.kill(int(lines[0].split()[1]), signal.SIGKILL)


async def test_the_lock_file_of_a_dead_owner_is_removed(tmp_path):
    (tmp_path / "store.db-owners").mkdir()
    (tmp_path / "store.db-owners" / ALICE).touch()

    async with opened(str(tmp_path / "store.db")) as database:
        assert await database.live_owners([ALICE]) == set()
        await database.acquire_owner_lock(BOB)
        assert [path.name for path in tmp_path.glob("*-owners/*")] == [BOB]
    assert list(Path(tmp_path).glob("*-owners/*")) == []


async def test_lock_files_of_dead_owners_are_removed_by_the_next_owner(tmp_path):
    (tmp_path / "store.db-owners").mkdir()
    (tmp_path / "store.db-owners" / ALICE).touch()

    async with opened(str(tmp_path / "store.db")) as database:
        await database.acquire_owner_lock(BOB)
        assert [path.name for path in tmp_path.glob("*-owners/*")] == [BOB]


@pytest.mark.parametrize("owner", ["", "ABC", "../etc", "a b", "xyz", "a\n"])
async def test_an_owner_is_hexadecimal(address, owner):
    async with opened(address) as database:
        with pytest.raises(ValueError, match="hexadecimal"):
            await database.acquire_owner_lock(owner)
        if address != ":memory:":
            with pytest.raises(ValueError, match="hexadecimal"):
                await database.live_owners([owner])


async def test_every_owner_counts_as_live_shortly_after_the_server_started(postgres_address, monkeypatch):
    monkeypatch.setattr(postgres, "RECOVERY_GRACE_SECONDS", 1e9)
    async with opened(postgres_address) as database:
        assert await database.live_owners([ALICE, BOB]) == {ALICE, BOB}


async def test_a_lost_session_reconnects_with_its_locks(postgres_address, monkeypatch):
    async with opened(postgres_address) as database, opened(postgres_address) as other:
        await database.acquire_owner_lock(ALICE)
        await database.acquire_owner_lock(BOB)
        await other.read("SELECT pg_sleep(5 - extract(epoch FROM now() - pg_postmaster_start_time()))")  # none if older
        [server] = await other.read("SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8 AS age")
        await other.read(
            """SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
        )
        await until_alive(other, ALICE, BOB)

        monkeypatch.setattr(
            postgres, "RECOVERY_GRACE_SECONDS", server["age"]
        )  # long enough ago for the server, not for the session
        assert await other.live_owners(["dead"]) == set()
        assert await database.live_owners(["dead"]) == {"dead"}  # others may have lost theirs with ours


@pytest.fixture
def postgres_address(request: pytest.FixtureRequest) -> str:
    server = request.getfixturevalue("postgres")
    name = f"locks_{abs(hash(request.node.nodeid))}"
    server.psql(f"CREATE DATABASE {name}")
    return str(server.get_uri(database=name))
