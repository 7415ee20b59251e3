"""Restored call: rebuilds the scope, tool and invocation of a pending call from its row in the store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol, cast

from surehand.catalogue.listing import Listing
from surehand.core.approval_binding import describe_tool_change
from surehand.core.call import Principal
from surehand.core.define import tool
from surehand.core.outcome import Done, WaitingFor
from surehand.runtime.invocation.claim import Claim
from surehand.runtime.invocation.invocation import CallScope, Invocation, NextStage
from surehand.runtime.invocation.request import CallRequest
from surehand.runtime.invocation.resumption import ReceivedAnswer
from surehand.runtime.invocation.space_message import SpaceMessage
from surehand.runtime.named_scopes import NamedScopes
from surehand.runtime.offered_tools import OfferedTools
from surehand.runtime.pending.answer import Answer
from surehand.runtime.pending.local_calls import LocalPendingCalls
from surehand.store.serialization import deserialize_arguments
from surehand.store.tables.pending import PendingRow, RoundAnswer

_CONTEXT_FIELDS = ("message", "task", "space", "turn", "memory_dir", "session_dir", "allowed_paths")


@dataclass(frozen=True, slots=True)
class AppliedAnswer:
    """An answer, and either the fence to run under or the answer to store with the outcome."""

    answer: Answer
    round_answer: RoundAnswer | None = None
    fence: int | None = None

    @property
    def continues(self) -> bool:
        """Whether the answer lets the call go on, instead of ending it."""
        approval = self.answer.approval
        lets_continue = isinstance(self.answer.value, Done) if approval is None else approval.allow
        return self.fence is not None and lets_continue


def apply_answer_to(invocation: Invocation, row: PendingRow, applied: AppliedAnswer) -> None:
    """Let an invocation continue with an answer."""
    last = row.rounds[-1]
    value = applied.answer.value
    given = None
    if applied.answer.approval is None and value is not None:
        waited_for = "result" if last.inner_call_id is not None else cast(WaitingFor, last.waiting_for)
        given = ReceivedAnswer(value, waited_for, row.provider_state, is_following=last.first_call_id is not None)
    claim = Claim(fence=applied.fence, answer=applied.round_answer)
    invocation.resume_with(claim, approval=applied.answer.approval, answer=given)


class OpenScope(Protocol):
    """Makes the scope of a stored call from its principal and folders. `Runtime.scope` does."""

    def __call__(self, **fields: Any) -> CallScope: ...


class RestoredCalls:
    """Rebuilds pending calls of this process or of another one."""

    def __init__(
        self,
        local: LocalPendingCalls,
        offered_tools: OfferedTools,
        named_scopes: NamedScopes[Any],
        open_scope: OpenScope,
    ) -> None:
        self._local = local
        self._named_scopes = named_scopes
        self._offered_tools = offered_tools
        self._open_scope = open_scope

    async def load_offered_tool(self, row: PendingRow) -> None:
        """Learn the tools that the session of a call offers in another process, if its tool is not known here."""
        call = row.call
        if call.session is not None and self.find_listing(row) is None:
            await self._offered_tools.load_session(Principal(user=call.user_id, session=call.session))

    def missing_agent(self, row: PendingRow) -> str | None:
        """The agent whose own tool a call is for, if this runtime does not have the agent."""
        return self._named_scopes.missing_agent(row.call)

    def find_listing(self, row: PendingRow) -> Listing | None:
        """Find the tool of a call in the call's own scope; None if that is the scope of an agent which is not here."""
        if row.call.call_id not in self._local.invocations and self.missing_agent(row):
            return None
        return self.restore_scope(row).find(row.call.tool)

    def restore_scope(self, row: PendingRow) -> CallScope:
        """The scope that the call was made in if this process made it, else one for the same principal."""
        call = row.call
        original = self._local.invocations.get(call.call_id)
        if original is not None:
            return original.scope
        context = json.loads(call.context)
        fields: dict[str, Any] = {name: context[name] for name in _CONTEXT_FIELDS if context.get(name) is not None}
        columns = {"user": call.user_id, "session": call.session, "agent": call.agent}
        fields.update({name: value for name, value in columns.items() if value is not None})
        scope: CallScope = self._named_scopes.rebuild(call, self._open_scope(**fields))
        return scope

    def restore_invocation(self, row: PendingRow) -> Invocation:
        """A new invocation of the call, with its stored arguments."""
        call = row.call
        context = json.loads(call.context)
        scope = self.restore_scope(row)
        is_known_here = call.call_id in self._local.invocations
        is_rebuilt = scope.scope_name is not None
        request = CallRequest(
            made_by="store",
            has_given_id=bool(context.get("given")),
            model_id=context.get("model_id"),
            parent=context.get("parent"),
            nesting_depth=int(context.get("depth", 0)),
            has_lost_scope=bool(context.get("own_scope")) and not (is_known_here or is_rebuilt),
        )
        invocation = Invocation(scope, call.tool, deserialize_arguments(call.arguments), request, call.call_id)
        invocation.set_message(SpaceMessage(call.posted))
        invocation.wait_again(row.rounds[-1].round)
        invocation.note_row(call)
        return invocation

    def restore_resumed_call(self, row: PendingRow, applied: AppliedAnswer) -> tuple[Invocation, NextStage]:
        """A new invocation of the call with the answer, and the stack to run it through.

        If the tool has changed since a person approved the call, the approval does not count, and the stack asks again.
        """
        invocation = self.restore_invocation(row)
        apply_answer_to(invocation, row, applied)
        call = row.call
        listing = self.find_listing(row)
        is_unchanged = listing is not None and listing.tool.is_bound_by(call.definition)
        if listing is None or not (is_unchanged or applied.continues):
            # A rejection or a result ends the call even if its tool has changed or is missing: use the original one.
            original = self._local.invocations.get(call.call_id)
            made_for = original.listing if original is not None else _absent_tool_listing(call.tool)
            return invocation, invocation.scope.stack_for_listing(made_for, invocation)
        if not is_unchanged and invocation.resumption.approval is not None:
            now = listing.tool.approval_binding
            invocation.refuse_approval(describe_tool_change(call.tool, call.definition, now))
        return invocation, invocation.scope.stack_for_call(invocation)


def _absent_tool_listing(name: str) -> Listing:
    """A listing for a tool that this process does not have: its calls can end, but not run."""
    absent = tool.external("absent", "A tool that is not here.", parameters={"type": "object"}, visible=False)
    return Listing(name, absent, None, "", name)
