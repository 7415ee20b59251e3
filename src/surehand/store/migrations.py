"""Opening a database by its address, and bringing its tables up to date."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from typing import TypeAlias

from surehand.store.database import Statement, StoreError, UnexpectedRowCount
from surehand.store.postgres.database import PostgresDatabase
from surehand.store.sqlite.database import SqliteDatabase

AnyDatabase: TypeAlias = SqliteDatabase | PostgresDatabase
MIGRATION_FILES = ("schema.sql", "schema_2.sql")
"""In order, forward only: the first makes all tables, each further file changes what came before."""


async def open_database(address: str, *, now: Callable[[], float] = time.time) -> AnyDatabase:
    """`file.db`, `:memory:` or `postgresql://...`, with its tables as this version wants them.

    Args:
        now: the clock behind `{now}` on SQLite; PostgreSQL has its own.
    """
    remote = address.startswith(("postgresql://", "postgres://"))
    if "://" in address and not remote:
        raise StoreError(f"{address.partition('://')[0]}:// is no store: name a file, ':memory:' or postgresql://...")
    database: AnyDatabase = await (PostgresDatabase(address) if remote else SqliteDatabase(address, now=now)).open()
    try:
        await apply_migrations(database)
    except BaseException:
        await database.close()
        raise
    return database


_RECORD_VERSION = "INSERT INTO schema_versions (version, applied_at) VALUES (:version, {now}) ON CONFLICT DO NOTHING"


async def apply_migrations(database: AnyDatabase) -> int:
    """Apply the migrations that are missing; gives how many."""
    await database.run_script(
        "CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, applied_at {real})"
    )
    version = await schema_version(database)
    if version > len(MIGRATION_FILES):
        raise StoreError(f"The store is of version {version}, newer than {len(MIGRATION_FILES)}: use a newer surehand.")
    for number in range(version + 1, len(MIGRATION_FILES) + 1):
        await _apply_migration(database, number)
    return len(MIGRATION_FILES) - version


async def schema_version(database: AnyDatabase) -> int:
    """Which migration was the last."""
    rows = await database.read("SELECT coalesce(max(version), 0) AS version FROM schema_versions")
    return int(rows[0]["version"])


async def _apply_migration(database: AnyDatabase, version: int) -> None:
    """The number comes first: whoever comes second waits for it, and finds that nothing is left to do."""
    sql = files("surehand.store").joinpath(MIGRATION_FILES[version - 1]).read_text(encoding="utf-8")
    steps = [Statement(part) for part in _without_comments(sql).split(";") if part.strip()]
    with suppress(UnexpectedRowCount):
        await database.write([Statement(_RECORD_VERSION, {"version": version}, expect=1), *steps])


def _without_comments(sql: str) -> str:
    return "\n".join(line.partition("--")[0] for line in sql.splitlines())


__all__ = ["AnyDatabase", "Statement", "apply_migrations", "open_database", "schema_version"]
