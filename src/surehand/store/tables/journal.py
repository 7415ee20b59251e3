"""Journal: what happened to calls, in order. It is only ever added to, and a reader can go on where it stopped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from surehand.store.database import Database, Row, SqlValue, Statement, to_storable_name

JournalKind: TypeAlias = Literal["ended", "pending", "settled"]

_ENTRY = "id, tx, at, kind, call_id, tool, status, user_id, session, parent, latency_ms"
_ADD = """INSERT INTO journal (tx, at, kind, call_id, tool, status, user_id, session, parent, latency_ms)
    VALUES ({tx}, {now}, :kind, :call_id, :tool, :status, :user, :session, :parent, :latency_ms)"""
_AFTER = f"""SELECT {_ENTRY} FROM journal WHERE {{after}} AND tx < {{horizon}}
    ORDER BY {{order}} LIMIT :limit"""
_LATEST = f"SELECT {_ENTRY} FROM journal WHERE tx < {{horizon}} ORDER BY {{order_down}} LIMIT :limit"
_OF_CALL = f"SELECT {_ENTRY} FROM journal WHERE call_id = :call_id ORDER BY {{order}}"
_CURSOR = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class JournalRow:
    """Something that happened to a call."""

    cursor: str
    """Where to go on after this entry."""
    at: float
    kind: JournalKind
    call_id: str
    tool: str
    status: str
    user: str | None
    session: str | None
    parent: str | None
    latency_ms: float


class JournalTable:
    """Entries in the order of their transactions. Nothing is shown before all that comes before it is there."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
    ) -> Statement:
        """An entry, to be put into a transaction."""
        params: dict[str, SqlValue] = {
            "kind": kind, "call_id": to_storable_name(call_id), "tool": tool, "status": status, "latency_ms": latency_ms,
            "user": to_storable_name(user), "session": to_storable_name(session), "parent": to_storable_name(parent),
        }  # fmt: skip
        return Statement(_ADD, params, 1)

    async def append(self, *entries: Statement) -> None:
        """Add entries, all or none."""
        await self._database.write(entries)

    async def after(self, cursor: str = "", *, limit: int = 1000) -> list[JournalRow]:
        """Entries after a cursor, oldest first; reading on from the last one's cursor misses none."""
        tx, id = _parse_cursor(cursor)
        return _rows_from_columns(await self._database.read(_AFTER, {"tx": tx, "id": id, "limit": max(limit, 0)}))

    async def latest(self, limit: int = 100) -> list[JournalRow]:
        """The newest first; reading on from the first one's cursor misses none."""
        return _rows_from_columns(await self._database.read(_LATEST, {"limit": max(limit, 0)}))

    async def of_call(self, call_id: str) -> list[JournalRow]:
        """All that happened to one call, oldest first."""
        return _rows_from_columns(await self._database.read(_OF_CALL, {"call_id": call_id}))


def _parse_cursor(cursor: str) -> tuple[int, int]:
    if not cursor:
        return 0, 0
    if not (found := _CURSOR.fullmatch(cursor)):
        raise ValueError(f"{cursor[:80]!r} is no cursor of the journal. Give back the `cursor` of an entry, or ''.")
    return int(found[1]), int(found[2])


def _rows_from_columns(rows: list[Row]) -> list[JournalRow]:
    return [_row_from_columns(**row) for row in rows]


def _row_from_columns(*, tx: int, id: int, user_id: str | None, **same: object) -> JournalRow:
    return JournalRow(cursor=f"{tx}-{id}", user=user_id, **same)  # type: ignore[arg-type]  # columns of the same name
