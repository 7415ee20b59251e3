"""Restored call: rebuilds the scope, tool and invocation of a pending call from its row in the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from surehand.catalogue.listing import Listing
from surehand.core.approval_binding import describe_tool_change
from surehand.core.define import tool
from surehand.core.outcome import Done, WaitingFor
from surehand.runtime.pending.answer import Answer
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed
from surehand.store.serialization import deserialize_arguments
from surehand.store.tables.pending import PendingRow, RoundAnswer

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope
    from surehand.runtime.services import RuntimeServices

_CONTEXT_FIELDS = ("message", "task", "space", "turn", "memory_dir", "session_dir", "allowed_paths")


def find_listing(services: RuntimeServices, row: PendingRow) -> Listing | None:
    """Find the tool of a call in the call's own scope; None if that is the scope of an agent which is not here."""
    if row.call.call_id not in services.pending_calls.invocations and services.named_scopes.missing_agent(row.call):
        return None
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
    return services.named_scopes.rebuild(call, services.root_scope.scope(**fields))


def restore_invocation(services: RuntimeServices, row: PendingRow) -> Invocation:
    """A new invocation of the call, with its stored arguments."""
    call = row.call
    context = json.loads(call.context)
    invocation = Invocation(restore_scope(services, row), call.tool, deserialize_arguments(call.arguments))
    invocation.assigned_id = call.call_id
    invocation.has_given_id = bool(context.get("given"))
    invocation.is_resumed = True
    invocation.round = row.rounds[-1].round
    invocation.message_id = call.posted
    invocation.model_id = context.get("model_id")
    invocation.parent = context.get("parent")
    invocation.nesting_depth = int(context.get("depth", 0))
    is_known_here = call.call_id in services.pending_calls.invocations
    is_rebuilt = invocation.scope.scope_name is not None
    invocation.has_lost_scope = bool(context.get("own_scope")) and not (is_known_here or is_rebuilt)
    invocation.ledger_row = call
    return invocation


def restore_resumed_call(
    services: RuntimeServices, row: PendingRow, resumption: Resumption
) -> tuple[Invocation, Proceed]:
    """A new invocation of the call with the answer, and the stack to run it through.

    If the tool has changed since a person approved the call, the approval does not count, and the stack asks again.
    """
    invocation = restore_invocation(services, row)
    apply_resumption(invocation, row, resumption)
    call = row.call
    listing = find_listing(services, row)
    is_unchanged = listing is not None and listing.tool.is_bound_by(call.definition)
    if listing is None or not (is_unchanged or resumption.continues):
        # A rejection or a result ends the call even if its tool has changed or is missing: use the one it was made for.
        original = services.pending_calls.invocations.get(call.call_id)
        made_for = original.listing if original is not None else _absent_tool_listing(call.tool)
        return invocation, services.stack_for_listing(made_for, invocation)
    if not is_unchanged and invocation.approval is not None:
        now = listing.tool.approval_binding
        invocation.asks_again_because = describe_tool_change(call.tool, call.definition, now)
        invocation.approval = None
    return invocation, services.stack_for_call(invocation)


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

    @property
    def continues(self) -> bool:
        """Whether the answer lets the call go on, instead of ending it."""
        approval = self.answer.approval
        lets_continue = isinstance(self.answer.value, Done) if approval is None else approval.allow
        return self.fence is not None and lets_continue


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
    invocation.is_following = last.first_call_id is not None
    invocation.waited_for = "result" if last.inner_call_id is not None else cast(WaitingFor, last.waiting_for)
