"""The table `grants`: standing approvals. They add to the rules of the policy and never override a deny."""

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
from surehand.store.queries import load_queries

_SQL = load_queries("grants")


@dataclass(frozen=True, slots=True)
class Grant:
    """A standing approval: a user may call a tool, as it was defined then, without being asked."""

    tool: str
    user: str | None
    by: str | None
    """Who gave the approval."""
    given_at: float
    definition: str
    """Digest of the tool's definition, and of what its scope gave it: the grant is valid for nothing else."""
    session: str | None = None
    """The session that the approval was given in and is valid for; None if it is valid in all sessions of the user."""

    @classmethod
    def from_row(cls, row: Row) -> Grant:
        name, _, definition = row["tool"].rpartition(" ")
        return cls(name, row["user_id"] or None, row["given_by"], row["given_at"], definition, row["session"] or None)


class GrantTable:
    """Standing approvals by user, session and tool."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def give(
        self,
        user: str | None,
        tool: str,
        by: str | None = None,
        *,
        session: str | None = None,
        answer: tuple[str, int] | None = None,
    ) -> None:
        """Let a user call a tool, as it is defined now, without being asked.

        Args:
            tool: the tool's name, a space, and what the approval is bound to.
            session: the only session in which it holds; None for all sessions of the user.
            answer: Call id and round of the "always" approval that the grant comes from, if it was stored. If that
                approval was revoked in the meantime, there is no grant.
        """
        grant: dict[str, SqlValue] = {"user_id": user or "", "session": session or "", "tool": tool, "by_whom": by}
        name, _, definition = tool.rpartition(" ")
        audit = Statement(_SQL["audit_grant"], {**grant, "name": name, "definition": definition})
        limit_answer = [] if answer is None else [_limit_always_statement(*answer)]
        with suppress(UnexpectedRowCount):  # the approval was revoked meanwhile: nothing is written
            await self._database.write([*limit_answer, audit, Statement(_SQL["insert_grant"], grant)])

    async def has(self, user: str | None, tool: str, *, session: str | None = None) -> bool:
        """Return whether a user has a standing approval for a tool in a session, or in all sessions."""
        params: dict[str, SqlValue] = {"user_id": user or "", "session": session or "", "tool": tool}
        return bool(await self._database.read(_SQL["find_grant"], params))

    async def list_grants(self, user: str | None = None) -> list[Grant]:
        """List the grants of a user, of anonymous calls (`""`), or of all users (None)."""
        try:
            rows = await self._database.read(_SQL["list_grants"], {"user_id": user})
        except UnstorableValue:  # a user name that cannot be stored has no grants
            return []
        return [Grant.from_row(row) for row in rows]

    async def revoke(self, tool: str, user: str | None = None, by: str | None = None) -> int:
        """Revoke the grants of a user, or of all users, for a tool in any definition; returns their number."""
        while True:
            try:
                return await self._revoke(tool, user, to_storable_name(by))
            except UnexpectedRowCount:
                # An approval has just become a grant, or another process has revoked it: read again.
                continue
            except UnstorableValue:
                return 0

    async def _revoke(self, tool: str, user: str | None, by: str | None) -> int:
        params: dict[str, SqlValue] = {"named": f"{tool} ", "user_id": user}
        revoker: dict[str, SqlValue] = {"name": tool, "by_whom": by}
        unused = await self._database.read(_SQL["list_unused_always_answers"], {"tool": tool, "user_id": user})
        statements = [_limit_always_statement(answer["call_id"], answer["round"]) for answer in unused]
        statements += [
            Statement(_SQL["audit_revoked_answer"], {**revoker, "call_id": answer["call_id"]}) for answer in unused
        ]
        statements += [
            Statement(_SQL["mark_grants"], params),
            Statement(_SQL["audit_revocations"], {**params, **revoker}),
            Statement(_SQL["delete_marked_grants"], params),
        ]
        results = await self._database.write(statements)
        return len(unused) + len(results[-1])


def _limit_always_statement(call_id: str, round: int) -> Statement:
    """Limit an "always" approval to its own call; undoes the transaction if it is not one any more."""
    return Statement(_SQL["limit_always_to_its_call"], {"call_id": call_id, "round": round}, expect=1)
