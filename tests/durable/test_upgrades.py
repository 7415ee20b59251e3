"""Waits outlive an upgrade: stores that earlier versions wrote are opened, migrated and settled by this one.

The files in `tests/fixtures/stores` were written by the code of their versions (`tests/store/write_fixtures.py`).
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from surehand import Done, Outcome, Pending, Retention, Runtime, Store
from surehand.store.migrations import MIGRATION_FILES
from tests.durable.bank_tools import assert_done, assert_failed, read_rows, wait_until
from tests.postgres_server import Schemas
from tests.store.fixture_calls import Form, ask, job, order, pay, transfer
from tests.store.write_fixtures import FOLDER, SCHEMA

NEWEST = len(MIGRATION_FILES)
KEPT = Retention(calls=None, idle=None, journal=None, inbox=None, runs=None, artifacts=None, events=None)
"""The files stay as they are, however old they become."""


@pytest.fixture(
    params=[(version, kind) for version in range(1, NEWEST + 1) for kind in ("sqlite", "postgres")], ids=str
)
def old_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A copy of the store of a version."""
    version, kind = request.param
    if kind == "sqlite":
        return str(shutil.copy(FOLDER / f"v{version}.db", tmp_path / "store.db"))
    schemas: Schemas = request.getfixturevalue("schemas")
    name = f"old_{uuid4().hex}"
    load_dump(schemas, name, (FOLDER / f"v{version}.sql").read_text())
    return schemas.address(name)


def load_dump(schemas: Schemas, name: str, dump: str) -> None:
    """Load a dump into a new schema of this server."""
    with psycopg.connect(schemas.address(name), autocommit=True) as connection:
        connection.execute(dump.replace(f"{SCHEMA}.", f"{name}.").replace(f"SCHEMA {SCHEMA}", f"SCHEMA {name}"))
        # The rows hold numbers of transactions of another server, and this one has to be past them.
        [(last,)] = connection.execute(
            "SELECT max(tx) FROM (SELECT tx FROM audit UNION SELECT tx FROM journal) AS rows"
        )
        [(current,)] = connection.execute("SELECT pg_current_xact_id()::text::bigint")
        for _ in range(last - current + 1):
            connection.execute("SELECT pg_current_xact_id()")


@asynccontextmanager
async def upgraded(address: str, *, has_tools: bool = True) -> AsyncIterator[Runtime]:
    tools = (transfer, pay, ask, job, order, Form()) if has_tools else ()
    async with Store.open(address, retention=KEPT) as store, Runtime(*tools, store=store) as runtime:
        yield runtime


async def approve(runtime: Runtime, call_id: str) -> Outcome:
    """Approve a call; one whose tool is described in another way than then asks again, and is approved again."""
    outcome = await runtime.approve(call_id, by="eve")
    return await runtime.approve(call_id, by="eve") if isinstance(outcome, Pending) else outcome


def test_every_schema_version_has_a_file_for_each_database() -> None:
    expected = {f"v{version}.{kind}" for version in range(1, NEWEST + 1) for kind in ("db", "sql")}

    assert {path.name for path in FOLDER.iterdir()} == expected


async def test_an_old_store_is_migrated_and_lists_what_waits(old_address: str) -> None:
    async with upgraded(old_address, has_tools=False) as runtime:
        assert runtime.store is not None
        info = await runtime.store.info()
        waits = {wait.call_id: wait for wait in await runtime.pending()}

    assert info["version"] == NEWEST
    named = {
        "approval",
        "to-reject",
        "to-edit",
        "to-cancel",
        "result",
        "external",
        "input",
        "shown",
        "nobody",
        "unknown",
    }
    assert named <= waits.keys()
    assert "outer" not in waits  # it waits for another call, which is listed
    approval = waits["approval"]
    assert (approval.tool, approval.arguments, approval.waiting_for) == ("transfer", {"amount": 5}, "approval")
    assert (approval.user, approval.session, approval.agent, approval.run) == ("ada", "s1", "helper", "run-1")
    assert waits["nobody"].user is None


async def test_approvals_of_an_old_store_are_answered(old_address: str) -> None:
    async with upgraded(old_address) as runtime:
        approved = await approve(runtime, "approval")
        without_user = await approve(runtime, "nobody")
        rejected = await runtime.reject("to-reject", "too much")
        edited = await runtime.approve("to-edit", arguments={"amount": 2, "to": "bob"})
        cancelled = await runtime.cancel("to-cancel")
        again = await runtime.approve("approval", by="eve")

    assert approved == again == Done("sent 5 to ann")
    assert without_user == Done("sent 8 to ann")
    assert_failed(rejected, "rejected")
    assert edited == Done("sent 2 to bob") or isinstance(edited, Pending)
    assert cancelled


async def test_results_and_input_of_an_old_store_are_settled(old_address: str) -> None:
    async with upgraded(old_address) as runtime:
        results = [await runtime.settle(call_id, "blue") for call_id in ("result", "external", "shown", "outer")]
        filled = await runtime.settle("input", "Ada")
        assert runtime.store is not None
        [message] = await runtime.store.spaces.history("team")

    assert [assert_done(result) for result in results] == ["blue"] * 4
    assert filled == Done("line 1: Ada")
    assert message.content["status"] == "complete"


async def test_results_of_an_old_store_are_settled_without_their_tools(old_address: str) -> None:
    async with upgraded(old_address, has_tools=False) as runtime:
        assert assert_done(await runtime.settle("result", "blue")) == "blue"
        assert assert_done(await runtime.settle("external", {"rows": 3})) == {"rows": 3}


async def test_a_ready_call_of_an_old_store_runs_or_asks_again(old_address: str) -> None:
    async with upgraded(old_address) as runtime:
        outcome = await runtime.result("ready", timeout=20)
        if isinstance(outcome, Pending):
            outcome = await runtime.approve("ready", by="eve")

    assert outcome == Done("sent 5 to ann")


async def test_unknown_effects_of_an_old_store_are_settled(old_address: str) -> None:
    async with upgraded(old_address) as runtime:
        await wait_until(lambda: _waits(runtime, "running"))
        unknown = await runtime.settle("unknown", "it was paid", by="eve")
        died = await runtime.settle("running", "it was paid too", by="eve")
        repeated = await runtime.scope(user="ada", session="s1").call("pay", {"amount": 9}, call_id="unknown")

    assert (unknown, died) == (Done("it was paid"), Done("it was paid too"))
    assert repeated == unknown


async def _waits(runtime: Runtime, call_id: str) -> bool:
    return call_id in {wait.call_id for wait in await runtime.pending()}


async def test_ended_calls_journal_and_audit_of_an_old_store_are_kept(old_address: str) -> None:
    async with upgraded(old_address) as runtime:
        assert runtime.store is not None
        scope = runtime.scope(user="ada", session="s1")
        ended = await scope.call("pay", {"amount": 1}, call_id="ended")
        journal = await runtime.store.journal.of_call("granted")
        settled = await runtime.settle("result", "blue")
        await runtime.store.audit.seal()
        verification = await runtime.store.audit.verify()
        answers = await read_rows(runtime, "SELECT by_whom FROM audit WHERE call_id = 'granted' AND kind = 'answer'")

    assert ended == Done("paid 1")
    assert settled == Done("blue")
    assert [entry.kind for entry in journal] == ["pending", "settled", "ended"]
    assert verification.problem is None
    assert [row["by_whom"] for row in answers] == ["bob"]


async def test_a_standing_approval_of_an_old_store_still_holds(old_address: str) -> None:
    async with upgraded(old_address) as runtime:
        allowed = await runtime.scope(user="ada", session="s1").call("transfer", {"amount": 3})
        asked = await runtime.scope(user="bob", session="s1").call("transfer", {"amount": 3})

    assert allowed == Done("sent 3 to ann")
    assert isinstance(asked, Pending)


async def test_runs_of_an_old_store_go_on(old_address: str) -> None:
    async with upgraded(old_address, has_tools=False) as runtime:
        store = runtime.store
        assert store is not None
        runs = {run.state: run for run in await store.runs.latest("helper")}
        await store.owners.join("c0de")
        claims = {state: await store.runs.claim(run.run_id, owner="c0de") for state, run in runs.items()}
        steps = {state: await store.steps.list(run.run_id) for state, run in runs.items()}

    if not runs:  # versions before 9 stored none
        return
    assert {state for state, claim in claims.items() if claim is not None} == {"running", "waiting"}
    for state, run in runs.items():
        assert (run.prompt, run.user, run.session, run.spent) == ("Buy tea.", "ada", "s1", {"requests": 1})
        [step] = steps[state]
        assert [(call.call_id, call.outcome) for call in step.calls] == [
            ("approval", None),
            ("ended", {"done": "paid 1"}),
        ]
