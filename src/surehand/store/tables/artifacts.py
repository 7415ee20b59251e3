"""The table `artifacts`: large outputs under unguessable handles, readable only by their user and session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict, Unpack, cast

from surehand.store.database import Database, Row, SqlValue, Statement, UnstorableValue
from surehand.store.queries import load_queries

_SQL = load_queries("artifacts")


class ArtifactFields(TypedDict):
    """The columns of an artifact besides its handle and text."""

    tool: str
    reason: str
    user: str | None
    session: str | None
    lines: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ArtifactInfo:
    """An artifact without its text."""

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
    """Stores texts by handle, and finds, lists and prunes them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save_statement(self, handle: str, text: str, **fields: Unpack[ArtifactFields]) -> Statement:
        """Build the statement that stores a text, for a transaction of the caller."""
        params = {
            "handle": handle,
            "content": text.encode("utf-8", "surrogatepass"),
            **cast("dict[str, SqlValue]", fields),
        }
        return Statement(_SQL["insert_artifact"], params, expect=1)

    async def save(self, handle: str, text: str, **fields: Unpack[ArtifactFields]) -> None:
        """Store a text under a handle."""
        await self._database.write([self.save_statement(handle, text, **fields)])

    async def find(self, handle: str, user: str | None, session: str | None) -> Artifact | None:
        """Find an artifact of this user and session; an artifact of another owner is None too."""
        try:
            rows = await self._database.read(
                _SQL["find_artifact"], {"handle": handle, "user": user, "session": session}
            )
        except UnstorableValue:  # a value that cannot be stored was never stored
            return None
        return _artifact_from_row(rows[0]) if rows else None

    async def find_info(self, handle: str, user: str | None, session: str | None) -> ArtifactInfo | None:
        """Find an artifact of this user and session without reading its text."""
        try:
            rows = await self._database.read(
                _SQL["find_artifact_info"], {"handle": handle, "user": user, "session": session}
            )
        except UnstorableValue:
            return None
        return ArtifactInfo(**rows[0]) if rows else None

    async def list_newest(
        self, user: str | None, session: str | None, *, limit: int, before: tuple[float, str] | None = None
    ) -> list[ArtifactInfo]:
        """List the artifacts of an owner, newest first.

        Args:
            before: `created_at` and `handle` of the last artifact of the previous page.
        """
        params: dict[str, SqlValue] = {"user": user, "session": session, "limit": limit}
        if before is None:
            rows = await self._database.read(_SQL["list_newest_artifacts"], params)
        else:
            created_at, handle = before
            rows = await self._database.read(
                _SQL["list_artifacts_before"], {**params, "at": created_at, "handle": handle}
            )
        return [ArtifactInfo(**row) for row in rows]

    async def count(self) -> int:
        """Count all artifacts."""
        [row] = await self._database.read(_SQL["count_artifacts"])
        return int(row["kept"])

    async def prune(
        self, *, older_than: float | None = None, keep: int | None = None, keep_bytes: int | None = None
    ) -> int:
        """Delete artifacts older than a number of seconds, and the oldest beyond a number or a total size.

        Returns the number of deleted artifacts.
        """
        limits = {"older_than": older_than, "keep": keep, "keep_bytes": keep_bytes}
        [deleted] = await self._database.write([Statement(_SQL["prune_artifacts"], limits)])
        return len(deleted)


def _artifact_from_row(row: Row) -> Artifact:
    return Artifact(text=bytes(row.pop("content")).decode("utf-8", "surrogatepass"), **row)
