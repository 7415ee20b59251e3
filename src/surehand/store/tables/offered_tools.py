"""The table `offered_tools`: client and external tools that sessions offer, by user, session and name."""

from __future__ import annotations

from typing import NamedTuple

from surehand.store.database import Database, Row, Statement
from surehand.store.queries import load_queries

_SQL = load_queries("offered_tools")


class OfferedToolRow(NamedTuple):
    """A tool that a session offers."""

    user: str | None
    session: str
    name: str
    definition: str
    """JSON: how to build the tool."""
    offered_at: float


class OfferedToolTable:
    """Stores the tools that sessions offer, and finds them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, tools: list[OfferedToolRow]) -> None:
        """Store tools, in place of those with the same name of the same session."""
        await self._database.write([Statement(_SQL["save_tool"], _params(tool), expect=1) for tool in tools])

    async def of_session(self, user: str | None, session: str) -> list[OfferedToolRow]:
        """The tools of one session, oldest first."""
        params = {"user_id": user or "", "session": session}
        return [_from_row(row) for row in await self._database.read(_SQL["list_of_session"], params)]

    async def latest(self, since: float, *, limit: int) -> list[OfferedToolRow]:
        """The tools that were offered from a time on, oldest first; beyond the limit, the newest ones."""
        rows = await self._database.read(_SQL["list_latest"], {"since": since, "limit": limit})
        return [_from_row(row) for row in reversed(rows)]


def _params(tool: OfferedToolRow) -> dict[str, str]:
    return {"user_id": tool.user or "", "session": tool.session, "name": tool.name, "definition": tool.definition}


def _from_row(row: Row) -> OfferedToolRow:
    return OfferedToolRow(row["user_id"] or None, row["session"], row["name"], row["definition"], row["offered_at"])
