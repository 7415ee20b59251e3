"""Writes are values, all or nothing, and mean the same on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from toolwright.store.database import Statement, StoreError, StoreUnavailable, Unexpected, Unstorable
from toolwright.store.opening import AnyDatabase, migrate, open_database, schema_version

TABLE = "CREATE TABLE things (name TEXT PRIMARY KEY, number BIGINT, at {real}, raw {blob}, body TEXT)"
ADD = "INSERT INTO things (name, number) VALUES (:name, :number)"
pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


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


async def test_what_is_written_can_be_read(address):
    async with with_table(address) as database:
        await database.write([Statement(ADD, {"name": "a", "number": 1})])

        rows = await database.read("SELECT name, number FROM things WHERE name = :name", {"name": "a"})

    assert rows == [{"name": "a", "number": 1}]


async def test_a_write_is_all_or_nothing(address):
    async with with_table(address) as database:
        with pytest.raises(Unexpected):
            await database.write(
                [
                    Statement(ADD, {"name": "a", "number": 1}),
                    Statement("UPDATE things SET number = 2 WHERE name = 'nobody'", expect=1),
                ]
            )

        assert await names(database) == []


async def test_returned_rows_count_as_changed_rows(address):
    async with with_table(address) as database:
        [[row]] = await database.write(
            [Statement(f"{ADD} RETURNING name, number", {"name": "a", "number": 1}, expect=1)]
        )

    assert row == {"name": "a", "number": 1}


async def test_one_failing_write_takes_no_other_along(address):
    async with with_table(address) as database:
        good = [database.write([Statement(ADD, {"name": f"n{n:03}", "number": n})]) for n in range(50)]
        bad = [database.write([Statement(ADD, {"name": "same", "number": n})]) for n in range(3)]
        results = await asyncio.gather(*good, *bad, return_exceptions=True)

        assert len(await names(database)) == 51
        assert sum(isinstance(result, Unstorable) for result in results) == 2


async def test_of_many_that_want_the_same_row_one_wins(address):
    async with with_table(address) as database:
        await database.write([Statement(ADD, {"name": "prize", "number": 0})])
        take = "UPDATE things SET number = :number WHERE name = 'prize' AND number = 0"
        tries = [database.write([Statement(take, {"number": n}, expect=1)]) for n in range(1, 41)]
        results = await asyncio.gather(*tries, return_exceptions=True)

    assert sum(not isinstance(result, Exception) for result in results) == 1
    assert all(isinstance(result, (list, Unexpected)) for result in results)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "end\udfff"])
async def test_text_that_one_database_refuses_both_refuse(address, text):
    async with with_table(address) as database:
        with pytest.raises(Unstorable):
            await database.write([Statement(ADD, {"name": text, "number": 1})])

        assert await names(database) == []


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
async def test_an_integer_that_does_not_fit_is_refused(address, number):
    async with with_table(address) as database:
        with pytest.raises(Unstorable):
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
        assert await migrate(again) == 0
        assert await schema_version(again) == 1


async def test_many_processes_may_open_an_empty_store_at_once(shared_address):
    databases = await asyncio.gather(*(open_database(shared_address) for _ in range(5)))

    assert [await schema_version(database) for database in databases] == [1] * 5
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


async def test_a_store_file_is_for_its_owner_alone(tmp_path):
    async with opened(str(tmp_path / "store.db")):
        modes = {stat.S_IMODE(file.stat().st_mode) for file in Path(tmp_path).iterdir()}

    assert modes == {0o600}


async def test_writes_at_the_same_time_share_commits(tmp_path):
    async with with_table(str(tmp_path / "store.db")) as database:
        commits = 0
        connection_commits = database.commits
        await asyncio.gather(*(database.write([Statement(ADD, {"name": str(n), "number": n})]) for n in range(300)))
        commits = database.commits - connection_commits

    assert 1 <= commits < 100


async def test_a_full_disk_is_a_clean_error_and_what_was_acknowledged_is_there(tmp_path):
    async with with_table(str(tmp_path / "store.db")) as database:
        [[pages]] = [await database.read("PRAGMA page_count")]
        await database.write([Statement(f"PRAGMA max_page_count = {pages['page_count'] + 20}")])
        kept = []
        for number in range(200):
            try:
                await database.write([Statement(ADD, {"name": f"{number:04}" + "x" * 2_000, "number": number})])
            except StoreUnavailable:
                continue
            kept.append(number)

        stored = [row["number"] for row in await database.read("SELECT number FROM things ORDER BY number")]

    assert 0 < len(kept) < 200
    assert stored == kept
