"""Store: the durable state of a runtime, opened by one address, with one attribute for each table."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Sequence
from os import PathLike, fspath
from types import TracebackType
from typing import Any, NamedTuple

from surehand.store.database import Row, SqlValue, Statement, to_storable_name
from surehand.store.history_filter import HistoryFilter
from surehand.store.migrations import MIGRATION_FILES, AnyDatabase, open_database, schema_version
from surehand.store.queries import load_queries
from surehand.store.retention import Retention, prune
from surehand.store.tables.active_spaces import ActiveSpaceTable
from surehand.store.tables.artifacts import ArtifactTable
from surehand.store.tables.audit import AuditTable
from surehand.store.tables.breakers import BreakerTable
from surehand.store.tables.grants import GrantTable
from surehand.store.tables.inbox import InboxTable
from surehand.store.tables.journal import JournalTable
from surehand.store.tables.notes import NoteTable
from surehand.store.tables.offered_tools import OfferedToolTable
from surehand.store.tables.owners import OwnerTable
from surehand.store.tables.pending import PendingTable
from surehand.store.tables.runs import RunTable
from surehand.store.tables.slots import SlotTable
from surehand.store.tables.spaces import SpaceTable
from surehand.store.tables.steps import StepTable
from surehand.store.tables.streams import StreamTable
from surehand.store.tables.webhooks import WebhookTable

TABLES = (
    "ledger", "pending", "grants", "inbox", "journal", "audit", "seals", "runs", "steps", "step_calls", "run_messages",
    "artifacts", "notes", "owners", "spaces", "members", "messages", "active_spaces", "streams", "events", "queues",
    "slots", "starts", "breakers", "offered_tools", "webhook_deliveries", "webhook_messages",
)  # fmt: skip
_SQL = load_queries("store")


class ActiveCall(NamedTuple):
    """A call that has not ended."""

    call_id: str
    tool: str
    state: str
    """One of the states in `sql/schema.sql`."""
    user: str | None
    session: str | None
    created_at: float


class Store:
    """Durable state: a SQLite file, `:memory:`, or a PostgreSQL database that several machines share."""

    def __init__(self, database: AnyDatabase, address: str, retention: Retention | None = None) -> None:
        self.database = database
        self.address = address
        self.retention = retention or Retention()
        """By which a runtime on this store prunes it."""
        self._flushes: list[Callable[[], Awaitable[object]]] = []
        self.pending = PendingTable(database)
        self.grants = GrantTable(database)
        self.inbox = InboxTable(database)
        self.journal = JournalTable(database, self._flush_buffers)
        self.audit = AuditTable(database, self._flush_buffers)
        self.runs = RunTable(database)
        self.steps = StepTable(database)
        self.artifacts = ArtifactTable(database)
        self.notes = NoteTable(database)
        self.offered_tools = OfferedToolTable(database)
        self.owners = OwnerTable(database)
        self.slots = SlotTable(database)
        self.breakers = BreakerTable(database)
        self.streams = StreamTable(database)
        self.active_spaces = ActiveSpaceTable(database)
        self.webhooks = WebhookTable(database)
        self.spaces = SpaceTable(database, self.streams)

    @staticmethod
    def open(
        address: str | PathLike[str] = ":memory:",
        *,
        retention: Retention | None = None,
        read_only: bool = False,
        now: Callable[[], float] = time.time,
    ) -> StoreOpening:
        """Open a store: `await Store.open("surehand.db")`, or `async with Store.open(...) as store`.

        Args:
            read_only: change nothing, not even the schema or a lock: for a copy that cannot be written.
        """
        return StoreOpening(fspath(address), retention, now, read_only=read_only)

    def write(self, statements: Sequence[Statement]) -> Coroutine[Any, Any, list[list[Row]]]:
        """Execute statements in one transaction."""
        return self.database.write(statements)

    def flush_before_reading(self, flush: Callable[[], Awaitable[object]]) -> Callable[[], None]:
        """Call a function before the journal or the audit is listed; returns a function that undoes this.

        A runtime writes some rows a moment later: a reader in its process should see them all the same.
        """
        self._flushes.append(flush)

        def remove() -> None:
            if flush in self._flushes:
                self._flushes.remove(flush)

        return remove

    async def _flush_buffers(self) -> None:
        for flush in [*self._flushes]:
            await flush()

    async def ping(self) -> None:
        """Read from the database; raises `StoreUnavailable` if it cannot be reached."""
        await self.database.read("SELECT 1 AS one")

    async def info(self) -> dict[str, Any]:
        """Return the schema version, the size, and the number of rows in each table."""
        counts = {}
        for table in TABLES:
            [row] = await self.database.read(f"SELECT count(*) AS number FROM {table}")
            counts[table] = int(row["number"])
        states = await self.database.read(_SQL["count_calls_by_state"])
        return {
            "version": await schema_version(self.database),
            "newest_version": len(MIGRATION_FILES),
            "bytes": await self.database.size_bytes(),
            "rows": counts,
            "calls": {row["state"]: int(row["number"]) for row in states},
            "waiting": await self.pending.count(),
        }

    async def active_calls(self, filter: HistoryFilter | None = None) -> list[ActiveCall]:
        """List the calls that wait, run, or whose effect is unknown, newest first."""
        params = {"call": None, **(filter or HistoryFilter()).params()}
        rows = await self.database.read(_SQL["list_active_calls"], params)
        return [ActiveCall(*row.values()) for row in rows]

    async def find_calls(self, prefix: str, *, limit: int = 10) -> dict[str, str]:
        """Return the calls whose ids begin so, with their tools. An id that is given whole is found alone."""
        if not prefix:
            return {}
        params: dict[str, SqlValue] = {"prefix": to_storable_name(prefix), "limit": max(limit, 0)}
        found = await self.database.read(_SQL["find_calls_by_prefix"], params)
        tools = {row["call_id"]: row["tool"] for row in found}
        return {prefix: tools[prefix]} if prefix in tools else tools

    async def prune(
        self, retention: Retention | None = None, *, vacuum: bool = False, exempt_call_ids: Collection[str] = ()
    ) -> dict[str, int]:
        """Delete rows that are over and old enough; `vacuum` returns their space to the file system."""
        limits = retention or self.retention
        counts = await prune(self.database, limits, exempt_call_ids)
        if limits.max_artifacts is not None or limits.max_artifact_bytes is not None:
            counts["artifacts"] = counts.get("artifacts", 0) + await self.artifacts.prune(
                older_than=limits.artifacts, keep=limits.max_artifacts, keep_bytes=limits.max_artifact_bytes
            )
        if vacuum:
            await self.database.vacuum()
        return counts

    async def close(self) -> None:
        """Finish the requested work, then close the database."""
        await self.streams.close()
        await self.database.close()


class StoreOpening:
    """The result of `Store.open`: await it, or enter it with `async with`."""

    def __init__(
        self, address: str, retention: Retention | None, now: Callable[[], float], *, read_only: bool = False
    ) -> None:
        self._address = address
        self._retention = retention
        self._now = now
        self._read_only = read_only
        self._store: Store | None = None

    def __await__(self) -> Generator[Any, None, Store]:
        return self._open().__await__()

    async def _open(self) -> Store:
        database = await open_database(self._address, now=self._now, read_only=self._read_only)
        return Store(database, self._address, self._retention)

    async def __aenter__(self) -> Store:
        self._store = await self._open()
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()
