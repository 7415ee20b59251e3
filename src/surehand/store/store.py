"""Store: what is remembered, by one address."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Coroutine, Generator, Sequence
from os import PathLike, fspath
from types import TracebackType
from typing import Any

from surehand.store.database import Row, Statement
from surehand.store.migrations import MIGRATION_FILES, AnyDatabase, open_database, schema_version
from surehand.store.retention import Retention, prune
from surehand.store.tables.artifacts import ArtifactTable
from surehand.store.tables.audit import AuditTable
from surehand.store.tables.breakers import BreakerTable
from surehand.store.tables.grants import GrantTable
from surehand.store.tables.inbox import InboxTable
from surehand.store.tables.journal import JournalTable
from surehand.store.tables.notes import NoteTable
from surehand.store.tables.owners import OwnerTable
from surehand.store.tables.pending import PendingTable
from surehand.store.tables.runs import RunTable
from surehand.store.tables.slots import SlotTable
from surehand.store.tables.spaces import SpaceTable
from surehand.store.tables.streams import StreamTable

TABLES = (
    "ledger", "pending", "grants", "inbox", "journal", "audit", "seals", "runs", "artifacts", "notes", "owners",
    "spaces", "members", "messages", "streams", "events", "queues", "slots", "starts", "breakers",
)  # fmt: skip


class Store:
    """What is remembered: a SQLite file, `:memory:`, or a PostgreSQL database that several machines share."""

    def __init__(self, database: AnyDatabase, address: str, retention: Retention | None = None) -> None:
        self.database, self.address = database, address
        self.retention = retention or Retention()
        """How long things are kept by a runtime that looks after this store."""
        self.pending, self.grants, self.inbox = PendingTable(database), GrantTable(database), InboxTable(database)
        self.journal, self.audit, self.runs = JournalTable(database), AuditTable(database), RunTable(database)
        self.artifacts, self.notes, self.owners = ArtifactTable(database), NoteTable(database), OwnerTable(database)
        self.slots, self.breakers = SlotTable(database), BreakerTable(database)
        self.streams = StreamTable(database)
        self.spaces = SpaceTable(database, self.streams)

    @staticmethod
    def open(
        address: str | PathLike[str] = ":memory:",
        *,
        retention: Retention | None = None,
        now: Callable[[], float] = time.time,
    ) -> StoreOpening:
        """`await Store.open("surehand.db")`, or `async with Store.open(...) as store`."""
        return StoreOpening(fspath(address), retention, now)

    def write(self, statements: Sequence[Statement]) -> Coroutine[Any, Any, list[list[Row]]]:
        """Carry out statements in one transaction."""
        return self.database.write(statements)

    async def info(self) -> dict[str, Any]:
        """Version, size, and how much there is of everything."""
        counts = {}
        for table in TABLES:
            [row] = await self.database.read(f"SELECT count(*) AS number FROM {table}")
            counts[table] = int(row["number"])
        states = await self.database.read("SELECT state, count(*) AS number FROM ledger GROUP BY state ORDER BY state")
        return {
            "version": await schema_version(self.database),
            "newest_version": len(MIGRATION_FILES),
            "bytes": await self.database.size_bytes(),
            "rows": counts,
            "calls": {row["state"]: int(row["number"]) for row in states},
            "waiting": await self.pending.count(),
        }

    async def prune(
        self, retention: Retention | None = None, *, vacuum: bool = False, exempt_call_ids: Collection[str] = ()
    ) -> dict[str, int]:
        """Forget what is over and old enough; with `vacuum` the room is given back to the disk."""
        kept = retention or self.retention
        counts = await prune(self.database, kept, exempt_call_ids)
        if kept.max_artifacts is not None or kept.max_artifact_bytes is not None:
            counts["artifacts"] = counts.get("artifacts", 0) + await self.artifacts.prune(
                older_than=kept.artifacts, keep=kept.max_artifacts, keep_bytes=kept.max_artifact_bytes
            )
        if vacuum:
            await self.database.vacuum()
        return counts

    async def close(self) -> None:
        """Finish what was asked, then let go."""
        await self.streams.close()
        await self.database.close()


class StoreOpening:
    """A store that is about to be opened: await it, or enter it."""

    def __init__(self, address: str, retention: Retention | None, now: Callable[[], float]) -> None:
        self._address, self._retention, self._now = address, retention, now
        self._store: Store | None = None

    def __await__(self) -> Generator[Any, None, Store]:
        return self._open().__await__()

    async def _open(self) -> Store:
        return Store(await open_database(self._address, now=self._now), self._address, self._retention)

    async def __aenter__(self) -> Store:
        self._store = await self._open()
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()
