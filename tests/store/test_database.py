"""Writes and reads, with the same meaning on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import gc
import random
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from surehand import Store
from surehand.store import migrations
from surehand.store.database import Statement, StoreError, StoreUnavailable, UnexpectedRowCount, UnstorableValue
from surehand.store.migrations import MIGRATION_FILES, AnyDatabase, apply_migrations, open_database, schema_version
from tests.durable.conftest import new_address
from tests.postgres_server import Schemas

TABLE = "CREATE TABLE things (name TEXT PRIMARY KEY, number BIGINT, at {real}, raw {blob}, body TEXT)"
ADD = "INSERT INTO things (name, number) VALUES (:name, :number)"
pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database without tables: here tests make some of their own, and change what ours are like."""
    return untouched(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def shared_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same, for those who open it twice."""
    return untouched(request, tmp_path)


def untouched(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param != "postgres":
        return new_address(request.param, request, folder)
    schemas: Schemas = request.getfixturevalue("schemas")
    return schemas.address(schemas.fresh())


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[AnyDatabase]:
    database = await open_database(address)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def with_table(address: str) -> AsyncIterator[AnyDatabase]:
    async with opened(address) as database:
        await database.write([Statement(TABLE)])
        yield database


async def names(database: AnyDatabase) -> list[str]:
    return [row["name"] for row in await database.read("SELECT name FROM things ORDER BY name")]


async def test_a_written_row_can_be_read(address):
    async with with_table(address) as database:
        await database.write([Statement(ADD, {"name": "a", "number": 1})])

        rows = await database.read("SELECT name, number FROM things WHERE name = :name", {"name": "a"})

    assert rows == [{"name": "a", "number": 1}]


async def test_a_write_is_all_or_nothing(address):
    async with with_table(address) as database:
        with pytest.raises(UnexpectedRowCount):
            await database.write(
                [
                    Statement(ADD, {"name": "a", "number": 1}),
                    Statement("UPDATE things SET number = 2 WHERE name = 'unknown'", expect=1),
                ]
            )

        assert await names(database) == []


async def test_returned_rows_count_as_changed_rows(address):
    async with with_table(address) as database:
        [[row]] = await database.write(
            [Statement(f"{ADD} RETURNING name, number", {"name": "a", "number": 1}, expect=1)]
        )

    assert row == {"name": "a", "number": 1}


async def test_a_failing_write_does_not_affect_others(address):
    async with with_table(address) as database:
        good = [database.write([Statement(ADD, {"name": f"n{n:03}", "number": n})]) for n in range(50)]
        bad = [database.write([Statement(ADD, {"name": "same", "number": n})]) for n in range(3)]
        results = await asyncio.gather(*good, *bad, return_exceptions=True)

        assert len(await names(database)) == 51
        assert sum(isinstance(result, UnstorableValue) for result in results) == 2


async def test_of_many_that_want_the_same_row_one_wins(address):
    async with with_table(address) as database:
        await database.write([Statement(ADD, {"name": "prize", "number": 0})])
        take = "UPDATE things SET number = :number WHERE name = 'prize' AND number = 0"
        tries = [database.write([Statement(take, {"number": n}, expect=1)]) for n in range(1, 41)]
        results = await asyncio.gather(*tries, return_exceptions=True)

    assert sum(not isinstance(result, Exception) for result in results) == 1
    assert all(isinstance(result, (list, UnexpectedRowCount)) for result in results)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "end\udfff"])
async def test_both_databases_reject_the_same_texts(address, text):
    async with with_table(address) as database:
        with pytest.raises(UnstorableValue):
            await database.write([Statement(ADD, {"name": text, "number": 1})])

        assert await names(database) == []


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
async def test_an_integer_that_does_not_fit_is_rejected(address, number):
    async with with_table(address) as database:
        with pytest.raises(UnstorableValue):
            await database.write([Statement(ADD, {"name": "a", "number": number})])


HOSTILE = ["", "'; DROP TABLE things; --", "%s %(name)s :name {now}", "ünï 🎉", "x" * 10_000_000]


@pytest.mark.parametrize("text", HOSTILE)
async def test_any_other_text_comes_back_exactly(address, text):
    async with with_table(address) as database:
        add = "INSERT INTO things (name, number, body) VALUES ('a', :number, :body)"
        await database.write([Statement(add, {"number": 2**63 - 1, "body": text})])

        assert await database.read("SELECT number, body FROM things") == [{"number": 2**63 - 1, "body": text}]


async def test_bytes_come_back_exactly(address):
    async with with_table(address) as database:
        raw = bytes(range(256))
        await database.write([Statement("INSERT INTO things (name, raw) VALUES ('a', :raw)", {"raw": raw})])
        [row] = await database.read("SELECT raw FROM things")

    assert bytes(row["raw"]) == raw


async def test_the_databases_own_clock_is_in_seconds(address):
    async with with_table(address) as database:
        await database.write([Statement("INSERT INTO things (name, at) VALUES ('a', {now})")])
        await database.write([Statement("INSERT INTO things (name, at) VALUES ('b', {now})")])
        first, second = await database.read("SELECT at FROM things ORDER BY name")

    assert 1_700_000_000 < first["at"] <= second["at"] < first["at"] + 60


async def test_a_second_opening_finds_everything_and_migrates_nothing(shared_address):
    async with with_table(shared_address) as database:
        await database.write([Statement(ADD, {"name": "a", "number": 1})])

    async with opened(shared_address) as again:
        assert await names(again) == ["a"]
        assert await apply_migrations(again) == 0
        assert await schema_version(again) == len(MIGRATION_FILES)


async def test_a_store_of_an_older_version_is_migrated_with_its_content(shared_address, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(migrations, "MIGRATION_FILES", MIGRATION_FILES[:1])
        async with Store.open(shared_address) as store:
            await store.spaces.create("team")
            assert await schema_version(store.database) == 1

    async with Store.open(shared_address) as store:
        await store.spaces.join("team", "ann")
        message = await store.spaces.post("team", "Still here.", sender="ann")
        assert await schema_version(store.database) == len(MIGRATION_FILES)
    assert message.number == 1


async def test_many_processes_may_open_an_empty_store_at_once(shared_address):
    databases = await asyncio.gather(*(open_database(shared_address) for _ in range(5)))

    assert [await schema_version(database) for database in databases] == [len(MIGRATION_FILES)] * 5
    await asyncio.gather(*(database.close() for database in databases))


async def test_a_store_of_a_newer_version_is_not_touched(shared_address):
    async with opened(shared_address) as database:
        await database.write([Statement("INSERT INTO schema_versions (version, applied_at) VALUES (99, 0)")])

    with pytest.raises(StoreError, match="version 99"):
        await open_database(shared_address)


async def test_a_closed_store_says_so(address):
    database = await open_database(address)
    await database.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        await database.read("SELECT 1")


async def test_a_store_that_cannot_be_opened_says_so(tmp_path):
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await open_database(str(tmp_path / "missing" / "store.db"))
    (tmp_path / "text.db").write_text("this is no database, but a text that is long enough to look at" * 20)
    with pytest.raises(StoreUnavailable):
        await open_database(str(tmp_path / "text.db"))


async def test_a_store_file_is_readable_by_its_owner_alone(tmp_path):
    async with opened(str(tmp_path / "store.db")) as database:
        await database.acquire_owner_lock("abc")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in Path(tmp_path).rglob("*")}

    files = dict.fromkeys(["store.db", "store.db-wal", "store.db-shm", "abc"], 0o600)
    assert modes == {**files, "store.db-owners": 0o700}


async def test_another_process_that_closes_the_file_does_not_delete_the_log_in_use(tmp_path):
    file, log = tmp_path / "store.db", tmp_path / "store.db-wal"
    look = f"import sqlite3; it = sqlite3.connect({str(file)!r}); it.execute('SELECT * FROM things'); it.close()"
    async with with_table(str(file)) as database, opened(str(file)):
        before = log.stat().st_ino
        subprocess.run([sys.executable, "-c", look], check=True)

        assert log.stat().st_ino == before
        await database.write([Statement(ADD, {"name": "a", "number": 1})])
        with closing(sqlite3.connect(file)) as fresh:
            assert fresh.execute("SELECT name FROM things").fetchall() == [("a",)]


async def test_writes_at_the_same_time_share_commits(tmp_path):
    async with with_table(str(tmp_path / "store.db")) as database:
        commits = 0
        connection_commits = database.commit_count
        await asyncio.gather(*(database.write([Statement(ADD, {"name": str(n), "number": n})]) for n in range(300)))
        commits = database.commit_count - connection_commits

    assert 1 <= commits < 100


async def test_a_full_disk_is_a_clean_error_and_loses_no_acknowledged_write(tmp_path):
    async with with_table(str(tmp_path / "store.db")) as database:
        [[pages]] = [await database.read("PRAGMA page_count")]
        await database.write([Statement(f"PRAGMA max_page_count = {pages['page_count'] + 20}")])
        acknowledged = []
        for number in range(200):
            try:
                await database.write([Statement(ADD, {"name": f"{number:04}" + "x" * 2_000, "number": number})])
            except StoreUnavailable:
                continue
            acknowledged.append(number)

        stored = [row["number"] for row in await database.read("SELECT number FROM things ORDER BY number")]

    assert 0 < len(acknowledged) < 200
    assert stored == acknowledged


async def test_a_database_in_memory_answers_at_once_on_the_callers_own_thread():
    database = await open_database(":memory:")
    before, commits = set(threading.enumerate()), database.commit_count

    with pytest.raises(StopIteration) as end:
        database.write([Statement("CREATE TABLE t (n)"), Statement("INSERT INTO t VALUES (1) RETURNING n")]).send(None)
    assert end.value.value == [[], [{"n": 1}]]
    with pytest.raises(StopIteration) as end:
        database.read("SELECT n FROM t").send(None)
    assert end.value.value == [{"n": 1}]

    assert database.commit_count == commits + 1
    assert set(threading.enumerate()) <= before
    await database.close()


@pytest.mark.parametrize("kind", [":memory:", "store.db"])
async def test_on_sqlite_the_clock_can_be_advanced(tmp_path, kind):
    clock = [1_000.0]
    database = await open_database(kind if kind == ":memory:" else str(tmp_path / kind), now=lambda: clock[0])
    [first] = await database.read("SELECT {now} AS now")
    clock[0] += 60

    [[later]] = await database.write([Statement("SELECT {now} AS now")])
    assert (first["now"], later["now"]) == (1_000.0, 1_060.0)
    await database.close()


async def test_a_cancelled_write_is_committed_or_rolled_back_before_its_caller_is_cancelled(address):
    chance = random.Random(7)
    pair = [Statement(ADD, {"name": "first", "number": 0}), Statement(ADD, {"name": "second", "number": 0})]

    async def write(database: AnyDatabase, number: int) -> None:
        both = [half._replace(params={"name": f"{number}{half.params['name']}", "number": number}) for half in pair]
        of_mine = f"SELECT count(*) AS n FROM things WHERE number = {number}"
        try:
            await database.write(both)
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()
            [at_once] = await database.read(of_mine)
            await asyncio.sleep(0.01)
            [later] = await database.read(of_mine)
            assert at_once["n"] == later["n"] in (0, 2)

    async with with_table(address) as database, asyncio.TaskGroup() as group:
        tasks = [group.create_task(write(database, number)) for number in range(120)]
        while waiting := [task for task in tasks if not task.done()]:
            chance.choice(waiting).cancel()
            await asyncio.sleep(chance.choice([0, 0, 0.001]))


async def test_a_write_survives_being_cancelled_again_and_again(address):
    async with with_table(address) as database:
        task = asyncio.create_task(database.write([Statement(ADD, {"name": "a", "number": 1})]))
        while not task.done():
            await asyncio.sleep(0)
            task.cancel()

        assert await names(database) == ["a"]
        await asyncio.gather(task, return_exceptions=True)


async def test_a_failed_write_whose_caller_was_cancelled_is_not_logged_as_unretrieved(address):
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))

    async with with_table(address) as database:
        await database.write([Statement(ADD, {"name": "a", "number": 1})])
        task = asyncio.create_task(database.write([Statement(ADD, {"name": "a", "number": 2})]))
        while not task.done():
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    del task
    gc.collect()
    assert complaints == []


async def test_cancelled_reads_leave_every_connection_usable(address):
    async with with_table(address) as database:
        slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) SELECT count(*) FROM n"
        for pause in (0, 0, 0.001, 0.003):
            reads = [asyncio.create_task(database.read(slow)) for _ in range(20)]
            await asyncio.sleep(pause)
            for read in reads:
                read.cancel()
            await asyncio.gather(*reads, return_exceptions=True)

        rows = await asyncio.gather(*(database.read("SELECT 1 AS one") for _ in range(30)))

    assert rows == [[{"one": 1}]] * 30


async def test_a_statement_that_changes_more_rows_than_expected_is_rolled_back(address):
    async with with_table(address) as database:
        await database.write([Statement(ADD, {"name": name, "number": 0}) for name in "ab"])
        mine = [Statement(ADD, {"name": f"n{number}", "number": 5}) for number in range(20)]
        too_many = Statement("UPDATE things SET number = 9 WHERE number = 0", expect=1)
        results = await asyncio.gather(
            *(database.write([add]) for add in mine[:10]),
            database.write([too_many]),
            database.write([too_many._replace(sql=f"{too_many.sql} RETURNING name")]),
            *(database.write([add]) for add in mine[10:]),
            return_exceptions=True,
        )

        assert [type(result) for result in results] == [list] * 10 + [UnexpectedRowCount] * 2 + [list] * 10
        counts = await database.read("SELECT number, count(*) AS n FROM things GROUP BY number ORDER BY number")
        assert counts == [{"number": 0, "n": 2}, {"number": 5, "n": 20}]


async def test_concurrent_writes_of_all_kinds_each_get_their_result(address):
    add = "INSERT INTO things (name, number) VALUES (:call_id, 1)"
    raise_by_one = "UPDATE things SET number = number + 1 WHERE name = :call_id"
    async with with_table(address) as database:
        await asyncio.gather(*(database.write([Statement(add, {"call_id": f"old {n}"})]) for n in range(10)))
        writes = [
            *([Statement(add, {"call_id": f"new {n}"}, 1)] for n in range(10)),
            *([Statement(raise_by_one, {"call_id": f"old {n}"}, 1)] for n in range(10)),
            *([Statement(f"{raise_by_one} RETURNING number", {"call_id": f"new {n}"})] for n in range(2)),
            [Statement(add, {"call_id": "old 1"}, 1)],
            [Statement("DELETE FROM things WHERE name = 'unknown'")],
            [],
        ]
        results = await asyncio.gather(*map(database.write, writes), return_exceptions=True)
        [counts] = await database.read("SELECT count(*) AS present, sum(number) AS sum FROM things")

    assert [each for each in results if isinstance(each, BaseException)] == [results[22]]
    assert isinstance(results[22], UnstorableValue)
    assert results[-1] == []
    assert counts["present"] == 20
    assert 10 + 20 <= counts["sum"] <= 10 + 20 + 2


async def test_each_of_many_writes_gets_its_own_outcome(address):
    """Failures of every kind in between, before and after they changed something."""
    async with with_table(address) as database:
        await database.write([Statement(ADD, {"name": "taken", "number": -1})])
        no_row = Statement("UPDATE things SET number = 1 WHERE name = 'unknown'", expect=1)
        again = Statement(ADD, {"name": "taken", "number": 1})

        def statements(number: int) -> list[Statement]:
            add = Statement(f"{ADD} RETURNING number", {"name": f"{number:03}", "number": number}, expect=1)
            return [[add], [no_row, add], [add, no_row], [again, add], [add, again]][number % 5]

        results = await asyncio.gather(
            *(database.write(statements(number)) for number in range(100)), return_exceptions=True
        )

        assert results[::5] == [[[{"number": number}]] for number in range(0, 100, 5)]
        assert {type(result) for result in results[1::5] + results[2::5]} == {UnexpectedRowCount}
        assert {type(result) for result in results[3::5] + results[4::5]} == {UnstorableValue}
        assert await names(database) == [f"{number:03}" for number in range(0, 100, 5)] + ["taken"]


async def test_a_write_that_comes_too_late_says_so(address):
    async with with_table(address) as database:
        late = asyncio.create_task(database.write([Statement(ADD, {"name": "a", "number": 1})]))
        await database.close()
        with pytest.raises(StoreUnavailable):
            async with asyncio.timeout(20):
                await late


@pytest.mark.parametrize("broken", [b"", b"X" * 4096])
async def test_a_file_that_is_not_a_database_any_more_is_an_error(tmp_path, broken):
    file = tmp_path / "store.db"
    async with with_table(str(file)) as database:
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("INSERT INTO things (name) VALUES ('other')")  # what is cached counts no more
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with file.open("r+b") as raw:
            raw.write(broken)
            if not broken:
                raw.truncate(0)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                async with asyncio.timeout(20):
                    await database.write([Statement(ADD, {"name": "a", "number": 1})])


async def test_a_write_that_changes_no_row_fails_even_among_many_equal_ones(address):
    change = "UPDATE ledger SET state = 'idle' WHERE call_id = :call_id"
    async with opened(address) as database:
        writes = [database.write([Statement(change, {"call_id": str(n)}, None if n % 2 else 1)]) for n in range(10)]
        results = await asyncio.gather(*writes, return_exceptions=True)

    assert [isinstance(each, UnexpectedRowCount) for each in results] == [n % 2 == 0 for n in range(10)]


async def test_closing_finishes_requested_writes(shared_address):
    async with with_table(shared_address) as database:
        writes = [
            asyncio.create_task(database.write([Statement(ADD, {"name": str(n), "number": n})])) for n in range(9)
        ]
        await asyncio.sleep(0)

    assert await asyncio.gather(*writes) == [[[]]] * 9
    async with opened(shared_address) as again:
        assert len(await names(again)) == 9


async def test_a_write_waits_for_another_process_that_writes(tmp_path):
    async with with_table(str(tmp_path / "store.db")) as database:
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO things (name) VALUES ('theirs')")
        ours = asyncio.create_task(database.write([Statement(ADD, {"name": "ours", "number": 1})]))
        await asyncio.sleep(0.05)
        assert not ours.done()
        other.execute("COMMIT")
        other.close()

        await ours
        assert await names(database) == ["ours", "theirs"]


async def test_a_cancelled_write_that_waits_for_another_process_is_withdrawn(tmp_path):
    async with with_table(str(tmp_path / "store.db")) as database:
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        ours = [
            asyncio.create_task(database.write([Statement(ADD, {"name": f"ours {n}", "number": n})])) for n in (1, 2)
        ]
        await asyncio.sleep(0.02)
        later = asyncio.create_task(database.write([Statement(ADD, {"name": "later", "number": 3})]))
        await asyncio.sleep(0.02)

        for task in (ours[0], later):
            task.cancel()
        await asyncio.wait([ours[0], later])
        other.execute("COMMIT")
        other.close()

        await ours[1]
        assert ours[0].cancelled()
        assert later.cancelled()
        assert await names(database) == ["ours 2"]


async def test_connections_that_the_server_has_closed_are_not_used(request):
    address = request.getfixturevalue("postgres").get_uri()
    async with opened(address) as database, opened(address) as other:
        close = """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""
        for _ in range(3):
            await asyncio.gather(*(database.read("SELECT pg_sleep(0.01)") for _ in range(8)))
            await other.read(close)

            assert await database.write([Statement("SELECT 1 AS one")]) == [[{"one": 1}]]


async def test_an_unreachable_server_is_an_error_at_once(tmp_path):
    with pytest.raises(StoreUnavailable, match="PostgreSQL"):
        await open_database(f"postgresql:///nothing?host={tmp_path}")


async def test_a_vacuum_shrinks_the_database(address):
    async with with_table(address) as database:
        add = "INSERT INTO things (name, body) VALUES (:name, :body)"
        await database.write([Statement(add, {"name": str(n), "body": "x" * 100_000}) for n in range(20)])
        full = await database.size_bytes()
        await database.write([Statement("DELETE FROM things")])
        await database.vacuum()

        assert await database.size_bytes() < full if "postgres" not in address else await database.size_bytes() > 0


async def test_a_new_file_supports_incremental_vacuum(tmp_path):
    async with opened(str(tmp_path / "store.db")) as database:
        assert await database.read("PRAGMA auto_vacuum") == [{"auto_vacuum": 2}]
        assert await database.read("PRAGMA journal_mode") == [{"journal_mode": "wal"}]
        assert await database.read("PRAGMA synchronous") == [{"synchronous": 2}]
