"""Resume: a call that waited, as the store keeps it, becomes an invocation again."""

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
    """The tool of a call, as the call's own scope knows it."""
    return restore_scope(services, row).find(row.call.tool)


def restore_scope(services: RuntimeServices, row: PendingRow) -> Scope:
    """The scope that the call was made in where that lives here, else one for the same user and session."""
    before = services.pending_calls.invocations.get(row.call.call_id)
    if before is not None:
        return before.scope
    call, context = row.call, json.loads(row.call.context)
    who: dict[str, Any] = {name: context[name] for name in _CONTEXT_FIELDS if context.get(name) is not None}
    named = {"user": call.user_id, "session": call.session, "agent": call.agent}
    who.update({name: value for name, value in named.items() if value is not None})
    return services.root_scope.scope(**who)


def restore_invocation(services: RuntimeServices, row: PendingRow) -> tuple[Invocation, Proceed]:
    """The same call once more, from its stored arguments, and the stack to send it through."""
    call, context = row.call, json.loads(row.call.context)
    before = services.pending_calls.invocations.get(call.call_id)
    scope = restore_scope(services, row)
    again = Invocation(scope, call.tool, deserialize_arguments(call.arguments))
    again.assigned_id, again.has_given_id, again.is_resumed = call.call_id, bool(context.get("given")), True
    again.round, again.message_id = row.rounds[-1].round, call.posted
    again.model_id, again.parent = context.get("model_id"), context.get("parent")
    again.nesting_depth, again.ledger_row = int(context.get("depth", 0)), call
    listing = scope.find(call.tool)
    if listing is not None and listing.tool.definition_digest == call.definition:
        return again, services.stack_for_call(again)
    # A no, or somebody's answer, ends the call that was asked about, even where the tool is another one by now.
    return again, services.stack_for_listing(
        before.listing if before is not None else _absent_tool_listing(call.tool), again
    )


def _absent_tool_listing(name: str) -> Listing:
    """For a tool that is not here: its call can be ended, and nothing of it can run."""
    absent = tool.external("absent", "A tool that is not here.", parameters={"type": "object"}, visible=False)
    return Listing(name, absent, None, "", name)


@dataclass(frozen=True, slots=True)
class Resumption:
    """How a call goes on: with which answer, and under which fence it runs or what is written when it ends."""

    answer: Answer
    round_answer: RoundAnswer | None = None
    fence: int | None = None
    on_settled: Callable[[Invocation], None] | None = None


def apply_resumption(invocation: Invocation, row: PendingRow, resumption: Resumption) -> None:
    """Let a call go on with the answer it waited for."""
    last, verdict = row.rounds[-1], resumption.answer
    invocation.provider_state, invocation.round_answer, invocation.fence = (
        row.provider_state,
        resumption.round_answer,
        resumption.fence,
    )
    invocation.on_settled = resumption.on_settled
    if verdict.approval is not None:
        invocation.approval = verdict.approval
        return
    invocation.answer_value = verdict.value
    invocation.waited_for = "result" if last.inner_call_id is not None else cast(WaitingFor, last.waiting_for)
