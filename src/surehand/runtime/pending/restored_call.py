"""Restored call: rebuilds the scope, tool and invocation of a pending call from its row in the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from surehand.catalogue.listing import Listing
from surehand.core.define import tool
from surehand.core.outcome import WaitingFor
from surehand.runtime.pending.answer import Answer
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed
from surehand.store.serialization import deserialize_arguments
from surehand.store.tables.pending import PendingRow, RoundAnswer

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope
    from surehand.runtime.services import RuntimeServices

_CONTEXT_FIELDS = ("message", "task", "space", "turn", "memory_dir", "session_dir")


def find_listing(services: RuntimeServices, row: PendingRow) -> Listing | None:
    """Find the tool of a call in the call's own scope."""
    return restore_scope(services, row).find(row.call.tool)


def restore_scope(services: RuntimeServices, row: PendingRow) -> Scope:
    """The scope that the call was made in if this process made it, else one for the same principal."""
    call = row.call
    original = services.pending_calls.invocations.get(call.call_id)
    if original is not None:
        return original.scope
    context = json.loads(call.context)
    fields: dict[str, Any] = {name: context[name] for name in _CONTEXT_FIELDS if context.get(name) is not None}
    columns = {"user": call.user_id, "session": call.session, "agent": call.agent}
    fields.update({name: value for name, value in columns.items() if value is not None})
    return services.root_scope.scope(**fields)


def restore_invocation(services: RuntimeServices, row: PendingRow) -> tuple[Invocation, Proceed]:
    """A new invocation of the call, with its stored arguments, and the stack to run it through."""
    call = row.call
    context = json.loads(call.context)
    original = services.pending_calls.invocations.get(call.call_id)
    scope = restore_scope(services, row)
    invocation = Invocation(scope, call.tool, deserialize_arguments(call.arguments))
    invocation.assigned_id = call.call_id
    invocation.has_given_id = bool(context.get("given"))
    invocation.is_resumed = True
    invocation.round = row.rounds[-1].round
    invocation.message_id = call.posted
    invocation.model_id = context.get("model_id")
    invocation.parent = context.get("parent")
    invocation.nesting_depth = int(context.get("depth", 0))
    invocation.ledger_row = call
    listing = scope.find(call.tool)
    if listing is not None and listing.tool.definition_digest == call.definition:
        return invocation, services.stack_for_call(invocation)
    # A rejection or a result ends the call even if the tool has changed or is missing: use the tool it was made for.
    listing = original.listing if original is not None else _absent_tool_listing(call.tool)
    return invocation, services.stack_for_listing(listing, invocation)


def _absent_tool_listing(name: str) -> Listing:
    """A listing for a tool that this process does not have: its calls can end, but not run."""
    absent = tool.external("absent", "A tool that is not here.", parameters={"type": "object"}, visible=False)
    return Listing(name, absent, None, "", name)


@dataclass(frozen=True, slots=True)
class Resumption:
    """How a call continues: the answer, and either the fence to run under or the answer to store with the outcome."""

    answer: Answer
    round_answer: RoundAnswer | None = None
    fence: int | None = None
    on_settled: Callable[[Invocation], None] | None = None


def apply_resumption(invocation: Invocation, row: PendingRow, resumption: Resumption) -> None:
    """Set on an invocation the answer that it continues with."""
    last = row.rounds[-1]
    answer = resumption.answer
    invocation.provider_state = row.provider_state
    invocation.round_answer = resumption.round_answer
    invocation.fence = resumption.fence
    invocation.on_settled = resumption.on_settled
    if answer.approval is not None:
        invocation.approval = answer.approval
        return
    invocation.answer_value = answer.value
    invocation.waited_for = "result" if last.inner_call_id is not None else cast(WaitingFor, last.waiting_for)
