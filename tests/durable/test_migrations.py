"""Stores of earlier schema versions are migrated with everything that is in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from surehand import Runtime
from surehand.builtin.agent.inbox import inbox
from surehand.builtin.agent.memories import memories
from surehand.runtime.scope import Scope
from surehand.store import migrations
from surehand.store.database import Statement
from surehand.store.migrations import open_database
from tests.durable.conftest import POSTGRES

pytestmark = pytest.mark.timeout(30)  # the first test on PostgreSQL starts the server


async def remembered(scope: Scope) -> dict[str, str]:
    return {each["key"]: each["value"] for each in (await scope.call("get_memories")).data["memories"]}


async def events(scope: Scope) -> list[str]:
    return [event["eventId"] for event in (await scope.call("peek_inbox", {"count": 50})).data["events"]]


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
async def test_rows_from_before_users_were_kept_apart_belong_to_calls_without_a_user(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(tmp_path / "old.db")
    if kind == "postgres":
        schemas = request.getfixturevalue("schemas")
        address = schemas.address(schemas.fresh())
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
