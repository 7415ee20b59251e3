"""Opening a database by its address, and applying the migrations that it lacks."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from typing import TypeAlias

from surehand.store.database import Statement, StoreError, UnexpectedRowCount
from surehand.store.postgres.database import PostgresDatabase
from surehand.store.queries import load_queries
from surehand.store.sqlite.database import SqliteDatabase

AnyDatabase: TypeAlias = SqliteDatabase | PostgresDatabase
MIGRATION_FILES = (
    "schema.sql",
    "migrations/0002_message_owner.sql",
    "migrations/0003_audit_session.sql",
    "migrations/0004_call_identity.sql",
    "migrations/0005_grants_by_session.sql",
    "migrations/0006_repeated_calls.sql",
    "migrations/0007_users_apart.sql",
    "migrations/0008_plain_column_names.sql",
    "migrations/0009_agent_runs.sql",
    "migrations/0010_webhooks.sql",
    "migrations/0011_triggered_runs.sql",
)
"""Files under `sql/` in order, forward only: the first creates all tables, each further one changes them."""

_SQL = load_queries("schema_versions")


async def open_database(address: str, *, now: Callable[[], float] = time.time, read_only: bool = False) -> AnyDatabase:
    """Open a file, `:memory:` or `postgresql://...`, and bring its tables up to date.

    Args:
        now: The clock behind `{now}` on SQLite; PostgreSQL uses its own.
        read_only: Change nothing: the tables must be up to date already.
    """
    is_postgres = address.startswith(("postgresql://", "postgres://"))
    if "://" in address and not is_postgres:
        scheme = address.partition("://")[0]
        raise StoreError(f"{scheme}:// is not a store address: use a file name, ':memory:' or postgresql://...")
    database: AnyDatabase = (
        PostgresDatabase(address, read_only=read_only)
        if is_postgres
        else SqliteDatabase(address, now=now, read_only=read_only)
    )
    await database.open()
    try:
        if read_only:
            await _require_newest_version(database)
        else:
            await apply_migrations(database)
    except BaseException:
        await database.close()
        raise
    return database


async def apply_migrations(database: AnyDatabase) -> int:
    """Apply the missing migrations; returns their number."""
    await database.run_script(_SQL["create_table"])
    version = await schema_version(database)
    newest = len(MIGRATION_FILES)
    _refuse_newer_version(version)
    for number in range(version + 1, newest + 1):
        await _apply_migration(database, number)
    return newest - version


def _refuse_newer_version(version: int) -> None:
    newest = len(MIGRATION_FILES)
    if version > newest:
        raise StoreError(
            f"The store has schema version {version}, and this program knows only {newest}. Use a newer surehand."
        )


async def _require_newest_version(database: AnyDatabase) -> None:
    """Refuse a store that would have to be migrated, where it cannot be."""
    try:
        version = await schema_version(database)
    except StoreError as error:
        raise StoreError(f"This is not a store of surehand, or not a complete copy of one: {error}") from error
    _refuse_newer_version(version)
    if version < len(MIGRATION_FILES):
        raise StoreError(
            f"The store has schema version {version}, and this program reads version {len(MIGRATION_FILES)}. It cannot "
            "be migrated, because it is read-only: copy it to a folder that you can write, with its -wal file."
        )


async def schema_version(database: AnyDatabase) -> int:
    """Return the number of the last applied migration."""
    rows = await database.read(_SQL["find_version"])
    return int(rows[0]["version"])


async def _apply_migration(database: AnyDatabase, version: int) -> None:
    sql = files("surehand.store").joinpath("sql", *MIGRATION_FILES[version - 1].split("/")).read_text(encoding="utf-8")
    # A simple split: no statement of ours has a semicolon or two dashes inside a text.
    steps = [Statement(part) for part in _without_comments(sql).split(";") if part.strip()]
    # The version is recorded first: a second process that migrates at the same time waits for this row, then finds it
    # and changes nothing.
    with suppress(UnexpectedRowCount):
        await database.write_without_limit([Statement(_SQL["record_version"], {"version": version}, expect=1), *steps])


def _without_comments(sql: str) -> str:
    return "\n".join(line.partition("--")[0] for line in sql.splitlines())


__all__ = ["AnyDatabase", "Statement", "apply_migrations", "open_database", "schema_version"]
