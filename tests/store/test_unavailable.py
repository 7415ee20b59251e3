"""A full or broken disk, and a killed server: a clean error, and no acknowledged write is lost."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from surehand import Store
from surehand.store.database import Statement, StoreUnavailable
from surehand.store.migrations import AnyDatabase, open_database
from surehand.store.postgres import database as postgres
from surehand.store.postgres import pool, session
from tests.postgres_server import start_server

ADD = "INSERT INTO things (number, body) VALUES (:number, :body)"
# It fills the disk, reads from a new process, makes room and continues; `limit` and `free` are the two kinds of disk.
CHILD = """
import asyncio, json, os, resource, signal, subprocess, sys
from surehand import Store
from surehand.store.database import Statement, StoreUnavailable
from surehand.store.migrations import open_database

folder, kind = sys.argv[1:]
path, ballast = os.path.join(folder, "store.db"), os.path.join(folder, "ballast")
READ = "import sqlite3, sys; print([n for n, in sqlite3.connect(sys.argv[1]).execute('SELECT number FROM things')])"

def limit(size):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def stored():
    return sorted(json.loads(subprocess.check_output([sys.executable, "-c", READ, path])))

async def main():
    if kind == "full":
        open(ballast, "wb").write(b"x" * 400_000)
    database = await open_database(path)
    await database.write([Statement("CREATE TABLE things (number INTEGER, body TEXT)")])
    if kind == "broken":
        limit(os.path.getsize(path + "-wal") + 300_000)
    acknowledged, errors = [], set()

    async def write(number):
        try:
            await database.write([Statement(sys.argv[0], {"number": number, "body": "x" * 3_000})])
            acknowledged.append(number)
        except StoreUnavailable as error:
            errors.add(str(error))

    for start in range(0, 600, 30):
        await asyncio.gather(*(write(number) for number in range(start, start + 30)))
    during = sorted(acknowledged), stored()
    os.remove(ballast) if kind == "full" else limit(resource.RLIM_INFINITY)
    for number in range(1000, 1010):
        await write(number)
    print(json.dumps({"during": during, "after": [sorted(acknowledged), stored()], "errors": sorted(errors)}))
    await database.close()

sys.argv[0] = "INSERT INTO things (number, body) VALUES (:number, :body)"
asyncio.run(main())
"""
SMALL_DISK = 'mount -t tmpfs -o size=1500k none "$0" && exec "$@"'


def on_a_small_disk(folder: Path, *command: str) -> list[str]:
    """Run a program whose folder is a disk of its own, visible to it alone and gone afterwards."""
    unshare = ["unshare", "--map-root-user", "--mount"] if os.geteuid() else ["unshare", "--mount"]
    return [*unshare, "sh", "-c", SMALL_DISK, str(folder), *command]


def can_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(on_a_small_disk(folder, "true"), capture_output=True, check=False).returncode == 0


def reported(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("kind", "complaint"), [("full", "disk is full"), ("broken", "disk I/O error")])
def test_a_disk_that_fails_costs_no_acknowledged_write_and_recovers(tmp_path, kind, complaint):
    command = [sys.executable, "-c", CHILD, str(tmp_path), kind]
    if kind == "full":
        if not can_mount(tmp_path):
            pytest.skip("no small disk can be mounted here")
        command = on_a_small_disk(tmp_path, *command)

    report = reported(command)

    acknowledged, stored = report["during"]
    assert 0 < len(acknowledged) < 600
    assert stored == acknowledged
    assert report["after"] == [acknowledged + list(range(1000, 1010))] * 2
    assert all(complaint in error for error in report["errors"])


@pytest.fixture
def own_server() -> Iterator[Any]:
    """A server that the test may kill."""
    folder = Path(tempfile.mkdtemp(prefix="surehand-pg-"))
    server = start_server(folder)
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


async def kill_server(server: Any) -> None:
    """As if its power was cut: all at once, and its files are as they were."""
    postmaster = psutil.Process(server.get_pid())
    postmaster.suspend()  # or it might begin another one that is not among its children yet
    processes = [postmaster, *postmaster.children()]
    postmaster.kill()
    await until(lambda: all(map(is_dead, processes)))
    for file in (server.pgdata / "postmaster.pid", *server.pgdata.glob(".s.PGSQL.*.lock")):
        file.unlink()  # a zombie process would look like a running server


def is_dead(process: Any) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.timeout(80)
async def test_a_killed_server_costs_no_acknowledged_write_and_comes_back(own_server, monkeypatch):
    monkeypatch.setattr(session, "MAX_RECONNECT_SECONDS", 0.2)
    monkeypatch.setattr(postgres, "RECOVERY_GRACE_SECONDS", 60.0)
    database = await open_database(own_server.get_uri())
    await database.write([Statement("CREATE TABLE things (number INTEGER, body TEXT)")])
    await database.acquire_owner_lock("a11ce")
    acknowledged: list[int] = []
    lost: list[int] = []
    stop = asyncio.Event()

    async def keep_writing(first: int) -> None:
        for number in range(first, first + 100_000):
            try:
                await database.write([Statement(ADD, {"number": number, "body": ""})])
                acknowledged.append(number)
            except StoreUnavailable:
                lost.append(number)
            if stop.is_set():
                return

    async with asyncio.TaskGroup() as group:
        for writer in range(4):
            group.create_task(keep_writing(writer * 100_000))
        await until(lambda: len(acknowledged) > 20)
        monkeypatch.setattr(pool, "CONNECTION_TIMEOUT_SECONDS", 0.5)
        await kill_server(own_server)
        await until(lambda: bool(lost))
        monkeypatch.setattr(pool, "CONNECTION_TIMEOUT_SECONDS", 20.0)
        before = len(acknowledged)
        await asyncio.to_thread(own_server.ensure_postgres_running)
        await until(lambda: len(acknowledged) > before + 20)
        stop.set()

    rows = await database.read("SELECT number FROM things")
    assert set(acknowledged) <= {row["number"] for row in rows} <= set(acknowledged) | set(lost)
    assert await database.live_owners(["a11ce", "b0b"]) == {"a11ce", "b0b"}  # it has only just come back
    await until_held(database)
    await database.close()


async def until(true: Any) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - many things may make it true
            await asyncio.sleep(0.01)


async def until_held(database: AnyDatabase) -> None:
    async with asyncio.timeout(30):
        while not await database.read("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted"):  # noqa: ASYNC110 - the server knows
            await asyncio.sleep(0.01)


async def test_a_file_in_a_folder_that_does_not_exist_says_to_create_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "nosuch"

    with pytest.raises(StoreUnavailable, match=f"there is no folder {folder}. Create it, or name another file."):
        async with Store.open(folder / "x.db"):
            pass
