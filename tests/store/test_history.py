"""Reading what happened: the journal and the audit by call, tool, user, session and time, and calls by a prefix."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from surehand import Runtime, Store, tool
from surehand.store import migrations
from surehand.store.database import Statement
from surehand.store.history_filter import HistoryFilter
from surehand.store.migrations import open_database
from surehand.store.queries import load_queries
from surehand.store.tables.audit import AuditRow

pytestmark = pytest.mark.timeout(30)
ROWS = [
    ("c1", "read", "ada", "s1", 100.0),
    ("c2", "write", "ada", "s2", 200.0),
    ("c3", "read", "bob", "s1", 300.0),
    ("c4", "write", None, None, 400.0),
]


async def fill(store: Store) -> None:
    """A row of each call in the journal and in the audit, each at a time of its own."""
    for call, name, user, session, at in ROWS:
        whose = {"user": user, "session": session}
        dated = {"at": at, "call": call}
        await store.write(
            [
                store.journal.entry_statement("ended", call, name, "ok", **whose),
                store.audit.row_statement("outcome", call, name, detail={"code": "ok"}, **whose),
                Statement("UPDATE journal SET at = :at WHERE call_id = :call", dated, expect=1),
                Statement("UPDATE audit SET at = :at WHERE call_id = :call", dated, expect=1),
            ]
        )


FILTERS = [
    ({}, "c4 c3 c2 c1"),
    ({"call": "c2"}, "c2"),
    ({"call": "c"}, ""),
    ({"tool": "read"}, "c3 c1"),
    ({"user": "ada"}, "c2 c1"),
    ({"session": "s1"}, "c3 c1"),
    ({"user": "ada", "session": "s1"}, "c1"),
    ({"call": "c1", "user": "bob"}, ""),
    ({"since": 200}, "c4 c3 c2"),
    ({"until": 200.0}, "c2 c1"),
    ({"since": datetime.fromtimestamp(150, UTC), "until": datetime.fromtimestamp(350, UTC)}, "c3 c2"),
    ({"limit": 2}, "c4 c3"),
    ({"limit": 0}, ""),
    ({"user": "a\0b"}, ""),
]


async def test_the_journal_and_the_audit_are_read_by_call_tool_user_session_and_time(address):
    async with Store.open(address) as store:
        await fill(store)
        for filter, expected in FILTERS:
            entries, rows = await store.journal.list(**filter), await store.audit.list(**filter)

            assert [entry.call_id for entry in entries] == expected.split(), filter
            assert [row.call_id for row in rows] == expected.split(), filter


async def test_an_audit_row_says_when_who_did_what_to_whose_call(address):
    async with Store.open(address) as store:
        about = {"user": "ada", "session": "s1", "by": "bob", "detail": {"answer": "approve"}}
        await store.write([store.audit.row_statement("answer", "c1", "mail__send", **about)])
        [row] = await store.audit.list()

    assert row == AuditRow(row.at, "answer", "c1", "mail__send", "ada", "s1", "bob", {"answer": "approve"})
    assert row.at > 1_700_000_000


@pytest.mark.parametrize("change", ["session = 's2'", "session = NULL", "session = ''"])
async def test_a_changed_session_breaks_the_seal_of_its_row(address, change):
    async with Store.open(address) as store:
        await store.write([store.audit.row_statement("outcome", "c1", "echo", session="s1", detail={})])
        await store.audit.seal()
        assert (await store.audit.verify()).problem is None
        await store.write([Statement(f"UPDATE audit SET {change}")])

        assert "a row was changed" in ((await store.audit.verify()).problem or "")


async def test_seals_from_before_the_session_was_kept_stay_valid(tmp_path, monkeypatch):
    path = str(tmp_path / "store.db")
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATION_FILES", migrations.MIGRATION_FILES[:2])
        old = await open_database(path)
        row = "INSERT INTO audit (id, tx, at, kind, call_id, tool, user_id, detail) VALUES"
        await old.write([Statement(f"{row} (1, 0, 1.5, 'outcome', 'c1', 'echo', 'ada', '{{}}')")])
        seal = "INSERT INTO seals (position, last_tx, last_id, rows_sealed, previous, hash, sealed_at) VALUES"
        digest = "d64776567de621611985964aa24486b5a5ba975e3ab1034ad39242ef0d437445"
        await old.write([Statement(f"{seal} (1, 0, 1, 1, '', '{digest}', 2.5)")])
        await old.close()

    async with Store.open(path) as store:
        found = await store.audit.verify()

    assert (found.problem, found.seals, found.unsealed) == (None, 1, 0)


async def test_calls_are_found_by_a_prefix_of_their_id(address):
    async with Store.open(address) as store:
        for call in ("ab1", "ab2", "ab%", "abcd", "b"):
            await store.write([store.journal.entry_statement("ended", call, f"tool_{call}", "ok")])
        await store.write([store.audit.row_statement("refused", "ab9", "read", detail={})])

        assert await store.find_calls("ab1") == {"ab1": "tool_ab1"}
        assert await store.find_calls("b") == {"b": "tool_b"}
        assert await store.find_calls("abc") == {"abcd": "tool_abcd"}
        assert set(await store.find_calls("ab")) == {"ab1", "ab2", "ab9", "ab%", "abcd"}
        assert len(await store.find_calls("ab", limit=2)) == 2
        assert await store.find_calls("ab_") == await store.find_calls("") == await store.find_calls("x\0") == {}


async def test_rows_of_one_call_are_found_by_an_index(tmp_path):
    async with Store.open(tmp_path / "store.db") as store:
        for table in ("journal", "audit"):
            params = {**HistoryFilter(call="c1").params(), "outcome": None}
            plan = await store.database.read(f"EXPLAIN QUERY PLAN {load_queries(table)['list_rows_of_call']}", params)
            assert f"{table}_of_call" in plan[0]["detail"]


@tool(effects={"write"})
async def save(text: str) -> str:
    """Save a text."""
    return f"Saved {text}."


async def test_what_a_runtime_did_is_read_from_its_store(address):
    async with Runtime(save, store=address) as runtime:
        for user, session in (("ada", "s1"), ("bob", "s2")):
            await runtime.scope(user=user, session=session).call("save", {"text": "sesame"})
        store = runtime.store
        rows = await store.audit.list(session="s1")
        entries = await store.journal.list(user="bob")

    assert [(row.kind, row.tool, row.user, row.session) for row in rows] == [
        ("outcome", "save", "ada", "s1"), ("intent", "save", "ada", "s1"),
    ]  # fmt: skip
    assert [(entry.kind, entry.tool, entry.session) for entry in entries] == [("ended", "save", "s2")]
    assert "sesame" not in repr(rows) + repr(entries)


@tool(confirm=True)
async def ask(text: str) -> str:
    """Ask first."""
    return text


async def test_calls_that_have_not_ended_are_listed_by_the_same_filters(address):
    async with Runtime(save, ask, store=address) as runtime:
        for user in ("ada", "bob"):
            scope = runtime.scope(user=user, session="s1")
            await scope.call("save", {"text": "x"})
            await scope.call("ask", {"text": "x"}, call_id=f"of {user}")
        store = runtime.store
        active = await store.active_calls()
        hers = await store.active_calls(HistoryFilter(user="ada", session="s1", tool="ask"))
        none = await store.active_calls(HistoryFilter(call="of ada", until=1.0))

    assert [(call.call_id, call.tool, call.state) for call in active] == [
        ("of bob", "ask", "waiting"), ("of ada", "ask", "waiting"),
    ]  # fmt: skip
    assert [(call.call_id, call.user, call.session) for call in hers] == [("of ada", "ada", "s1")]
    assert none == []
