"""The table `journal`: what happened to calls, in order, for readers that continue from a cursor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from surehand.store.database import Statement, UnexpectedRowCount
from surehand.store.migrations import open_database
from surehand.store.tables.journal import JournalRow, JournalTable

pytestmark = pytest.mark.timeout(30)


@asynccontextmanager
async def journal_at(address: str) -> AsyncIterator[JournalTable]:
    database = await open_database(address)
    try:
        yield JournalTable(database)
    finally:
        await database.close()


async def ended(journal: JournalTable, *calls: str) -> None:
    for call in calls:
        await journal.append(journal.entry_statement("ended", call, "echo", "ok"))


def calls(entries: list[JournalRow]) -> list[str]:
    return [entry.call_id for entry in entries]


async def test_an_entry_says_what_happened(address):
    async with journal_at(address) as journal:
        about = {"user": "ada", "session": "s", "parent": "c0", "latency_ms": 1.5}
        await journal.append(journal.entry_statement("ended", "c1", "mail__send", "timed_out", **about))
        [entry] = await journal.after()

    assert entry == JournalRow(entry.cursor, entry.at, "ended", "c1", "mail__send", "timed_out", "ada", "s", "c0", 1.5)
    assert entry.at > 1_700_000_000


async def test_entries_are_added_all_or_none(address):
    async with journal_at(address) as journal:
        wrong = Statement("UPDATE journal SET tool = '' WHERE call_id = 'unknown'", expect=1)
        with pytest.raises(UnexpectedRowCount):
            await journal.append(journal.entry_statement("ended", "c1", "echo", "ok"), wrong)

        assert await journal.after() == []
        assert (await journal.latest(), await journal.of_call("c1")) == ([], [])


async def test_a_reader_continues_from_its_cursor(address):
    async with journal_at(address) as journal:
        await ended(journal, "c1", "c2", "c3")
        first = await journal.after(limit=2)
        await ended(journal, "c4")
        rest = await journal.after(first[-1].cursor)

        assert (calls(first), calls(rest)) == (["c1", "c2"], ["c3", "c4"])
        assert await journal.after(rest[-1].cursor) == []
        assert await journal.after(limit=0) == await journal.after(limit=-1) == []


async def test_latest_returns_newest_first_with_usable_cursors(address):
    async with journal_at(address) as journal:
        await ended(journal, "c1", "c2", "c3")
        newest = await journal.latest(2)
        await ended(journal, "c4")

        assert calls(newest) == ["c3", "c2"]
        assert calls(await journal.after(newest[0].cursor)) == ["c4"]


async def test_the_entries_of_one_call_are_in_order(address):
    async with journal_at(address) as journal:
        await journal.append(journal.entry_statement("pending", "c1", "echo", "approval"))
        await ended(journal, "c2")
        await journal.append(
            journal.entry_statement("settled", "c1", "echo", "approve"),
            journal.entry_statement("ended", "c1", "echo", "ok"),
        )

        story = await journal.of_call("c1")

    assert [(entry.kind, entry.status) for entry in story] == [
        ("pending", "approval"), ("settled", "approve"), ("ended", "ok"),
    ]  # fmt: skip


@pytest.mark.parametrize("cursor", ["1", "-", "1-", "-1-2", "1-2-3", "1 -2", "a-b", "٣-٤", "1-2\n", "9" * 30 + "-1"])
async def test_an_invalid_cursor_is_rejected(cursor):
    async with journal_at(":memory:") as journal:
        with pytest.raises(ValueError, match="is not a journal cursor"):
            await journal.after(cursor)


async def test_a_name_that_cannot_be_stored_is_escaped(address):
    async with journal_at(address) as journal:
        await ended(journal, "a\0b")

        assert [entry.call_id for entry in await journal.after()] == [r"'a\x00b'"]


async def test_a_reader_beside_many_writers_sees_everything_once(shared_address):
    async with journal_at(shared_address) as here, journal_at(shared_address) as there:
        writers = [ended(journal, *(f"{journal is here}-{n}-{m}" for m in range(5))) for journal in (here, there)
                   for n in range(20)]  # fmt: skip
        seen: list[str] = []
        cursor = ""
        writing = asyncio.gather(*writers)
        while True:
            over = writing.done()
            if entries := await here.after(cursor, limit=7):
                cursor = entries[-1].cursor
                seen += calls(entries)
            elif over:
                break

    assert len(seen) == 200
    assert len(set(seen)) == 200


INSERT = """INSERT INTO journal (tx, at, kind, call_id, tool, status, latency_ms)
    VALUES (pg_current_xact_id()::text::bigint, 0, 'ended', %s, 'echo', 'ok', 0) RETURNING id"""


@pytest.fixture(scope="module")
def overlapping(postgres: Any) -> str:
    postgres.psql("CREATE DATABASE overlapping")
    return str(postgres.get_uri(database="overlapping"))


@asynccontextmanager
async def open_transactions(address: str) -> AsyncIterator[list[Any]]:
    """Two transactions, begun one after the other."""
    from psycopg import AsyncConnection

    connections = [await AsyncConnection.connect(address) for _ in range(2)]
    for connection in connections:
        await connection.execute("SELECT pg_current_xact_id()")
    try:
        yield connections
    finally:
        for connection in connections:
            await connection.close()


async def added(connection: Any, call: str) -> int:
    return int((await (await connection.execute(INSERT, [call])).fetchone())[0])


@pytest.mark.parametrize("slow", [0, 1])
async def test_a_row_with_a_lower_id_that_is_committed_later_is_not_missed(overlapping, slow):
    async with journal_at(overlapping) as journal, open_transactions(overlapping) as both:
        cursor = latest[0].cursor if (latest := await journal.latest(1)) else ""
        assert await added(both[slow], "slow") < await added(both[1 - slow], "quick")
        seen = []

        for connection in (both[1 - slow], both[slow]):
            await connection.commit()
            entries = await journal.after(cursor)
            cursor = entries[-1].cursor if entries else cursor
            seen += calls(entries)

        assert sorted(seen) == ["quick", "slow"]


async def test_readers_stop_before_an_open_transaction(overlapping):
    async with journal_at(overlapping) as journal, open_transactions(overlapping) as (older, newer):
        await added(newer, "newer")
        await newer.commit()

        assert "newer" not in calls(await journal.after() + await journal.latest())
        assert calls(await journal.of_call("newer")) == ["newer"]
        await older.rollback()
        assert calls(await journal.latest(1)) == ["newer"]
