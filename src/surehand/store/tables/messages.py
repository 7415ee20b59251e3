"""Messages: what was posted to spaces, numbered without gaps. Each change of one is an event in its space's stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from surehand.store.database import Row, SqlValue, Statement
from surehand.store.serialization import dump_json
from surehand.store.tables.streams import ANNOUNCE_STATEMENT, StreamEventKind, space_stream

MemberKind: TypeAlias = Literal["person", "agent"]

MESSAGE_COLUMNS = """message_id, space_id, number, sender_id, sender_name, sender_kind, content, call_id, reply_to, created_at,
    amended_at"""
# Locks the space until the message is kept: numbers have no gaps, and come to light in their order.
_NEXT = "UPDATE spaces SET messages = messages + 1 WHERE space_id = :space_id"
_INSERT = """INSERT INTO messages (message_id, space_id, number, content, sender_id, sender_name, sender_kind, call_id,
    reply_to, owner, created_at) SELECT :message_id, :space_id, spaces.messages, :content,"""
_POST_CALL = f"""{_INSERT} :sender_id, coalesce((SELECT name FROM members WHERE members.space_id = :space_id
        AND members.member_id = :sender_id), :sender_name), 'agent', :call_id, NULL, :owner, {{now}}
    FROM spaces WHERE spaces.space_id = :space_id ON CONFLICT DO NOTHING"""
_OF_CALL = "SELECT message_id FROM messages WHERE call_id = :call_id AND space_id = :space_id"
# Locks the call, so that nobody ends it meanwhile.
_WAITS_NOT = """SELECT 1 AS ended WHERE NOT EXISTS
    (SELECT 1 FROM ledger WHERE call_id = :call_id AND state IN ('waiting', 'ready', 'unknown'))"""
_STILL_UNKNOWN = "UPDATE ledger SET state = 'unknown' WHERE call_id = :call_id AND state = 'unknown'"
# A member, under the name that it has here; what it replies to is a message of this space, and no visible call.
_POST = f"""{_INSERT} members.member_id, members.name, members.kind, NULL, :reply_to, NULL, {{now}}
    FROM spaces JOIN members ON members.space_id = spaces.space_id
    WHERE spaces.space_id = :space_id AND members.member_id = :sender_id AND (CAST(:reply_to AS TEXT) IS NULL
        OR EXISTS (SELECT 1 FROM messages AS first WHERE first.message_id = :reply_to
            AND first.space_id = :space_id AND first.call_id IS NULL)) RETURNING number, created_at"""
_WAKE = """INSERT INTO inbox (agent, event_id, type, data, state, attempts, created_at)
    SELECT member_id, :message_id, 'space_message', :data, 'pending', 0, {now} FROM members
    WHERE space_id = :space_id AND kind = 'agent' AND member_id <> :sender_id
    ON CONFLICT (agent, event_id) DO NOTHING"""
_AMEND = """UPDATE messages SET content = :content, owner = :owner, amended_at = {now}
    WHERE message_id = :message_id AND space_id = :space_id"""
# Of a call that has a row, and not only an id, others say how it stands.
_LEFT = f"""SELECT {MESSAGE_COLUMNS}, owner FROM messages WHERE owner IS NOT NULL AND owner <> :me
    AND NOT EXISTS (SELECT 1 FROM owners WHERE owners.owner = messages.owner)
    AND NOT EXISTS (SELECT 1 FROM ledger WHERE ledger.call_id = messages.call_id AND ledger.state <> 'idle')
    LIMIT 100"""
_TAKE = "UPDATE messages SET owner = NULL WHERE message_id = :message_id AND owner = :owner"
# Nothing is told of a message that is gone: whatever is kept in the same transaction does not depend on it.
_TURN = """INSERT INTO streams (stream, last) SELECT :stream, 1 FROM messages WHERE message_id = :message_id
    ON CONFLICT (stream) DO UPDATE SET last = streams.last + 1"""
# The number of a message is known only once it is posted.
_TELL = """INSERT INTO events (stream, number, at, kind, data) SELECT :stream, streams.last, {now}, :kind,
    '{"number":' || CAST(messages.number AS TEXT) || ',' || CAST(:rest AS TEXT)
    FROM messages JOIN streams ON streams.stream = :stream WHERE messages.message_id = :message_id"""


@dataclass(frozen=True, slots=True)
class Message:
    """What was posted, as it is now."""

    message_id: str
    space_id: str
    number: int
    """Its place in the space, without gaps."""
    sender_id: str | None
    sender_name: str
    sender_kind: MemberKind
    content: Any
    """A text, or what a visible call shows."""
    call_id: str | None
    """The visible call that it shows; such a message cannot be replied to."""
    reply_to: str | None
    created_at: float
    amended_at: float | None

    @classmethod
    def from_row(cls, row: Row) -> Message:
        return cls(**{**row, "content": json.loads(row["content"])})

    @property
    def event_data(self) -> dict[str, Any]:
        """The same for inboxes and streams; its number is added where it is known."""
        return {
            "messageId": self.message_id, "spaceId": self.space_id, "senderId": self.sender_id,
            "senderName": self.sender_name, "senderType": self.sender_kind, "content": self.content,
            "replyTo": self.reply_to,
        }  # fmt: skip


def post_statements(message: Message) -> list[Statement]:
    """A member says something: the second statement gives number and time, and other agents find it in their inbox."""
    about: dict[str, SqlValue] = {
        "message_id": message.message_id, "space_id": message.space_id, "sender_id": message.sender_id,
    }  # fmt: skip
    return [
        Statement(_NEXT, {"space_id": message.space_id}, 1),
        Statement(_POST, {**about, "content": dump_json(message.content), "reply_to": message.reply_to}, 1),
        Statement(_WAKE, {**about, "data": dump_json(message.event_data)}),
        *_event_statements(message.space_id, "message", message.event_data),
    ]


def post_call_statements(
    space_id: str,
    content: Mapping[str, Any],
    *,
    message_id: str,
    call_id: str,
    agent: str | None,
    owner: str | None = None,
) -> list[Statement]:
    """A visible call becomes a message: it is shown and streamed, and wakes nobody. A call has one, however often."""
    about: dict[str, SqlValue] = {
        "message_id": message_id, "space_id": space_id, "content": dump_json(content), "sender_id": agent,
        "sender_name": agent or "", "call_id": call_id, "owner": owner,
    }  # fmt: skip
    shown = {"messageId": message_id, "spaceId": space_id, "senderId": agent, "content": content}
    return [
        Statement(_NEXT, {"space_id": space_id}, 1),
        Statement(_POST_CALL, about, 1),
        *_event_statements(space_id, "tool-call.start", shown),
    ]


def amend_statements(
    space_id: str, message_id: str, content: Any, kind: StreamEventKind = "message.amended", owner: str | None = None
) -> list[Statement]:
    """A message says something else from now on; with `owner`, that this one runs its call."""
    change = {"space_id": space_id, "message_id": message_id, "content": dump_json(content), "owner": owner}
    told = {"messageId": message_id, "spaceId": space_id, "content": content}
    return [Statement(_AMEND, change), *_event_statements(space_id, kind, told)]


def _event_statements(space_id: str, kind: StreamEventKind, event_data: Mapping[str, Any]) -> list[Statement]:
    rest = dump_json(event_data)[1:]
    about: dict[str, SqlValue] = {"stream": space_stream(space_id), "message_id": event_data["messageId"]}
    return [Statement(_TURN, about), Statement(_TELL, {**about, "kind": kind, "rest": rest}), ANNOUNCE_STATEMENT]


def find_by_call_statement(space_id: str, call_id: str) -> Statement:
    """The message that shows a call already."""
    return Statement(_OF_CALL, {"space_id": space_id, "call_id": call_id})


def find_orphaned_statement(current_owner: str) -> Statement:
    """Messages of calls that are shown as running, and that nobody else than an owner who is gone knows anything of."""
    return Statement(_LEFT, {"me": current_owner})


def take_over_statement(message_id: str, owner: str) -> Statement:
    """Undoes what is written together with it, where somebody else has seen to the message since."""
    return Statement(_TAKE, {"message_id": message_id, "owner": owner}, 1)


def require_not_waiting_statement(call_id: str) -> Statement:
    """Undoes what is written together with it, where the call still waits for somebody."""
    return Statement(_WAITS_NOT, {"call_id": call_id}, 1)


def require_unknown_statement(call_id: str) -> Statement:
    """Undoes what is written together with it, where it is known by now what became of the call."""
    return Statement(_STILL_UNKNOWN, {"call_id": call_id}, 1)
