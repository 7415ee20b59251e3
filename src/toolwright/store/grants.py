"""Grants: standing approvals, beside the policy's rules and never over a deny."""

from __future__ import annotations

from dataclasses import dataclass

from toolwright.store.database import Database, Row, Statement, Unstorable, Value, legible

_GIVE = """INSERT INTO grants (user_id, tool, given_by, given_at) VALUES (:user_id, :tool, :by_whom, {now})
    ON CONFLICT (user_id, tool) DO NOTHING"""
_HAS = "SELECT 1 AS found FROM grants WHERE user_id = :user_id AND tool = :tool"
_NAMES = "user_id, tool, given_by, given_at"
_LISTED = f"""SELECT {_NAMES} FROM grants WHERE CAST(:user_id AS TEXT) IS NULL OR user_id = :user_id
    ORDER BY tool, user_id"""
# Not LIKE: an underscore stands for any letter there.
_MEANT = """substr(tool, 1, length(CAST(:named AS TEXT))) = :named
    AND (CAST(:user_id AS TEXT) IS NULL OR user_id = :user_id)"""
_REVOKE = f"DELETE FROM grants WHERE {_MEANT} RETURNING {_NAMES}"
# A yes for good comes into force when its call runs: it must not come back with one that has not run to its end yet.
_ONCE = """UPDATE pending SET value = replace(value, '"always": true', '"always": false')
    WHERE answer = 'approve' AND replace(value, '"always": true', '') <> value
    AND call_id IN (SELECT call_id FROM ledger WHERE state <> 'ended' AND tool = :tool
        AND (CAST(:user_id AS TEXT) IS NULL OR coalesce(user_id, '') = :user_id)) RETURNING call_id"""
_TOLD = """INSERT INTO audit (tx, at, kind, call_id, tool, user_id, by_whom, detail)
    SELECT {tx}, {now}, '%s', '', CAST(:name AS TEXT), nullif(%s, ''), CAST(:by_whom AS TEXT),
    '{"definition": "' || %s || '"}'"""
_GIVEN = f"""{_TOLD % ("granted", "CAST(:user_id AS TEXT)", "CAST(:definition AS TEXT)")} WHERE NOT EXISTS ({_HAS})"""
_DEFINITION = "substr(tool, length(CAST(:named AS TEXT)) + 1)"
_REVOKED = f"{_TOLD % ('revoked', 'user_id', _DEFINITION)} FROM grants WHERE {_MEANT}"


@dataclass(frozen=True, slots=True)
class Grant:
    """A standing approval: a user may call a tool, as it was defined then, without being asked."""

    tool: str
    user: str | None
    by: str | None
    """Who said yes for good."""
    given_at: float
    definition: str
    """The digest of the tool's definition: for any other, the grant does not hold."""

    @classmethod
    def of(cls, row: Row) -> Grant:
        name, _, definition = row["tool"].rpartition(" ")
        return cls(name, row["user_id"] or None, row["given_by"], row["given_at"], definition)


class Grants:
    """Standing approvals by user and tool."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def give(self, user: str | None, tool: str, by: str | None = None) -> None:
        """Let a user call a tool, as it is defined now, without being asked."""
        about: dict[str, Value] = {"user_id": user or "", "tool": tool, "by_whom": by}
        name, _, definition = tool.rpartition(" ")
        told = {**about, "name": name, "definition": definition}
        await self._database.write([Statement(_GIVEN, told), Statement(_GIVE, about)])

    async def has(self, user: str | None, tool: str) -> bool:
        """Whether there is a standing approval."""
        return bool(await self._database.read(_HAS, {"user_id": user or "", "tool": tool}))

    async def listed(self, user: str | None = None) -> list[Grant]:
        """Those of a user, `""` for calls without one, or all."""
        try:
            return [Grant.of(row) for row in await self._database.read(_LISTED, {"user_id": user})]
        except Unstorable:  # nothing was ever kept under such a name
            return []

    async def revoke(self, tool: str, user: str | None = None, by: str | None = None) -> int:
        """Take back what a user, or everybody, was granted for a tool, however it is defined; how many there were."""
        meant: dict[str, Value] = {"named": f"{tool} ", "user_id": user}
        told = Statement(_REVOKED, {**meant, "name": tool, "by_whom": legible(by)})
        once = Statement(_ONCE, {"tool": tool, "user_id": user})
        try:
            _, revoked, unused = await self._database.write([told, Statement(_REVOKE, meant), once])
        except Unstorable:
            return 0
        return len(revoked) + len(unused)
