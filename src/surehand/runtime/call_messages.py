"""Board: where visible calls are shown - the spaces of the store, or those that a host application keeps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from surehand.core.content import to_json
from surehand.core.errors import NotFound
from surehand.core.ids import new_id
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.durability.call_record import unknown_effect_failure
from surehand.runtime.durability.json_arguments import json_arguments
from surehand.runtime.visible_calls import to_message_status
from surehand.store.database import Statement, StoreUnavailable, UnexpectedRowCount
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
    from surehand.runtime.pipeline.invocation import Invocation
    from surehand.runtime.services import RuntimeServices
    from surehand.store.store import Store
    from surehand.store.tables.ledger import LedgerRow
    from surehand.store.tables.streams import StreamEventKind

_STREAM_EVENT_KINDS: Mapping[str, StreamEventKind] = {"complete": "tool-call.complete", "error": "tool-call.error"}


class CallMessages:
    """The spaces of the store. What a call has come to is shown in the very transaction that keeps it."""

    def __init__(self, services: RuntimeServices) -> None:
        self._services = services

    async def post(self, space: str, message: Mapping[str, Any]) -> str:
        """Show a call that has begun; gives the id of its message."""
        store, message_id = await self._services.open_store(), new_id()
        agent, call_id = message.get("senderId"), message["toolCallId"]
        try:
            owner = self._services.owner_id
            await store.write(
                post_call_statements(space, message, message_id=message_id, call_id=call_id, agent=agent, owner=owner)
            )
        except UnexpectedRowCount:
            return await self._find_existing(store, space, call_id)
        except (asyncio.CancelledError, StoreUnavailable):  # it may be there, and nobody else knows of it
            ended = {**message, "status": "error", "result": f"{message['toolName']} did not run."}
            self._services.ledger.write_retry.retry_later(
                f"shown {message_id}", _amend_statements(space, message_id, ended)
            )
            raise
        store.streams.notify_written()
        return message_id

    async def _find_existing(self, store: Store, space: str, call_id: str) -> str:
        step = find_by_call_statement(space, call_id)
        if not (found := await store.database.read(step.sql, step.params)):
            raise space_not_found(space)
        return str(found[0]["message_id"])

    async def amend(self, space: str, message_id: str, message: Mapping[str, Any]) -> None:
        """Show how it stands now. A caller may have left a call that still waits: that has not ended."""
        store, owner = (
            await self._services.open_store(),
            self._services.owner_id if message["status"] == "running" else None,
        )
        steps = _amend_statements(space, message_id, message, owner)
        if message["status"] in _STREAM_EVENT_KINDS:
            steps.insert(0, require_not_waiting_statement(message["toolCallId"]))
        with suppress(UnexpectedRowCount):
            await store.write(steps)
        store.streams.notify_written()

    def amend_statements(self, invocation: Invocation, outcome: Outcome) -> list[Statement]:
        """What shows an outcome, for the transaction that keeps it; nothing for a call that is shown nowhere."""
        space, posted = invocation.principal.space, invocation.message_id
        if posted is None or space is None:
            return []
        return _amend_statements(space, posted, build_call_message(invocation, to_message_status(outcome), outcome))


async def mark_unknown_effect(store: Store, call: LedgerRow) -> None:
    """Say in its message that nobody knows whether a call has happened, unless somebody does by now."""
    context = json.loads(call.context)
    if call.posted is None or (space := context.get("space")) is None:
        return
    with suppress(NotFound, UnexpectedRowCount):
        message = await store.spaces.message(call.posted)
        if message.content["status"] == "running":
            asks = {"status": "requires_action", "waitingFor": "result"}
            told = {**message.content, **asks, "message": unknown_effect_failure(call.tool, call.call_id).message}
            await store.write([require_unknown_statement(call.call_id), *_amend_statements(space, call.posted, told)])


async def mark_interrupted_calls(store: Store, owner_id: str) -> None:
    """Say of calls that were shown as running, and of which nobody knows anything more, that their process died."""
    step = find_orphaned_statement(owner_id)
    for row in await store.database.read(step.sql, step.params):
        owner, message = row["owner"], Message.from_row({name: row[name] for name in row if name != "owner"})
        call_id, told = message.content["toolCallId"], message.content
        name, run = told["toolName"], told["runId"]
        interrupted = Failed("interrupted", f"{name} was interrupted: its process died. It may be called again.")
        steps = _amend_statements(
            message.space_id, message.message_id, told | {"status": "error", "result": interrupted.text}
        )
        steps.append(store.journal.entry_statement("ended", call_id, name, interrupted.code))
        steps += (
            store.streams.call_event_statements(run, "ended", call_id, name, interrupted.code, 0.0)
            if run is not None
            else []
        )
        with suppress(UnexpectedRowCount):
            await store.write([take_over_statement(message.message_id, owner), *steps])
    store.streams.notify_written()


def _amend_statements(
    space: str, message_id: str, message: Mapping[str, Any], owner_id: str | None = None
) -> list[Statement]:
    return amend_statements(
        space, message_id, message, _STREAM_EVENT_KINDS.get(message["status"], "message.amended"), owner_id
    )


def _structured_result(invocation: Invocation, outcome: Outcome | None) -> Any:
    """The data of an outcome as plain JSON values; None where there is none, or where it is too large to be shown."""
    if outcome is None or outcome.data is None:
        return None
    try:
        written = (outcome.data_json if isinstance(outcome, Done) else None) or to_json(outcome.data)
    except ValueError:  # a failure's data may be anything; the text says what happened
        return None
    limit = invocation.listing.tool.limits.max_bytes or invocation.scope.services.defaults.max_output
    return json.loads(written) if len(written) <= limit else None


def build_call_message(invocation: Invocation, status: str, outcome: Outcome | None = None) -> dict[str, Any]:
    """A call as its message shows it."""
    waits = isinstance(outcome, Pending)
    return {
        "type": "tool_call",
        "toolName": invocation.listing.name,
        "args": json_arguments(invocation),
        "result": None if outcome is None or waits else outcome.text,
        "data": _structured_result(invocation, outcome),
        "status": status,
        "waitingFor": outcome.waiting_for if isinstance(outcome, Pending) else None,
        "message": outcome.message if isinstance(outcome, Pending) else None,
        "toolCallId": invocation.id,
        "runId": invocation.principal.turn,
        "senderId": invocation.principal.agent,
        "display": dict(invocation.listing.tool.presentation.display),
    }
