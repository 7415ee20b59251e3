"""Grants: standing approvals, beside the policy's rules and never over a deny."""

from __future__ import annotations

from toolwright.store.database import Database, Statement

_GIVE = """INSERT INTO grants (user_id, tool, given_by, given_at) VALUES (:user_id, :tool, :by_whom, {now})
    ON CONFLICT (user_id, tool) DO NOTHING"""
_HAS = "SELECT 1 AS found FROM grants WHERE user_id = :user_id AND tool = :tool"


class Grants:
    """Standing approvals by user and tool."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def give(self, user: str | None, tool: str, by: str | None = None) -> None:
        """Let a user call a tool, as it is defined now, without being asked."""
        await self._database.write([Statement(_GIVE, {"user_id": user or "", "tool": tool, "by_whom": by})])

    async def has(self, user: str | None, tool: str) -> bool:
        """Whether there is a standing approval."""
        return bool(await self._database.read(_HAS, {"user_id": user or "", "tool": tool}))
