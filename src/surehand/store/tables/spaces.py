"""The tables `spaces` and `members`: where people and agents see each other's messages and the visible calls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from surehand.core.errors import InvalidArguments, NotFound
from surehand.core.ids import new_id
from surehand.store.database import Database, SqlValue, Statement, UnexpectedRowCount
from surehand.store.queries import load_queries
from surehand.store.tables.messages import MemberKind, Message, amend_statements, post_statements
from surehand.store.tables.streams import StreamTable

DEFAULT_PAGE_MESSAGES = 50
MAX_PAGE_MESSAGES = 200

_SQL = load_queries("spaces")


@dataclass(frozen=True, slots=True)
class Space:
    """A place for messages."""

    space_id: str
    name: str
    messages: int
    """How many messages were posted: the number of the newest one."""
    created_at: float


@dataclass(frozen=True, slots=True)
class Member:
    """A person or an agent in a space."""

    member_id: str
    kind: MemberKind
    name: str
    joined_at: float = 0.0


class SpaceTable:
    """Spaces with their members and messages."""

    def __init__(self, database: Database, streams: StreamTable) -> None:
        self._database = database
        self._streams = streams
        self.has_spaces = False
        """Whether any space exists, as far as this process knows."""

    async def refresh_has_spaces(self) -> None:
        """Read whether any space exists."""
        self.has_spaces = bool(await self._database.read(_SQL["find_any_space"]))

    async def create(self, space_id: str | None = None, name: str = "") -> Space:
        """Create a space, or return the one that already has this id."""
        space_id = space_id or new_id()
        self.has_spaces = True
        await self._database.write([Statement(_SQL["create_space"], {"space_id": space_id, "name": name or space_id})])
        return await self.find(space_id)

    async def find(self, space_id: str) -> Space:
        """Find a space by its id."""
        rows = await self._database.read(_SQL["find_space"], {"space_id": space_id})
        if not rows:
            raise space_not_found(space_id)
        return Space(**rows[0])

    async def of_member(self, member_id: str) -> list[Space]:
        """List the spaces of a person or an agent, oldest first."""
        rows = await self._database.read(_SQL["list_spaces_of_member"], {"member_id": member_id})
        return [Space(**row) for row in rows]

    async def all(self, *, limit: int = MAX_PAGE_MESSAGES, after: str = "") -> list[Space]:
        """List spaces by their ids, after an id."""
        params: dict[str, SqlValue] = {"after": after, "limit": max(limit, 0)}
        return [Space(**row) for row in await self._database.read(_SQL["list_spaces"], params)]

    async def is_member(self, space_id: str, member_id: str) -> bool:
        """Whether a person or an agent is a member of a space."""
        params = {"space_id": space_id, "member_id": member_id}
        return bool(await self._database.quick_read(_SQL["find_member"], params))

    async def join(self, space_id: str, member_id: str, kind: MemberKind = "person", name: str = "") -> None:
        """Become a member; a member that joins again changes its name or kind."""
        if kind not in ("person", "agent"):
            raise InvalidArguments(f"A member is a person or an agent, not {kind!r}.")
        member = {"space_id": space_id, "member_id": member_id, "kind": kind, "name": name or member_id}
        try:
            await self._database.write([Statement(_SQL["join_space"], member, expect=1)])
        except UnexpectedRowCount:
            raise space_not_found(space_id) from None

    async def leave(self, space_id: str, member_id: str) -> bool:
        """End a membership; returns False if there was none."""
        params = {"space_id": space_id, "member_id": member_id}
        [deleted] = await self._database.write([Statement(_SQL["leave_space"], params)])
        return bool(deleted)

    async def members(
        self, space_id: str, *, limit: int | None = None, after: tuple[float, str] | None = None
    ) -> list[Member]:
        """List the members of a space in the order in which they joined, after `joined_at` and id of a member."""
        joined_at, member_id = after or (0.0, "")
        params: dict[str, SqlValue] = {
            "space_id": space_id,
            "joined_at": joined_at,
            "member_id": member_id,
            "limit": 1 << 62 if limit is None else max(limit, 0),
        }
        rows = await self._database.read(_SQL["list_members"], params)
        if not rows:
            await self.find(space_id)
        return [Member(**row) for row in rows]

    async def post(
        self, space_id: str, content: Any, *, sender: str, reply_to: str | None = None, stream_id: str | None = None
    ) -> Message:
        """Post a message as a member; the other agents of the space get it in their inboxes.

        Args:
            stream_id: the call that posts it, for readers of the space that have seen its text while it was written.
        """
        member = await self._require_member(space_id, sender)
        message = Message(new_id(), space_id, 0, sender, member.name, member.kind, content, None, reply_to, 0.0, None)
        try:
            results = await self._database.write(post_statements(message, stream_id))
        except UnexpectedRowCount:
            await self._require_member(space_id, sender)  # the sender may have left in the meantime
            raise InvalidArguments(f"Message {reply_to} is not one of this space that can be replied to.") from None
        self._streams.notify_written()
        [stored] = results[1]
        return replace(message, number=stored["number"], created_at=stored["created_at"])

    async def _require_member(self, space_id: str, member_id: str) -> Member:
        rows = await self._database.quick_read(_SQL["find_member"], {"space_id": space_id, "member_id": member_id})
        if not rows:
            await self.find(space_id)
            raise NotFound(f"{member_id[:80]} is not a member of this space.")
        return Member(*rows[0])

    async def amend(self, message_id: str, content: Any) -> None:
        """Replace the content of a message; agents are not notified."""
        message = await self.message(message_id)
        await self._database.write(amend_statements(message.space_id, message_id, content))
        self._streams.notify_written()

    async def message(self, message_id: str) -> Message:
        """Find a message by its id."""
        rows = await self._database.read(_SQL["find_message"], {"message_id": message_id})
        if not rows:
            raise NotFound(f"There is no message {message_id[:80]}.")
        return Message.from_row(rows[0])

    async def history(
        self,
        space_id: str,
        *,
        limit: int = DEFAULT_PAGE_MESSAGES,
        before: int | None = None,
        after: int | None = None,
    ) -> list[Message]:
        """Return the newest messages, oldest first; page with `before` or `after`, the number of a message."""
        params: dict[str, SqlValue] = {
            "space_id": space_id,
            "before": 1 << 62 if before is None else before,
            "after": after or 0,
            "limit": min(max(limit, 0), MAX_PAGE_MESSAGES),
        }
        query = "list_messages_backward" if after is None else "list_messages_forward"
        rows = await self._database.read(_SQL[query], params)
        if not rows:
            await self.find(space_id)
        return sorted(map(Message.from_row, rows), key=lambda message: message.number)


def space_not_found(space_id: str) -> NotFound:
    """Build the error for an unknown space."""
    return NotFound(f"There is no space {space_id[:80]}. Make it with `store.spaces.create({space_id[:80]!r})`.")
