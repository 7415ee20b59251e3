"""A SQLite file that others lock, delete, move or replace, and handlers that keep the interpreter."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from surehand import Runtime, tool
from surehand.store.database import Statement, StoreUnavailable
from surehand.store.migrations import open_database
from surehand.store.sqlite.single_step import SingleStepWriter
from surehand.store.store import Store

ADD = "INSERT INTO things (name, number) VALUES (:name, :number)"
RENAME = "UPDATE things SET name = :name WHERE number = :number"
CREATE_THINGS = "CREATE TABLE things (name TEXT PRIMARY KEY, number)"


def add(number: int) -> Statement:
    return Statement(ADD, {"name": f"thing {number}", "number": number}, expect=1)


async def write_until_refused(store: Store) -> str:
    with pytest.raises(StoreUnavailable) as refusal:
        await store.write([Statement(ADD, {"name": "lost", "number": 1})])
    return str(refusal.value)


def delete_file(path: Path) -> None:
    path.unlink()


def move_file(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replace_file(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    os.replace(copy, path)


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


@pytest.mark.parametrize("attack", [delete_file, move_file, replace_file, delete_log])
async def test_a_file_that_is_deleted_moved_or_replaced_takes_no_more_writes_and_says_so(tmp_path, attack):
    path = tmp_path / "store.db"
    async with Store.open(path) as store:
        await store.write([Statement(CREATE_THINGS)])
        await store.write([add(1)])

        attack(path)

        assert "was deleted, moved or replaced" in await write_until_refused(store)
        with pytest.raises(StoreUnavailable, match="restart the program"):
            await store.database.read("SELECT * FROM things")
        with pytest.raises(StoreUnavailable, match="restart the program"):
            await store.database.quick_read("SELECT * FROM things")


async def test_a_call_on_a_deleted_store_is_refused_before_it_runs(tmp_path):
    payments: list[int] = []

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        payments.append(amount)
        return "paid"

    async with Runtime(pay, store=tmp_path / "store.db") as runtime:
        assert (await runtime.call("pay", {"amount": 1})).ok
        (tmp_path / "store.db").unlink()

        outcome = await runtime.call("pay", {"amount": 2})

    assert (outcome.code, outcome.executed, payments) == ("unavailable", False, [1])
    assert "deleted, moved or replaced" in outcome.message


async def test_a_file_that_is_put_back_is_used_again(tmp_path):
    path = tmp_path / "store.db"
    async with Store.open(path) as store:
        await store.write([Statement(CREATE_THINGS)])
        path.rename(tmp_path / "moved.db")
        await write_until_refused(store)

        (tmp_path / "moved.db").rename(path)

        await store.write([add(1)])
        assert await store.database.read("SELECT number FROM things") == [{"number": 1}]


async def test_a_program_that_changes_its_folder_still_uses_its_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with Store.open("store.db") as store:
        await store.write([Statement(CREATE_THINGS)])
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")

        await store.write([add(1)])

        assert await store.database.read("SELECT number FROM things") == [{"number": 1}]
    assert not (tmp_path / "elsewhere" / "store.db").exists()


async def test_the_event_loop_goes_on_while_another_process_holds_the_lock_as_a_connection_opens(tmp_path):
    path = tmp_path / "store.db"
    async with Store.open(path):
        pass
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    opening = asyncio.ensure_future(Store.open(path).__aenter__())

    for _ in range(10):  # each turn of the loop would take thirty seconds if opening blocked it
        await asyncio.sleep(0.01)
        assert not opening.done()

    other.execute("COMMIT")
    other.close()
    await (await opening).close()


async def test_a_quick_read_does_not_wait_for_a_lock_on_the_event_loop(tmp_path):
    path = tmp_path / "store.db"
    async with Store.open(path) as store:
        await store.write([Statement(CREATE_THINGS)])
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        assert await store.database.quick_read("SELECT count(*) FROM things") == [(0,)]

        other.execute("ROLLBACK")
        other.close()


HOLDER = """
import asyncio, sys
from surehand import Runtime, tool

def hold_interpreter():
    sum(range(60_000_000))  # one call into C, which keeps the GIL

@tool
def in_thread(number: int) -> int:
    "Work."
    hold_interpreter()
    return number

@tool
async def on_loop(number: int) -> int:
    "Work."
    if number % 3 == 0:
        hold_interpreter()
    return number

async def main():
    async with Runtime(in_thread, on_loop, store=sys.argv[1]) as runtime:
        print("ready", flush=True)
        async def work(worker):
            for number in range(2):
                assert (await runtime.call(sys.argv[2], {"number": 2 * worker + number})).ok
        await asyncio.gather(*(work(worker) for worker in range(4)))

asyncio.run(main())
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("where", ["in_thread", "on_loop"])
def test_a_handler_that_keeps_the_interpreter_never_keeps_the_write_lock(tmp_path, where):
    path = tmp_path / "store.db"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path), where], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"

    # A lock that depends on the interpreter is held for more than half a second.
    connection = sqlite3.connect(path, isolation_level=None, timeout=0.4)
    while holder.poll() is None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    connection.close()
    holder.stdout.close()

    assert holder.returncode == 0


def with_triggers() -> tuple[sqlite3.Connection, SingleStepWriter]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(CREATE_THINGS)
    return connection, SingleStepWriter(connection, lambda: 5.0)


@pytest.mark.parametrize(
    "text", ["", 'é\n"\\ \u2028 𝄞\x01', "null", "[1]", '{"a": 1}', "1.5", "'; DROP TABLE things --"]
)
@pytest.mark.parametrize("number", [None, 0, -1, 2**63 - 1, 1.5, 1794985230.9020023, 1e300, "x"])
def test_a_single_step_stores_the_values_as_they_are(text, number):
    connection, writer = with_triggers()

    steps = writer.encode([[Statement(ADD, {"name": text, "number": number}, 1)]])
    assert steps is not None
    writer.execute(steps)

    [row] = connection.execute("SELECT name, number FROM things").fetchall()
    assert row == (text, number)
    assert type(row[1]) is type(number)


@pytest.mark.parametrize("second", [Statement(RENAME, {"name": "new", "number": 9}, 1), add(1)])
def test_a_single_step_in_which_one_statement_fails_changes_nothing(second):
    connection, writer = with_triggers()

    steps = writer.encode([[add(1)], [add(2), second]])
    assert steps is not None
    with pytest.raises(sqlite3.IntegrityError):
        writer.execute(steps)

    assert not connection.in_transaction
    assert connection.execute("SELECT count(*) FROM things").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "statement",
    [
        Statement("SELECT 1"),
        Statement(f"{ADD} RETURNING name", {"name": "a", "number": 1}),
        Statement(ADD, {"name": b"bytes", "number": 1}),
        Statement(ADD, {"name": "a", "number": float("inf")}),
    ],
)
def test_what_does_not_fit_in_a_single_step_is_left_to_a_transaction(statement):
    _, writer = with_triggers()

    assert writer.encode([[add(1)], [statement]]) is None


async def test_beside_other_threads_each_write_still_succeeds_or_fails_by_itself(tmp_path):
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        database = await open_database(str(tmp_path / "store.db"))
        await database.write([Statement(CREATE_THINGS)])

        writes = [database.write([add(number), add(number + 100)]) for number in (1, 2, 1, 3, 4, 5, 6, 2)]
        results = await asyncio.gather(*writes, return_exceptions=True)

        assert [isinstance(result, Exception) for result in results] == [False, False, True, *[False] * 4, True]
        [row] = await database.read("SELECT count(*) AS number FROM things")
        assert row["number"] == 12
        await database.close()
    finally:
        stop.set()
        thread.join()


async def test_closing_a_store_leaves_no_thread_behind(tmp_path: Path):
    threads_before = set(threading.enumerate())
    async with Store.open(tmp_path / "calls.db"):
        pass

    left = set(threading.enumerate()) - threads_before
    for thread in left:
        thread.join(timeout=1)  # the one that waited for the others has only to return

    assert not any(thread.is_alive() for thread in left)
