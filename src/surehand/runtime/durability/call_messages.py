"""Call messages: how visible calls are shown as messages in the spaces of the store."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from surehand.core.call import CallIdentity
from surehand.core.content import to_json
from surehand.core.errors import NotFound
from surehand.core.ids import new_id
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.durability.call_record import unknown_effect_failure
from surehand.runtime.durability.write_retry import WriteRetry
from surehand.runtime.invocation.json_arguments import json_arguments
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import Statement, StoreUnavailable, UnexpectedRowCount
from surehand.store.stored_identity import identity_fields_with_user
from surehand.store.tables.messages import (
    Message,
    amend_statements,
    find_by_call_statement,
    find_orphaned_statement,
    post_call_statements,
    require_not_waiting_statement,
    require_unknown_statement,
    take_over_statement,
)
from surehand.store.tables.spaces import space_not_found

if TYPE_CHECKING:
    from surehand.runtime.invocation.invocation import Invocation
    from surehand.store.store import Store
    from surehand.store.tables.ledger import LedgerRow
    from surehand.store.tables.streams import StreamEventKind

log = logging.getLogger("surehand")
_STREAM_EVENT_KINDS: Mapping[str, StreamEventKind] = {"complete": "tool-call.complete", "error": "tool-call.error"}


class CallMessages:
    """Posts and amends call messages in the store; an outcome is shown in the transaction that stores it."""

    def __init__(self, store: RuntimeStore, write_retry: WriteRetry, *, shows_calls: bool, max_output: int) -> None:
        self.shows_calls = shows_calls
        """Whether calls are shown in the spaces of the store; else those of a host application show them, or none."""
        self._store = store
        self._write_retry = write_retry
        self._max_output = max_output

    async def post(self, space: str, message: Mapping[str, Any]) -> str:
        """Post the message of a call that has started; returns the message's id."""
        store = await self._store.open()
        message_id = new_id()
        call_id = message["toolCallId"]
        statements = post_call_statements(
            space,
            message,
            message_id=message_id,
            call_id=call_id,
            agent=message.get("senderId"),
            owner=self._store.owner_id,
        )
        try:
            await store.write(statements)
        except UnexpectedRowCount:
            return await self._find_existing(store, space, call_id)
        except (asyncio.CancelledError, StoreUnavailable):
            # The message may have been written although the write failed here: mark it as failed later.
            failed = {**message, "status": "error", "result": f"{message['toolName']} did not run."}
            statements = _amend_statements(space, message_id, failed)
            self._write_retry.retry_later(f"shown {message_id}", statements)
            raise
        store.streams.notify_written()
        return message_id

    async def post_statements(self, invocation: Invocation) -> list[Statement]:
        """Statements that post a call in the transaction that stores its wait; they set the id of its message.

        None for a call that has a message, is not shown here, or is in a space that does not exist.
        """
        if not invocation.message.posts_when_stored or invocation.message.id is not None or not self.shows_calls:
            return []
        store = await self._store.open()
        space = invocation.principal.space or ""
        try:
            await store.spaces.find(space)
        except NotFound as error:
            log.warning("The call of %s could not be posted to space %r: %s", invocation.tool_name, space, error)
            return []
        message_id = new_id()
        invocation.set_message(invocation.message._replace(id=message_id))
        return post_call_statements(
            space,
            self.build_message(invocation, "running"),
            message_id=message_id,
            call_id=invocation.id,
            agent=invocation.principal.agent,
        )

    async def _find_existing(self, store: Store, space: str, call_id: str) -> str:
        query = find_by_call_statement(space, call_id)
        rows = await store.database.read(query.sql, query.params)
        if not rows:
            raise space_not_found(space)
        return str(rows[0]["message_id"])

    async def amend(self, space: str, message_id: str, message: Mapping[str, Any]) -> None:
        """Update the message of a call; a message of a pending call is never marked as ended."""
        store = await self._store.open()
        owner_id = self._store.owner_id if message["status"] == "running" else None
        statements = _amend_statements(space, message_id, message, owner_id)
        if message["status"] in _STREAM_EVENT_KINDS:
            # The caller may have been cancelled while the call is still pending.
            statements.insert(0, require_not_waiting_statement(message["toolCallId"]))
        with suppress(UnexpectedRowCount):
            await store.write(statements)
        store.streams.notify_written()

    def amend_statements(self, invocation: Invocation, outcome: Outcome) -> list[Statement]:
        """Statements that show an outcome, for the transaction that stores it; none for a call without a message."""
        space = invocation.principal.space
        message_id = invocation.message.id
        if message_id is None or space is None or not self.shows_calls:
            return []
        message = self.build_message(invocation, to_message_status(outcome), outcome)
        return _amend_statements(space, message_id, message)

    def mark_written(self, invocation: Invocation, outcome: Outcome) -> None:
        """Note that the transaction with the message's update was committed."""
        if invocation.message.id is not None and self.shows_calls:
            invocation.set_message(invocation.message._replace(status=to_message_status(outcome)))

    def build_message(self, invocation: Invocation, status: str, outcome: Outcome | None = None) -> dict[str, Any]:
        """The content of the message that shows a call, in spaces of the store and of a host application."""
        is_pending = isinstance(outcome, Pending)
        return {
            **identity_fields_with_user(invocation.identity),
            "type": "tool_call",
            "toolName": invocation.listing.name,
            "args": json_arguments(invocation),
            "result": None if outcome is None or is_pending else outcome.text,
            "data": self._structured_result(invocation, outcome),
            "status": status,
            "waitingFor": outcome.waiting_for if isinstance(outcome, Pending) else None,
            "message": outcome.message if isinstance(outcome, Pending) else None,
            "toolCallId": invocation.id,
            "runId": invocation.principal.turn,
            "senderId": invocation.principal.agent,
            "display": dict(invocation.listing.tool.presentation.display),
        }

    def _structured_result(self, invocation: Invocation, outcome: Outcome | None) -> Any:
        """The data of an outcome as plain JSON values; None where there is none, or where it is too large to show."""
        if outcome is None or outcome.data is None:
            return None
        try:
            written = (outcome.data_json if isinstance(outcome, Done) else None) or to_json(outcome.data)
        except ValueError:  # a failure's data may be anything; the text says what happened
            return None
        limit = invocation.listing.tool.limits.max_bytes or self._max_output
        return json.loads(written) if len(written) <= limit else None


def to_message_status(outcome: Outcome) -> str:
    """The status word that a message shows for an outcome."""
    if isinstance(outcome, Pending):
        return "requires_action"
    return "error" if isinstance(outcome, Failed) else "complete"


async def mark_unknown_effect(store: Store, call: LedgerRow) -> None:
    """Show in a call's message that its effect is unknown, unless that has been settled meanwhile."""
    context = json.loads(call.context)
    if call.posted is None or (space := context.get("space")) is None:
        return
    with suppress(NotFound, UnexpectedRowCount):
        message = await store.spaces.message(call.posted)
        if message.content["status"] == "running":
            question = unknown_effect_failure(call.tool, call.call_id).message
            status = {"status": "requires_action", "waitingFor": "result", "message": question}
            amend = _amend_statements(space, call.posted, {**message.content, **status})
            await store.write([require_unknown_statement(call.call_id), *amend])


async def mark_interrupted_calls(store: Store, owner_id: str) -> None:
    """End the messages that dead processes left as running, for calls that are not in the ledger."""
    query = find_orphaned_statement(owner_id)
    for row in await store.database.read(query.sql, query.params):
        message = Message.from_row({name: row[name] for name in row if name != "owner"})
        content = message.content
        call_id = content["toolCallId"]
        name = content["toolName"]
        run = content["runId"]
        interrupted = Failed("interrupted", f"{name} was interrupted: its process died. It may be called again.")
        ended = content | {"status": "error", "result": interrupted.text}
        statements = _amend_statements(message.space_id, message.message_id, ended)
        whose = CallIdentity(**{field: content[field] for field in CallIdentity._fields if field in content})
        statements.append(store.journal.entry_statement("ended", call_id, name, interrupted.code, identity=whose))
        if run is not None:
            statements += store.streams.call_event_statements(run, "ended", call_id, name, interrupted.code, 0.0)
        with suppress(UnexpectedRowCount):  # another runtime was first
            await store.write([take_over_statement(message.message_id, row["owner"]), *statements])
    store.streams.notify_written()


def _amend_statements(
    space: str, message_id: str, message: Mapping[str, Any], owner_id: str | None = None
) -> list[Statement]:
    kind = _STREAM_EVENT_KINDS.get(message["status"], "message.amended")
    return amend_statements(space, message_id, message, kind, owner_id)
