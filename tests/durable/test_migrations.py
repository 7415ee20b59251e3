"""Stores of earlier schema versions are migrated with everything that is in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from surehand import Runtime, Store
from surehand.builtin.agent.inbox import inbox
from surehand.builtin.agent.memories import memories
from surehand.runtime.scope import Scope
from surehand.store import migrations
from surehand.store.database import Statement
from surehand.store.migrations import open_database
from tests.durable.conftest import POSTGRES

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


def _address_without_tables(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    if kind == "sqlite":
        return str(folder / "old.db")
    schemas = request.getfixturevalue("schemas")
    return str(schemas.address(schemas.fresh()))


async def remembered(scope: Scope) -> dict[str, str]:
    return {each["key"]: each["value"] for each in (await scope.call("get_memories")).data["memories"]}


async def events(scope: Scope) -> list[str]:
    return [event["eventId"] for event in (await scope.call("peek_inbox", {"count": 50})).data["events"]]


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
async def test_rows_from_before_users_were_kept_apart_belong_to_calls_without_a_user(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = _address_without_tables(kind, request, tmp_path)
    number = migrations.MIGRATION_FILES.index("migrations/0005_grants_by_session.sql")
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATION_FILES", migrations.MIGRATION_FILES[:number])
        old = await open_database(address)
        columns = "(id, agent, event_id, type, data, state, attempts, created_at)"
        await old.write(
            [
                Statement(f"INSERT INTO inbox {columns} VALUES (7, 'helper', 'e7', 'service', '1', 'pending', 0, 1.0)"),
                Statement("INSERT INTO notes VALUES ('helper', 'memory', 'pin', '\"1234\"', 1.0)"),
                Statement("INSERT INTO notes VALUES ('[\"ann\"]', 'memory', 'own', '\"mine\"', 1.0)"),
                Statement("INSERT INTO grants VALUES ('ann', 'pay abc', 'grace', 1.0)"),
            ]
        )
        await old.close()

    async with Runtime(inbox(), memories(), store=address) as runtime:
        none, ann = runtime.scope(agent="helper"), runtime.scope(agent="helper", user="ann")
        assert await remembered(ann) == {}
        assert await remembered(none) == {"pin": "1234"}
        assert await remembered(runtime.scope(user="ann")) == {"own": "mine"}
        assert await events(ann) == []
        assert await events(none) == ["e7"]
        await runtime.store.inbox.push("helper", "next", "service", None)
        [item] = await runtime.store.inbox.peek("helper")
        [grant] = await runtime.grants()

    assert item.id == 8
    assert (grant.tool, grant.user, grant.session) == ("pay", "ann", None)


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
async def test_a_run_that_was_interrupted_has_failed_and_one_that_ran_goes_on(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = _address_without_tables(kind, request, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATION_FILES", migrations.MIGRATION_FILES[:8])
        old = await open_database(address)
        row = "INSERT INTO runs (run_id, agent, state, cause, owner, started_at, ended_at) VALUES"
        await old.write(
            [
                Statement(f"{row} ('r1', 'helper', 'interrupted', '\"tick\"', 'gone', 1.0, 2.0)"),
                Statement(f"{row} ('r2', 'helper', 'running', '\"tock\"', 'any name', 1.0, NULL)"),
            ]
        )
        await old.close()

    async with Store.open(address) as store:
        failed = await store.runs.find("r1")
        await store.owners.join("c0de")
        claim = await store.runs.claim("r2", owner="c0de")

    assert failed is not None
    assert claim is not None
    assert (failed.state, failed.reason) == ("failed", "The process of the run ended before the run did.")
    assert (claim.run.prompt, claim.run.state) == ("tock", "running")
