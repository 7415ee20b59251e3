"""Stage `approve`: allow or deny a call, or ask a person, by policy and the tool's own `confirm`."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from surehand.core.approval_binding import describe_tool_change
from surehand.core.canonical_json import json_digest
from surehand.core.errors import InvalidArguments
from surehand.core.fast_copy import copy_if_possible
from surehand.core.invoke import failed_from_error
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.durability.store_journal import StoreJournal
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.invocation.foreign_code import ForeignCodeError, call_foreign
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.invocation.scope_key import scope_key
from surehand.runtime.pending.confirmation import Confirmation
from surehand.runtime.pipeline.pipeline import StackPlan
from surehand.runtime.policy import Rule, first_matching_rule
from surehand.runtime.runtime_store import RuntimeStore

log = logging.getLogger("surehand")


def approve(
    plan: StackPlan, proceed: NextStage, *, confirmation: Confirmation, store: RuntimeStore, journal: StoreJournal
) -> NextStage:
    """Left out if policy allows every call of the tool and the tool never asks for confirmation.

    A pending call keeps the stage whatever policy says by then: a rejection ends the call here.
    """
    tool = plan.listing.tool
    rules = plan.rules
    if not plan.is_recallable and tool.safety.confirm is False and all(rule.decision == "allow" for rule in rules):
        return proceed
    plan.may_suspend = True
    plan.can_fold_into_invoke = False
    return _ApproveStage(rules, confirmation, store, journal, proceed)


@dataclass(frozen=True, slots=True)
class _ApproveStage:
    """The stage for one listing."""

    rules: tuple[Rule, ...]
    confirmation: Confirmation
    store: RuntimeStore
    journal: StoreJournal
    proceed: NextStage

    async def __call__(self, invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        if _has_handler_run(invocation):  # no rule can undo what has happened
            return await self.proceed(invocation)
        rule = self._decide(invocation)
        if isinstance(rule, Failed):
            return rule
        if invocation.resumption.approval is not None:
            return await self._apply_decision(invocation, invocation.resumption.approval)
        if invocation.resumption.note:
            return await self._ask_person(invocation)
        # A call with an answer was allowed before it became pending.
        if invocation.resumption.answer is not None or not await self._must_ask(invocation, rule):
            return await self.proceed(invocation)
        return await self._ask_person(invocation)

    def _decide(self, invocation: Invocation) -> Rule | Failed:
        """The rule that lets the call run or asks a person; the failure if the policy denies the call."""
        name = invocation.listing.name
        try:
            rule: Rule = call_foreign(first_matching_rule, self.rules, invocation.effective_arguments())
        except ForeignCodeError as error:
            log.error("A policy rule raised for a call of %s; the call is denied", name, exc_info=error.original)
            return Failed("denied", f"a policy rule for {name} failed, so the call is not allowed.")
        return _denial(invocation, rule) if rule.decision == "deny" else rule

    async def _must_ask(self, invocation: Invocation, rule: Rule) -> bool:
        wanted = await self.confirmation.is_wanted(invocation)
        if wanted == "each time":  # a standing approval does not cover this call
            return True
        if rule.decision != "ask" and not wanted:
            return False
        return not await self._has_grant(invocation)

    async def _has_grant(self, invocation: Invocation) -> bool:
        """Whether the user has a standing approval for the tool as it is defined now."""
        tool = invocation.listing.tool
        for binding in (tool.approval_binding, tool.earlier_approval_binding):
            if await self.store.has_grant(invocation.principal, _grant_key(invocation, binding)):
                return True
        return False

    async def _ask_person(self, invocation: Invocation) -> Outcome:
        pending = await self.confirmation.build_question(invocation)
        if isinstance(pending, Failed):
            return pending
        decision = await self.confirmation.ask_approver(invocation, pending)
        if decision is None:
            return pending
        if self.journal.writer is not None:
            self.journal.writer.add_approver_answer(invocation, decision)
        change = _change_since_question(invocation)
        if decision.allow and change:
            return Failed("conflict", f"{change} The approval does not count: call it again.")
        return await self._apply_decision(invocation, decision)

    async def _apply_decision(self, invocation: Invocation, approval: Approval) -> Outcome:
        """Run the call if it was approved, else end it."""
        if not approval.allow:
            invocation.note_rejection(approval)
            return _rejection(approval)
        # With a stored approval, the call was restored with the edited arguments already.
        if approval.arguments is not None and approval is not invocation.resumption.approval:
            refusal = self._apply_edited_arguments(invocation, approval)
            if refusal is not None:
                return refusal
        if approval.always:
            await self._save_grant(invocation, approval)
        return await self.proceed(invocation)

    async def _save_grant(self, invocation: Invocation, approval: Approval) -> None:
        """Store a standing approval; that of a stored answer only if it has not been revoked since."""
        if invocation.request.has_lost_scope:
            log.warning("%s is approved for this call alone: its scope is not known here.", invocation.listing.name)
            return
        store = await self.store.open()
        stored_answer = None if invocation.resumption.approval is None else (invocation.id, invocation.resumption.round)
        principal = invocation.principal
        grant_key = _grant_key(invocation, invocation.listing.tool.approval_binding)
        await store.grants.give(principal.user, grant_key, approval.by, session=principal.session, answer=stored_answer)

    def _apply_edited_arguments(self, invocation: Invocation, approval: Approval) -> Failed | None:
        """Validate edited arguments and apply the policy to them; returns the failure, if any."""
        edited = copy_if_possible(approval.arguments)  # the approver may change its own later
        try:
            arguments = invocation.listing.tool.validate_arguments(edited)
        except InvalidArguments as error:
            return failed_from_error(error).evolve(executed=False)
        invocation.edit(edited, arguments)
        decided = self._decide(invocation)
        return decided if isinstance(decided, Failed) else None


def _change_since_question(invocation: Invocation) -> str:
    """What has changed about the tool while the runtime's approver decided; empty if nothing has."""
    asked_about = invocation.listing
    current = invocation.scope.find(asked_about.name)
    if current is None or current.tool.is_bound_by(asked_about.tool.approval_binding):
        return ""
    return describe_tool_change(asked_about.name, asked_about.tool.approval_binding, current.tool.approval_binding)


def _grant_key(invocation: Invocation, binding: str) -> str:
    """What a standing approval is stored for: with the name, because two providers may have equal definitions."""
    from_scope = scope_key(invocation)
    return f"{invocation.listing.name} {json_digest(binding, from_scope) if from_scope else binding}"


def _has_handler_run(invocation: Invocation) -> bool:
    """Whether the handler ran before the call became pending, and the answer is its result."""
    answer = invocation.resumption.answer
    has_result = answer is not None and answer.waited_for == "result"
    return has_result and invocation.listing.kind not in ("client", "external")


def _denial(invocation: Invocation, rule: Rule) -> Failed:
    reason = f": {rule.reason}" if rule.reason else ""
    return Failed("denied", f"{invocation.listing.name} is denied by policy{reason}. Do not try it again.")


def _rejection(approval: Approval) -> Failed:
    if approval.code != "rejected":
        return Failed(approval.code, approval.reason)
    reason = f": {approval.reason}" if approval.reason else ""
    return Failed("rejected", f"the call was rejected by the user{reason}. Do not repeat it unless asked to.")
