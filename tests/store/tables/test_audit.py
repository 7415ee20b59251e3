"""The tables `audit` and `seals`: rows, sealing, and the detection of later changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from surehand.store.database import Statement, UnexpectedRowCount, UnstorableValue
from surehand.store.migrations import open_database
from surehand.store.tables.audit import _SQL, AuditTable

pytestmark = pytest.mark.timeout(30)


@asynccontextmanager
async def audit_at(address: str) -> AsyncIterator[AuditTable]:
    database = await open_database(address)
    try:
        yield AuditTable(database)
    finally:
        await database.close()


async def add(audit: AuditTable, count: int, start: int = 0) -> None:
    rows = [
        audit.row_statement("outcome", f"c{n}", "echo", user="ada", detail={"n": n})
        for n in range(start, start + count)
    ]
    await audit._database.write(rows)


async def seal_three_times(audit: AuditTable) -> None:
    """Three seals over four rows each, two rows that are not sealed yet, and nothing else."""
    await audit._database.write([Statement("DELETE FROM seals"), Statement("DELETE FROM audit")])
    for start in (0, 4, 8):
        await add(audit, 4, start)
        assert await audit.seal() == 4
    await add(audit, 2, 12)


@asynccontextmanager
async def with_three_seals(address: str) -> AsyncIterator[AuditTable]:
    async with audit_at(address) as audit:
        await seal_three_times(audit)
        yield audit


async def seals(audit: AuditTable) -> list[dict[str, Any]]:
    return await audit._database.read("SELECT * FROM seals ORDER BY position")


async def test_a_row_says_who_did_what(address):
    async with audit_at(address) as audit:
        detail = {"code": "ok", "digest": "ab"}
        await audit._database.write(
            [audit.row_statement("answer", "c1", "mail__send", user="ada", by="bob", detail=detail)]
        )
        [row] = await audit._database.read("SELECT * FROM audit")

    assert (row["kind"], row["call_id"], row["tool"]) == ("answer", "c1", "mail__send")
    assert (row["user_id"], row["by_whom"], json.loads(row["detail"])) == ("ada", "bob", detail)
    assert row["at"] > 1_700_000_000


async def test_a_row_is_part_of_the_transaction_of_its_action(address):
    async with audit_at(address) as audit:
        fails = Statement("UPDATE ledger SET state = 'ended' WHERE call_id = 'unknown'", expect=1)
        with pytest.raises(UnexpectedRowCount):
            await audit._database.write([audit.row_statement("intent", "c1", "echo", detail={}), fails])

        assert (await audit.verify()).rows == 0


async def test_an_empty_audit_is_valid(address):
    async with audit_at(address) as audit:
        assert await audit.seal() == 0
        found = await audit.verify()

    assert (found.rows, found.seals, found.unsealed, found.head, found.problem) == (0, 0, 0, "", None)


async def test_each_seal_follows_from_the_one_before(address):
    async with with_three_seals(address) as audit:
        chain = await seals(audit)
        found = await audit.verify()

    assert [seal["position"] for seal in chain] == [1, 2, 3]
    assert [seal["previous"] for seal in chain] == ["", chain[0]["hash"], chain[1]["hash"]]
    assert (found.rows, found.seals, found.unsealed, found.head, found.problem) == (14, 3, 2, chain[2]["hash"], None)


async def test_sealing_again_seals_only_what_is_new(address):
    async with with_three_seals(address) as audit:
        rows = await audit._database.read("SELECT * FROM audit ORDER BY id")

        assert [await audit.seal(), await audit.seal()] == [2, 0]
        assert [seal["rows_sealed"] for seal in await seals(audit)] == [4, 4, 4, 2]
        assert await audit._database.read("SELECT * FROM audit ORDER BY id") == rows
        assert (await audit.verify()).unsealed == 0


EXTRA = """INSERT INTO audit (id, tx, at, kind, call_id, tool, detail)
    SELECT {place}, at, kind, call_id, tool, detail FROM audit WHERE call_id = 'c5'"""
TAMPERING = {
    "a row was changed": [
        (1, "UPDATE audit SET detail = '{}' WHERE call_id = 'c5'"),
        (1, "UPDATE audit SET kind = 'refused' WHERE call_id = 'c5'"),
        (1, "UPDATE audit SET call_id = 'c4' WHERE call_id = 'c5'"),
        (1, "UPDATE audit SET tool = '' WHERE call_id = 'c5'"),
        (1, "UPDATE audit SET user_id = NULL WHERE call_id = 'c5'"),
        (1, "UPDATE audit SET by_whom = '' WHERE call_id = 'c5'"),
        (1, "UPDATE audit SET at = at + 0.001 WHERE call_id = 'c5'"),
        (2, "UPDATE audit SET call_id = CASE call_id WHEN 'c9' THEN 'c8' ELSE 'c9' END WHERE call_id IN ('c8', 'c9')"),
    ],
    "a row is missing": [
        (0, "DELETE FROM audit WHERE call_id = 'c0'"),
        (1, "DELETE FROM audit WHERE call_id = 'c7'"),
        (2, "DELETE FROM audit WHERE call_id IN ('c8', 'c9', 'c10', 'c11')"),
        (1, "UPDATE audit SET tx = tx + 1000000 WHERE call_id = 'c5'"),
    ],
    "a row was added": [
        (0, EXTRA.format(place="-1000, -7")),
        (None, EXTRA.format(place="-5, tx")),
    ],
    "seal was": [
        (1, "UPDATE seals SET hash = previous WHERE position = 2"),
        (2, "UPDATE seals SET hash = previous WHERE position = 3"),
        (1, "UPDATE seals SET sealed_at = sealed_at - 1 WHERE position = 2"),
        (1, "UPDATE seals SET rows_sealed = 3 WHERE position = 2"),
        (1, "UPDATE seals SET last_id = last_id - 1 WHERE position = 2"),
        (1, "UPDATE seals SET last_tx = 9000000000000000000 WHERE position = 2"),
    ],
    "was changed, or the one before": [
        (1, "UPDATE seals SET previous = '' WHERE position = 2"),
    ],
    "is missing: after seal": [
        (0, "DELETE FROM seals WHERE position = 1"),
        (1, "DELETE FROM seals WHERE position = 2"),
        (2, "UPDATE seals SET position = 7 WHERE position = 3"),
    ],
}


@pytest.mark.parametrize("problem", TAMPERING)
async def test_tampering_is_found_and_described(address, problem):
    async with audit_at(address) as audit:
        for hold, sql in TAMPERING[problem]:
            await seal_three_times(audit)
            await audit._database.write([Statement(sql)])
            found = await audit.verify()

            assert found.problem is not None, sql
            assert problem in found.problem, sql
            assert f"Seal {found.seals + 1} " in found.problem, sql
            assert hold in (None, found.seals), sql


async def test_text_that_became_bytes_and_rows_with_odd_numbers_are_found(tmp_path):
    async with audit_at(str(tmp_path / "store.db")) as audit:
        for hold, sql in [
            (1, "UPDATE audit SET kind = CAST(kind AS BLOB), call_id = CAST(call_id AS BLOB) WHERE call_id = 'c5'"),
            (0, EXTRA.format(place="-1000, 1")),
        ]:
            await seal_three_times(audit)
            await audit._database.write([Statement(sql)])
            found = await audit.verify()

            assert found.problem is not None, sql
            assert found.seals == hold, sql


async def test_sealing_uses_an_index_however_many_rows_exist(tmp_path):
    async with audit_at(str(tmp_path / "store.db")) as audit:
        plan = await audit._database.read(
            f"EXPLAIN QUERY PLAN {_SQL['list_audit_rows_after']}", {"tx": 0, "id": 1, "limit": 1}
        )

    assert [row["detail"] for row in plan] == ["SEARCH audit USING INTEGER PRIMARY KEY (rowid>?)"]


async def test_a_cut_end_is_revealed_by_the_head(address):
    async with with_three_seals(address) as audit:
        head = (await audit.verify()).head
        await audit._database.write([Statement("DELETE FROM seals WHERE position = 3")])
        cut = await audit.verify()
        await audit.seal()
        sealed_again = await audit.verify()

    assert (cut.problem, cut.unsealed) == (None, 6)
    assert len({head, cut.head, sealed_again.head}) == 3


@pytest.mark.parametrize(
    "change", ["audit SET detail = x'00'", "seals SET last_id = 'x'", "seals SET rows_sealed = 'x'"]
)
async def test_a_value_of_another_type_is_a_change_too(change):
    async with with_three_seals(":memory:") as audit:
        await audit._database.write([Statement(f"UPDATE {change}")])

        assert "was changed" in ((await audit.verify()).problem or "")


async def test_rows_after_the_last_seal_are_not_verified(address):
    async with with_three_seals(address) as audit:
        await audit._database.write([Statement("DELETE FROM audit WHERE call_id = 'c13'")])
        found = await audit.verify()

    assert (found.problem, found.rows, found.unsealed) == (None, 13, 1)


HOSTILE = [
    "\r\nc1 outcome ok", "\x1b[2J\x1b[31mred", "'\"`; DROP TABLE audit; --", '"}\n{"kind": "outcome"}', "a\0b",
    "\ud800", "\udfff\ud800", "%s %(id)s :id {now} {tx}", "\u2028\u202e", "ünï 🎉",
]  # fmt: skip


@pytest.mark.parametrize("rows", [1_000, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(85)])])
async def test_hostile_text_cannot_look_like_several_rows(address, rows):
    storable = [text for text in HOSTILE if "\0" not in text and text.encode(errors="ignore").decode() == text]
    async with audit_at(address) as audit:
        for start in range(0, rows, 500):
            numbers = range(start, start + 500)
            texts = [(storable[n % len(storable)], HOSTILE[n % len(HOSTILE)]) for n in numbers]
            await audit._database.write(
                [
                    audit.row_statement("refused", text, text, user=text, by=text, detail={wild: [wild]})
                    for text, wild in texts
                ]
            )
        sealed = await audit.seal()
        found = await audit.verify()
        stored_rows = await audit._database.read("SELECT detail FROM audit ORDER BY tx, id LIMIT 10")

    assert (sealed, found.rows, found.seals, found.unsealed, found.problem) == (rows, rows, rows // 500, 0, None)
    assert [json.loads(row["detail"]) for row in stored_rows] == [{text: [text]} for text in HOSTILE]


async def test_a_name_that_cannot_be_stored_is_rejected(address):
    async with audit_at(address) as audit:
        for text in ("a\0b", "\ud800"):
            with pytest.raises(UnstorableValue):
                await audit._database.write([audit.row_statement("intent", "c1", text, detail={})])


async def test_sealers_at_the_same_time_never_fork_the_chain(shared_address):
    async with audit_at(shared_address) as here, audit_at(shared_address) as there:
        sealed = 0
        for turn in range(5):
            await add(here, 30, turn * 60)
            work = [audit.seal() for audit in (here, there) * 3]
            done = await asyncio.gather(*work, add(there, 30, turn * 60 + 30), *(a.seal() for a in (here, there)))
            sealed += sum(count for count in done if count)
        sealed += await here.seal()
        chain, found = await seals(here), await there.verify()

    assert (sealed, found.rows, found.unsealed, found.problem) == (300, 300, 0, None)
    assert [seal["position"] for seal in chain] == list(range(1, found.seals + 1))
    assert sum(seal["rows_sealed"] for seal in chain) == 300


async def test_verifying_beside_writers_and_sealers_finds_no_problem(shared_address):
    async with audit_at(shared_address) as here, audit_at(shared_address) as there:
        for turn in range(10):
            writers = [add(audit, 3, n) for audit in (here, there) for n in range(5)]
            results = await asyncio.gather(here.seal(), there.verify(), *writers, there.seal(), here.verify())
            assert [results[1].problem, results[-1].problem] == [None, None], turn
        await here.seal()
        found = await there.verify()

    assert (found.rows, found.unsealed, found.problem) == (300, 0, None)


async def test_rows_that_an_open_transaction_may_still_write_are_not_skipped_by_a_seal(postgres):
    from psycopg import AsyncConnection

    postgres.psql("CREATE DATABASE unsealed")
    address = str(postgres.get_uri(database="unsealed"))
    late = """INSERT INTO audit (tx, at, kind, call_id, tool, detail)
        VALUES (pg_current_xact_id()::text::bigint, 0, 'outcome', 'late', 'echo', '{}')"""
    async with audit_at(address) as audit:
        slow = await AsyncConnection.connect(address)
        await slow.execute(late)
        await add(audit, 2)
        assert await audit.seal() == 0

        await slow.commit()
        await slow.close()

        assert await audit.seal() == 3
        assert (await audit.verify()).problem is None
