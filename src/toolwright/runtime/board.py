"""Board: where visible calls are shown - the spaces of the store, or those that a host application keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolwright.core.ids import new_id
from toolwright.core.outcome import Failed, Outcome, Pending
from toolwright.runtime.known import unknown_effect
from toolwright.runtime.plain import plain_arguments, plain_of
from toolwright.store.database import Statement, Unexpected
from toolwright.store.messages import amended, call_posted
from toolwright.store.spaces import no_space

if TYPE_CHECKING:
    from toolwright.runtime.invocation import Invocation
    from toolwright.runtime.parts import Parts
    from toolwright.store.ledger import Known
    from toolwright.store.streams import Kind

_KINDS: Mapping[str, Kind] = {"complete": "tool-call.complete", "error": "tool-call.error"}


class Board:
    """The spaces of the store. What a call has come to is shown in the very transaction that keeps it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def post(self, space: str, message: Mapping[str, Any]) -> str:
        """Show a call that has begun; gives the id of its message."""
        store, message_id = await self._parts.remembered(), new_id()
        agent, call_id = message.get("senderId"), message["toolCallId"]
        try:
            await store.write(call_posted(space, message, message_id=message_id, call_id=call_id, agent=agent))
        except Unexpected:
            raise no_space(space) from None
        store.streams.look()
        return message_id

    async def amend(self, space: str, message_id: str, message: Mapping[str, Any]) -> None:
        """Show how it stands now."""
        store = await self._parts.remembered()
        await store.write(_amended(space, message_id, message))
        store.streams.look()

    def showing(self, invocation: Invocation, outcome: Outcome) -> list[Statement]:
        """What shows an outcome, for the transaction that keeps it; nothing for a call that is shown nowhere."""
        space, posted = invocation.principal.space, invocation.posted
        if posted is None or space is None:
            return []
        invocation.shown = status_of(outcome)
        return _amended(space, posted, message_of(invocation, invocation.shown, outcome))


def unknown_shown(call: Known) -> list[Statement]:
    """What shows that nobody knows whether a call has happened."""
    context = json.loads(call.context)
    space, posted = context.get("space"), call.posted
    if posted is None or space is None:
        return []
    message = {
        "type": "tool_call", "toolName": call.tool, "args": plain_of(call.arguments),
        "result": None, "status": "requires_action", "waitingFor": "result",
        "message": unknown_effect(call.tool, call.call_id).message,
        "toolCallId": call.call_id, "runId": context.get("turn"), "senderId": call.agent, "display": {},
    }  # fmt: skip
    return _amended(space, posted, message)


def _amended(space: str, message_id: str, message: Mapping[str, Any]) -> list[Statement]:
    return amended(space, message_id, message, _KINDS.get(message["status"], "message.amended"))


def status_of(outcome: Outcome) -> str:
    """How a message says it."""
    if isinstance(outcome, Pending):
        return "requires_action"
    return "error" if isinstance(outcome, Failed) else "complete"


def message_of(invocation: Invocation, status: str, outcome: Outcome | None = None) -> dict[str, Any]:
    """A call as its message shows it."""
    waits = isinstance(outcome, Pending)
    return {
        "type": "tool_call",
        "toolName": invocation.listing.name,
        "args": plain_arguments(invocation),
        "result": None if outcome is None or waits else outcome.text,
        "status": status,
        "waitingFor": outcome.waiting_for if isinstance(outcome, Pending) else None,
        "message": outcome.message if isinstance(outcome, Pending) else None,
        "toolCallId": invocation.id,
        "runId": invocation.principal.turn,
        "senderId": invocation.principal.agent,
        "display": dict(invocation.listing.tool.face.display),
    }
