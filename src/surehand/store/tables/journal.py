"""The table `journal`: what happened to calls, in order. Rows are only added; readers continue from a cursor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from surehand.core.call import CallIdentity
from surehand.store.database import Database, Row, SqlValue, Statement, to_storable_name
from surehand.store.history_filter import DEFAULT_LIMIT, FlushBuffers, HistoryFilter, Moment, flush_no_buffers
from surehand.store.queries import load_queries
from surehand.store.stored_identity import dump_identity, load_identity

JournalKind: TypeAlias = Literal["ended", "pending", "settled"]
JournalOutcome: TypeAlias = Literal["done", "failed", "waiting"]

_SQL = load_queries("journal")
_CURSOR = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class JournalRow:
    """Something that happened to a call."""

    cursor: str
    """Continue reading after this entry with `after(cursor)`."""
    at: float
    kind: JournalKind
    call_id: str
    tool: str
    status: str
    user: str | None
    session: str | None
    parent: str | None
    latency_ms: float
    agent: str | None = None
    space: str | None = None
    turn: str | None = None
    task: str | None = None
    model_id: str | None = None
    intent: str | None = None
    display: Mapping[str, Any] = field(default_factory=dict)


class JournalTable:
    """Entries in the order of their transactions; an entry is visible only when all earlier ones are."""

    def __init__(self, database: Database, flush_buffers: FlushBuffers = flush_no_buffers) -> None:
        self._database = database
        self._flush_buffers = flush_buffers

    def entry_statement(
        self,
        kind: JournalKind,
        call_id: str,
        tool: str,
        status: str,
        *,
        user: str | None = None,
        session: str | None = None,
        parent: str | None = None,
        latency_ms: float = 0.0,
        identity: CallIdentity | None = None,
    ) -> Statement:
        """Build the statement for an entry, for a transaction of the caller.

        Args:
            identity: whose call it is, instead of `user`, `session` and `parent`.
        """
        if identity is not None:
            user, session, parent = identity.user, identity.session, identity.parent
        params: dict[str, SqlValue] = {
            "kind": kind,
            "call_id": to_storable_name(call_id),
            "tool": to_storable_name(tool),
            "status": status,
            "latency_ms": latency_ms,
            "user": to_storable_name(user),
            "session": to_storable_name(session),
            "parent": to_storable_name(parent),
            "identity": None if identity is None else dump_identity(identity),
        }
        return Statement(_SQL["insert_entry"], params, 1)

    async def append(self, *entries: Statement) -> None:
        """Add entries, all or none."""
        await self._database.write(entries)

    async def after(self, cursor: str = "", *, limit: int = 1000) -> list[JournalRow]:
        """Read entries after a cursor, oldest first; continuing from the last cursor misses none."""
        tx, id = _parse_cursor(cursor)
        return _rows_from_columns(
            await self._database.read(_SQL["list_after"], {"tx": tx, "id": id, "limit": max(limit, 0)})
        )

    async def latest(self, limit: int = 100) -> list[JournalRow]:
        """Read the newest entries, newest first; continuing from the first cursor misses none."""
        return _rows_from_columns(await self._database.read(_SQL["list_latest"], {"limit": max(limit, 0)}))

    async def of_call(self, call_id: str) -> list[JournalRow]:
        """Read all entries of one call, oldest first."""
        return _rows_from_columns(await self._database.read(_SQL["list_of_call"], {"call_id": call_id}))

    async def list(
        self,
        *,
        call: str | None = None,
        tool: str | None = None,
        user: str | None = None,
        session: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        outcome: JournalOutcome | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> Sequence[JournalRow]:
        """Read the entries that match every given filter, newest first.

        Args:
            outcome: only the entries that say that a call is done, has failed or began to wait.
        """
        await self._flush_buffers()
        sql = _SQL["list_rows"] if call is None else _SQL["list_rows_of_call"]
        filter = HistoryFilter(call=call, tool=tool, user=user, session=session, since=since, until=until, limit=limit)
        return _rows_from_columns(await self._database.read(sql, {**filter.params(), "outcome": outcome}))


def _parse_cursor(cursor: str) -> tuple[int, int]:
    if not cursor:
        return 0, 0
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise ValueError(f"{cursor[:80]!r} is not a journal cursor. Pass the `cursor` of an entry, or ''.")
    return int(match[1]), int(match[2])


def _rows_from_columns(rows: list[Row]) -> list[JournalRow]:
    return [_row_from_columns(**row) for row in rows]


def _row_from_columns(*, tx: int, id: int, user_id: str | None, identity: str | None, **same: object) -> JournalRow:
    columns = {**load_identity(identity), **same}  # `parent` has a column of its own, which counts
    return JournalRow(cursor=f"{tx}-{id}", user=user_id, **columns)
