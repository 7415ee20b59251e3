"""Grants: standing approvals, beside the policy's rules and never over a deny."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from surehand.store.database import (
    Database,
    Row,
    SqlValue,
    Statement,
    UnexpectedRowCount,
    UnstorableValue,
    to_storable_name,
)

_GIVE = """INSERT INTO grants (user_id, tool, given_by, given_at) VALUES (:user_id, :tool, :by_whom, {now})
    ON CONFLICT (user_id, tool) DO NOTHING"""
_HAS = "SELECT 1 AS found FROM grants WHERE user_id = :user_id AND tool = :tool"
_NAMES = "user_id, tool, given_by, given_at"
_LISTED = f"""SELECT {_NAMES} FROM grants WHERE CAST(:user_id AS TEXT) IS NULL OR user_id = :user_id
    ORDER BY tool, user_id"""
# Not LIKE: an underscore stands for any letter there.
_MEANT = """substr(tool, 1, length(CAST(:named AS TEXT))) = :named
    AND (CAST(:user_id AS TEXT) IS NULL OR user_id = :user_id)"""
# One that is given meanwhile is neither told of nor taken back, and of two who revoke, one tells.
_MARKED = "given_at = -1"
_MARK = f"UPDATE grants SET {_MARKED} WHERE {_MEANT}"
_REVOKE = f"DELETE FROM grants WHERE {_MEANT} AND {_MARKED} RETURNING tool"
# A yes for good comes into force when its call goes on, or is taken back before: whoever changes it was first.
_FOR_GOOD = """answer = 'approve' AND replace(value, '"always": true', '') <> value"""
_ONCE = f"""UPDATE pending SET value = replace(value, '"always": true', '"always": false')
    WHERE call_id = :call_id AND round = :round AND {_FOR_GOOD}"""
_UNUSED = f"""SELECT call_id, round FROM pending WHERE {_FOR_GOOD}
    AND call_id IN (SELECT call_id FROM ledger WHERE state <> 'ended' AND tool = :tool
        AND (CAST(:user_id AS TEXT) IS NULL OR coalesce(user_id, '') = :user_id)) ORDER BY call_id, round"""
_TOLD = """INSERT INTO audit (tx, at, kind, call_id, tool, user_id, by_whom, detail)
    SELECT {tx}, {now}, '%s', '', CAST(:name AS TEXT), nullif(%s, ''), CAST(:by_whom AS TEXT),
    '{"definition": "' || %s || '"}'"""
_GIVEN = f"""{_TOLD % ("granted", "CAST(:user_id AS TEXT)", "CAST(:definition AS TEXT)")} WHERE NOT EXISTS ({_HAS})"""
_DEFINITION = "substr(tool, length(CAST(:named AS TEXT)) + 1)"
_REVOKED = f"{_TOLD % ('revoked', 'user_id', _DEFINITION)} FROM grants WHERE {_MEANT} AND {_MARKED}"
_TAKEN_BACK = f"{_TOLD % ('revoked', 'user_id', 'definition')} FROM ledger WHERE call_id = :call_id"


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
    def from_row(cls, row: Row) -> Grant:
        name, _, definition = row["tool"].rpartition(" ")
        return cls(name, row["user_id"] or None, row["given_by"], row["given_at"], definition)


class GrantTable:
    """Standing approvals by user and tool."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def give(
        self, user: str | None, tool: str, by: str | None = None, *, answer: tuple[str, int] | None = None
    ) -> None:
        """Let a user call a tool, as it is defined now, without being asked.

        Args:
            answer: the call and the round of the yes that it comes from, where that was written down: only if nobody
                has taken that back.
        """
        about: dict[str, SqlValue] = {"user_id": user or "", "tool": tool, "by_whom": by}
        name, _, definition = tool.rpartition(" ")
        told = {**about, "name": name, "definition": definition}
        used = [] if answer is None else [_use_up_always_statement(*answer)]
        with suppress(UnexpectedRowCount):
            await self._database.write([*used, Statement(_GIVEN, told), Statement(_GIVE, about)])

    async def has(self, user: str | None, tool: str) -> bool:
        """Whether there is a standing approval."""
        return bool(await self._database.read(_HAS, {"user_id": user or "", "tool": tool}))

    async def list_grants(self, user: str | None = None) -> list[Grant]:
        """Those of a user, `""` for calls without one, or all."""
        try:
            return [Grant.from_row(row) for row in await self._database.read(_LISTED, {"user_id": user})]
        except UnstorableValue:  # nothing was ever kept under such a name
            return []

    async def revoke(self, tool: str, user: str | None = None, by: str | None = None) -> int:
        """Take back what a user, or everybody, was granted for a tool, however it is defined; how many there were."""
        while True:
            try:
                return await self._revoke(tool, user, to_storable_name(by))
            except (
                UnexpectedRowCount
            ):  # a yes came into force just then, and is a grant by now; or somebody else took it back
                continue
            except UnstorableValue:
                return 0

    async def _revoke(self, tool: str, user: str | None, by: str | None) -> int:
        meant: dict[str, SqlValue] = {"named": f"{tool} ", "user_id": user}
        told: dict[str, SqlValue] = {"name": tool, "by_whom": by}
        unused = await self._database.read(_UNUSED, {"tool": tool, "user_id": user})
        steps = [_use_up_always_statement(yes["call_id"], yes["round"]) for yes in unused]
        steps += [Statement(_TAKEN_BACK, {**told, "call_id": yes["call_id"]}) for yes in unused]
        steps += [Statement(_MARK, meant), Statement(_REVOKED, {**meant, **told}), Statement(_REVOKE, meant)]
        results = await self._database.write(steps)
        return len(unused) + len(results[-1])


def _use_up_always_statement(call_id: str, round: int) -> Statement:
    """A yes for good becomes one for its call alone, if it is one still."""
    return Statement(_ONCE, {"call_id": call_id, "round": round}, expect=1)
