"""Board: where visible calls are shown - the spaces of the store, or those that a host application keeps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from surehand.core.errors import NotFound
from surehand.core.ids import new_id
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.known import unknown_effect
from surehand.runtime.plain import plain_arguments
from surehand.runtime.shown import status_of
from surehand.store.database import Statement, StoreUnavailable, Unexpected
from surehand.store.messages import (
    Message,
    amended,
    call_posted,
    left_running,
    of_call,
    taken_over,
    unless_it_waits,
    while_unknown,
)
from surehand.store.spaces import no_space

if TYPE_CHECKING:
    from surehand.runtime.invocation import Invocation
    from surehand.runtime.parts import Parts
    from surehand.store.ledger import Known
    from surehand.store.store import Store
    from surehand.store.streams import Kind

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
            owner = self._parts.owner
            await store.write(
                call_posted(space, message, message_id=message_id, call_id=call_id, agent=agent, owner=owner)
            )
        except Unexpected:
            return await self._shown_already(store, space, call_id)
        except (asyncio.CancelledError, StoreUnavailable):  # it may be there, and nobody else knows of it
            ended = {**message, "status": "error", "result": f"{message['toolName']} did not run."}
            self._parts.ledger.unwritten.keep(f"shown {message_id}", _amended(space, message_id, ended))
            raise
        store.streams.look()
        return message_id

    async def _shown_already(self, store: Store, space: str, call_id: str) -> str:
        step = of_call(space, call_id)
        if not (found := await store.database.read(step.sql, step.params)):
            raise no_space(space)
        return str(found[0]["message_id"])

    async def amend(self, space: str, message_id: str, message: Mapping[str, Any]) -> None:
        """Show how it stands now. A caller may have left a call that still waits: that has not ended."""
        store, owner = await self._parts.remembered(), self._parts.owner if message["status"] == "running" else None
        steps = _amended(space, message_id, message, owner)
        if message["status"] in _KINDS:
            steps.insert(0, unless_it_waits(message["toolCallId"]))
        with suppress(Unexpected):
            await store.write(steps)
        store.streams.look()

    def showing(self, invocation: Invocation, outcome: Outcome) -> list[Statement]:
        """What shows an outcome, for the transaction that keeps it; nothing for a call that is shown nowhere."""
        space, posted = invocation.principal.space, invocation.posted
        if posted is None or space is None:
            return []
        return _amended(space, posted, message_of(invocation, status_of(outcome), outcome))


async def show_unknown(store: Store, call: Known) -> None:
    """Say in its message that nobody knows whether a call has happened, unless somebody does by now."""
    context = json.loads(call.context)
    if call.posted is None or (space := context.get("space")) is None:
        return
    with suppress(NotFound, Unexpected):
        message = await store.spaces.message(call.posted)
        if message.content["status"] == "running":
            asks = {"status": "requires_action", "waitingFor": "result"}
            told = {**message.content, **asks, "message": unknown_effect(call.tool, call.call_id).message}
            await store.write([while_unknown(call.call_id), *_amended(space, call.posted, told)])


async def show_interrupted(store: Store, me: str) -> None:
    """Say of calls that were shown as running, and of which nobody knows anything more, that their process died."""
    step = left_running(me)
    for row in await store.database.read(step.sql, step.params):
        owner, message = row["owner"], Message.of({name: row[name] for name in row if name != "owner"})
        call_id, told = message.content["toolCallId"], message.content
        name, run = told["toolName"], told["runId"]
        interrupted = Failed("interrupted", f"{name} was interrupted: its process died. It may be called again.")
        steps = _amended(message.space_id, message.message_id, told | {"status": "error", "result": interrupted.text})
        steps.append(store.journal.entry("ended", call_id, name, interrupted.code))
        steps += store.streams.of_call(run, "ended", call_id, name, interrupted.code, 0.0) if run is not None else []
        with suppress(Unexpected):
            await store.write([taken_over(message.message_id, owner), *steps])
    store.streams.look()


def _amended(space: str, message_id: str, message: Mapping[str, Any], owner: str | None = None) -> list[Statement]:
    return amended(space, message_id, message, _KINDS.get(message["status"], "message.amended"), owner)


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
