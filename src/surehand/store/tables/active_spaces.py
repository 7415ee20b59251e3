"""The table `active_spaces`: the space that an agent of a session has entered, by user, session and member."""

from __future__ import annotations

from typing import TypeAlias

from surehand.store.database import Database, SqlValue, Statement
from surehand.store.queries import load_queries

SpaceMember: TypeAlias = tuple[str | None, str, str]
"""User, session, and the agent or else user that is a member of spaces."""

_SQL = load_queries("active_spaces")


class ActiveSpaceTable:
    """Stores which space a member has entered, so that every process makes its calls there."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def enter(self, member: SpaceMember, space: str | None, host_space: str | None) -> None:
        """Store the space that a member has entered, in place of an earlier one.

        Args:
            space: None if it has left the space that the host chose.
            host_space: the space that the host has chosen; if the host chooses another one, that counts.
        """
        params = {**_params(member), "space_id": space, "host_space": host_space}
        await self._database.write([Statement(_SQL["enter_space"], params, expect=1)])

    async def find(self, member: SpaceMember) -> tuple[str | None, str | None] | None:
        """The space that a member has entered, and that of its host then; None if it has entered none."""
        rows = await self._database.quick_read(_SQL["find_active_space"], _params(member))
        return (rows[0][0], rows[0][1]) if rows else None

    async def is_empty(self) -> bool:
        """Whether no member has ever entered a space."""
        return not await self._database.quick_read(_SQL["find_any"])


def _params(member: SpaceMember) -> dict[str, SqlValue]:
    user, session, name = member
    return {"user_id": user or "", "session": session, "member": name}
