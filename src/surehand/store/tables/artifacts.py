"""Artifacts: large outputs under unguessable handles, each for its owner alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict, Unpack, cast

from surehand.store.database import Database, Row, SqlValue, Statement, UnstorableValue

_ARTIFACT = "handle, content, tool, reason, bytes, lines, created_at"
_KEEP = """INSERT INTO artifacts (handle, tool, reason, user_id, session, content, bytes, lines, created_at)
    VALUES (:handle, :tool, :reason, :user, :session, :content, :bytes, :lines, {now})"""
_LABEL = "handle, tool, reason, bytes, lines, created_at"
_OWN = """(user_id = :user OR (user_id IS NULL AND CAST(:user AS TEXT) IS NULL))
    AND (session = :session OR (session IS NULL AND CAST(:session AS TEXT) IS NULL))"""
_FIND = f"SELECT {_ARTIFACT} FROM artifacts WHERE handle = :handle AND {_OWN}"
_LABEL_OF = f"SELECT {_LABEL} FROM artifacts WHERE handle = :handle AND {_OWN}"
_NEWEST = f"SELECT {_LABEL} FROM artifacts WHERE {_OWN}"
# The first half is what lets the index on time be used.
_BEFORE = " AND created_at <= :at AND (created_at < :at OR handle < :handle)"
_IN_ORDER = " ORDER BY created_at DESC, handle DESC LIMIT :most"
_COUNT = "SELECT count(*) AS kept FROM artifacts"
# Nothing is more than NULL: a limit that is not given deletes nothing.
_PRUNE = """DELETE FROM artifacts WHERE handle IN (SELECT handle FROM
        (SELECT handle, created_at, row_number() OVER newest_first AS place, sum(bytes) OVER newest_first AS total
         FROM artifacts
         WINDOW newest_first AS (ORDER BY created_at DESC, handle DESC ROWS UNBOUNDED PRECEDING)) AS ranked
    WHERE created_at < {now} - CAST(:older_than AS DOUBLE PRECISION)
        OR place > CAST(:keep AS BIGINT) OR total > CAST(:keep_bytes AS BIGINT))
    RETURNING handle"""


class ArtifactFields(TypedDict):
    """What is known of a text besides itself."""

    tool: str
    reason: str
    user: str | None
    session: str | None
    lines: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ArtifactInfo:
    """What is known of an artifact without reading it."""

    handle: str
    tool: str
    reason: str
    bytes: int
    lines: int
    created_at: float


@dataclass(frozen=True, slots=True)
class Artifact:
    """A large output under a handle."""

    handle: str
    text: str
    tool: str
    reason: str
    bytes: int
    lines: int
    created_at: float


class ArtifactTable:
    """Texts by handle."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save_statement(self, handle: str, text: str, **fields: Unpack[ArtifactFields]) -> Statement:
        """A text under a handle, to be put into a transaction."""
        params = {
            "handle": handle,
            "content": text.encode("utf-8", "surrogatepass"),
            **cast("dict[str, SqlValue]", fields),
        }
        return Statement(_KEEP, params, expect=1)

    async def save(self, handle: str, text: str, **fields: Unpack[ArtifactFields]) -> None:
        """Keep a text under a handle."""
        await self._database.write([self.save_statement(handle, text, **fields)])

    async def find(self, handle: str, user: str | None, session: str | None) -> Artifact | None:
        """The artifact, for its owner alone: to others it does not exist."""
        try:
            rows = await self._database.read(_FIND, {"handle": handle, "user": user, "session": session})
        except UnstorableValue:  # then nothing was ever kept under it
            return None
        return _artifact_from_row(rows[0]) if rows else None

    async def find_info(self, handle: str, user: str | None, session: str | None) -> ArtifactInfo | None:
        """What is known of it, for its owner alone."""
        try:
            rows = await self._database.read(_LABEL_OF, {"handle": handle, "user": user, "session": session})
        except UnstorableValue:
            return None
        return ArtifactInfo(**rows[0]) if rows else None

    async def list_newest(
        self, user: str | None, session: str | None, *, limit: int, before: tuple[float, str] | None = None
    ) -> list[ArtifactInfo]:
        """An owner's artifacts, the newest first; `before` is the time and the handle of the last one before these."""
        owner: dict[str, SqlValue] = {"user": user, "session": session, "most": limit}
        if before is None:
            rows = await self._database.read(_NEWEST + _IN_ORDER, owner)
        else:
            place: dict[str, SqlValue] = {"at": before[0], "handle": before[1]}
            rows = await self._database.read(_NEWEST + _BEFORE + _IN_ORDER, owner | place)
        return [ArtifactInfo(**row) for row in rows]

    async def count(self) -> int:
        """How many there are."""
        [row] = await self._database.read(_COUNT)
        return int(row["kept"])

    async def prune(
        self, *, older_than: float | None = None, keep: int | None = None, keep_bytes: int | None = None
    ) -> int:
        """Forget those older than so many seconds, and the oldest of those that are too many; gives how many."""
        limits = {"older_than": older_than, "keep": keep, "keep_bytes": keep_bytes}
        [gone] = await self._database.write([Statement(_PRUNE, limits)])
        return len(gone)


def _artifact_from_row(row: Row) -> Artifact:
    return Artifact(text=bytes(row.pop("content")).decode("utf-8", "surrogatepass"), **row)
