"""Spaces: where people and agents see each other's messages, and the calls that are visible."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from surehand.core.errors import InvalidArguments, NotFound
from surehand.core.ids import new_id
from surehand.store.database import Database, SqlValue, Statement, UnexpectedRowCount
from surehand.store.tables.messages import MESSAGE_COLUMNS, MemberKind, Message, amend_statements, post_statements
from surehand.store.tables.streams import StreamTable

DEFAULT_PAGE_MESSAGES, MAX_PAGE_MESSAGES = 50, 200

_CREATE = """INSERT INTO spaces (space_id, name, messages, created_at) VALUES (:space_id, :name, 0, {now})
    ON CONFLICT (space_id) DO NOTHING"""
_SPACE = "spaces.space_id, spaces.name, spaces.messages, spaces.created_at"
_FIND = f"SELECT {_SPACE} FROM spaces WHERE space_id = :space_id"
_OF_MEMBER = f"""SELECT {_SPACE} FROM spaces JOIN members ON members.space_id = spaces.space_id
    WHERE members.member_id = :member_id ORDER BY spaces.created_at, spaces.space_id"""
_JOIN = """INSERT INTO members (space_id, member_id, kind, name, joined_at)
    SELECT :space_id, :member_id, :kind, :name, {now} FROM spaces WHERE space_id = :space_id
    ON CONFLICT (space_id, member_id) DO UPDATE SET kind = excluded.kind, name = excluded.name"""
_LEAVE = "DELETE FROM members WHERE space_id = :space_id AND member_id = :member_id RETURNING member_id"
_MEMBERS = "SELECT member_id, kind, name FROM members WHERE space_id = :space_id ORDER BY joined_at, member_id"
_MEMBER = "SELECT member_id, kind, name FROM members WHERE space_id = :space_id AND member_id = :member_id"
_MESSAGE = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE message_id = :message_id"
_PAGE = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE space_id = :space_id AND number < :before AND number > :after"
_BACK, _ON = f"{_PAGE} ORDER BY number DESC LIMIT :limit", f"{_PAGE} ORDER BY number LIMIT :limit"


@dataclass(frozen=True, slots=True)
class Space:
    """A place for messages."""

    space_id: str
    name: str
    messages: int
    """How many were posted: the number of the newest."""
    created_at: float


@dataclass(frozen=True, slots=True)
class Member:
    """A person or an agent in a space."""

    member_id: str
    kind: MemberKind
    name: str


class SpaceTable:
    "SpaceTablees, their members and messages."

    def __init__(self, database: Database, streams: StreamTable) -> None:
        self._database, self._streams = database, streams
        self.has_spaces = False
        """Whether there are any, as far as is known here."""

    async def refresh_has_spaces(self) -> None:
        """Find out whether there are any."""
        self.has_spaces = bool(await self._database.read("SELECT space_id FROM spaces LIMIT 1"))

    async def create(self, space_id: str | None = None, name: str = "") -> Space:
        """A new space, or the one that has this id already."""
        space_id, self.has_spaces = space_id or new_id(), True
        await self._database.write([Statement(_CREATE, {"space_id": space_id, "name": name or space_id})])
        return await self.find(space_id)

    async def find(self, space_id: str) -> Space:
        """A space by its id."""
        rows = await self._database.read(_FIND, {"space_id": space_id})
        if not rows:
            raise space_not_found(space_id)
        return Space(**rows[0])

    async def of_member(self, member_id: str) -> list[Space]:
        """The spaces of a person or an agent, the oldest first."""
        return [Space(**row) for row in await self._database.read(_OF_MEMBER, {"member_id": member_id})]

    async def join(self, space_id: str, member_id: str, kind: MemberKind = "person", name: str = "") -> None:
        """Become a member; once more, under another name or kind."""
        if kind not in ("person", "agent"):
            raise InvalidArguments(f"A member is a person or an agent, not {kind!r}.")
        member = {"space_id": space_id, "member_id": member_id, "kind": kind, "name": name or member_id}
        try:
            await self._database.write([Statement(_JOIN, member, expect=1)])
        except UnexpectedRowCount:
            raise space_not_found(space_id) from None

    async def leave(self, space_id: str, member_id: str) -> bool:
        """Be a member no more; false for one who was none."""
        [gone] = await self._database.write([Statement(_LEAVE, {"space_id": space_id, "member_id": member_id})])
        return bool(gone)

    async def members(self, space_id: str) -> list[Member]:
        """Who is in a space, the first to join first."""
        rows = await self._database.read(_MEMBERS, {"space_id": space_id})
        if not rows:
            await self.find(space_id)
        return [Member(**row) for row in rows]

    async def post(self, space_id: str, content: Any, *, sender: str, reply_to: str | None = None) -> Message:
        """A member says something: the other agents in the space find it in their inbox."""
        who = await self._require_member(space_id, sender)
        message = Message(new_id(), space_id, 0, sender, who.name, who.kind, content, None, reply_to, 0.0, None)
        try:
            results = await self._database.write(post_statements(message))
        except UnexpectedRowCount:
            await self._require_member(space_id, sender)  # who may have left just then
            raise InvalidArguments(f"Message {reply_to} is not one of this space that can be replied to.") from None
        self._streams.notify_written()
        [kept] = results[1]
        return replace(message, number=kept["number"], created_at=kept["created_at"])

    async def _require_member(self, space_id: str, member_id: str) -> Member:
        found = await self._database.quick_read(_MEMBER, {"space_id": space_id, "member_id": member_id})
        if not found:
            await self.find(space_id)
            raise NotFound(f"{member_id[:80]} is not a member of this space.")
        return Member(*found[0])

    async def amend(self, message_id: str, content: Any) -> None:
        """Change what a message says; nobody is woken."""
        message = await self.message(message_id)
        await self._database.write(amend_statements(message.space_id, message_id, content))
        self._streams.notify_written()

    async def message(self, message_id: str) -> Message:
        """A message by its id."""
        rows = await self._database.read(_MESSAGE, {"message_id": message_id})
        if not rows:
            raise NotFound(f"There is no message {message_id[:80]}.")
        return Message.from_row(rows[0])

    async def history(
        self, space_id: str, *, limit: int = DEFAULT_PAGE_MESSAGES, before: int | None = None, after: int | None = None
    ) -> list[Message]:
        """The newest messages, oldest first; page back with `before`, or on with `after` a message's number."""
        most = min(max(limit, 0), MAX_PAGE_MESSAGES)
        end = 1 << 62 if before is None else before
        params: dict[str, SqlValue] = {"space_id": space_id, "before": end, "after": after or 0, "limit": most}
        rows = await self._database.read(_BACK if after is None else _ON, params)
        if not rows:
            await self.find(space_id)
        return sorted(map(Message.from_row, rows), key=lambda message: message.number)


def space_not_found(space_id: str) -> NotFound:
    """What whoever looked for it is told."""
    return NotFound(f"There is no space {space_id[:80]}. Make it with `store.spaces.create({space_id[:80]!r})`.")
