"""The table `messages`: posts in spaces, numbered without gaps. Every change is also an event in the space's stream.

The functions build statements; `SpaceTable` and `runtime/durability/call_messages.py` put them into transactions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from surehand.store.database import Row, SqlValue, Statement
from surehand.store.queries import load_queries
from surehand.store.serialization import dump_json
from surehand.store.tables.streams import ANNOUNCE_STATEMENT, StreamEventKind, space_stream

MemberKind: TypeAlias = Literal["person", "agent"]

_SQL = load_queries("messages")


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a space in its current form."""

    message_id: str
    space_id: str
    number: int
    """Its position in the space, without gaps."""
    sender_id: str | None
    sender_name: str
    sender_kind: MemberKind
    content: Any
    """A text, or the JSON of a visible call."""
    call_id: str | None
    """The visible call that the message shows; such a message cannot be replied to."""
    reply_to: str | None
    created_at: float
    amended_at: float | None

    @classmethod
    def from_row(cls, row: Row) -> Message:
        return cls(**{**row, "content": json.loads(row["content"])})

    @property
    def event_data(self) -> dict[str, Any]:
        """The message as inboxes and streams carry it; the stream adds the number."""
        return {
            "messageId": self.message_id, "spaceId": self.space_id, "senderId": self.sender_id,
            "senderName": self.sender_name, "senderType": self.sender_kind, "content": self.content,
            "replyTo": self.reply_to,
        }  # fmt: skip


def post_statements(message: Message, stream_id: str | None = None) -> list[Statement]:
    """Post as a member; the second statement returns number and time, and other agents get it in their inboxes."""
    params: dict[str, SqlValue] = {
        "message_id": message.message_id,
        "space_id": message.space_id,
        "sender_id": message.sender_id,
    }
    stream = {} if stream_id is None else {"streamId": stream_id}
    posted = {**params, "content": dump_json(message.content), "reply_to": message.reply_to}
    return [
        Statement(_SQL["next_message_number"], {"space_id": message.space_id}, 1),
        Statement(_SQL["post_message"], posted, 1),
        Statement(_SQL["notify_agents"], {**params, "data": dump_json(message.event_data)}),
        *_event_statements(message.space_id, "message", {**message.event_data, **stream}),
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
    """Post a visible call: it is shown and streamed, and no agent is notified. A call has at most one message."""
    params: dict[str, SqlValue] = {
        "message_id": message_id,
        "space_id": space_id,
        "content": dump_json(content),
        "sender_id": agent,
        "sender_name": agent or "",
        "call_id": call_id,
        "owner": owner,
    }
    event_data = {"messageId": message_id, "spaceId": space_id, "senderId": agent, "content": content}
    return [
        Statement(_SQL["next_message_number"], {"space_id": space_id}, 1),
        Statement(_SQL["post_call"], params, 1),
        *_event_statements(space_id, "tool-call.start", event_data),
    ]


def amend_statements(
    space_id: str,
    message_id: str,
    content: Any,
    kind: StreamEventKind = "message.amended",
    owner: str | None = None,
) -> list[Statement]:
    """Replace the content of a message; `owner` is the runtime that runs the call it shows."""
    params = {"space_id": space_id, "message_id": message_id, "content": dump_json(content), "owner": owner}
    event_data = {"messageId": message_id, "spaceId": space_id, "content": content}
    return [Statement(_SQL["amend_message"], params), *_event_statements(space_id, kind, event_data)]


def progress_statements(
    space_id: str, message_id: str, call_id: str, tool: str, progress: Mapping[str, Any]
) -> list[Statement]:
    """Add the progress of a visible call to the stream of its space; the message itself stays as it is."""
    output = {**progress.get("data", {}), **{name: value for name, value in progress.items() if name != "data"}}
    if "message" in output:
        output["text"] = output.pop("message")
    call = {"toolCallId": call_id, "toolName": tool, "preliminary": True, "output": output}
    return _event_statements(space_id, "tool-result", {"messageId": message_id, "spaceId": space_id, **call})


def _event_statements(space_id: str, kind: StreamEventKind, event_data: Mapping[str, Any]) -> list[Statement]:
    rest = dump_json(event_data)[1:]  # without the opening brace: the query puts the number in front
    params: dict[str, SqlValue] = {"stream": space_stream(space_id), "message_id": event_data["messageId"]}
    return [
        Statement(_SQL["next_event_number"], params),
        Statement(_SQL["insert_message_event"], {**params, "kind": kind, "rest": rest}),
        ANNOUNCE_STATEMENT,
    ]


def find_by_call_statement(space_id: str, call_id: str) -> Statement:
    """Find the message that shows a call."""
    return Statement(_SQL["find_message_of_call"], {"space_id": space_id, "call_id": call_id})


def find_orphaned_statement(current_owner: str) -> Statement:
    """Find messages that show a running call whose owner is gone and that the ledger does not know."""
    return Statement(_SQL["list_orphaned_messages"], {"me": current_owner})


def take_over_statement(message_id: str, owner: str) -> Statement:
    """Take over an orphaned message; undoes the transaction if another runtime was first."""
    return Statement(_SQL["take_over_message"], {"message_id": message_id, "owner": owner}, 1)


def require_not_waiting_statement(call_id: str) -> Statement:
    """Undo the transaction if the call still waits."""
    return Statement(_SQL["require_not_waiting"], {"call_id": call_id}, 1)


def require_unknown_statement(call_id: str) -> Statement:
    """Undo the transaction unless the effect of the call is unknown."""
    return Statement(_SQL["require_unknown"], {"call_id": call_id}, 1)
