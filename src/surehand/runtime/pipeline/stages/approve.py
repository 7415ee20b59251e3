"""Stage `approve`: allow or deny a call, or ask a person, by policy and the tool's own `confirm`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surehand.core.errors import InvalidArguments
from surehand.core.fast_copy import fast_deepcopy
from surehand.core.invoke import failed_from_error
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.pending.approval import Approval
from surehand.runtime.pending.confirmation import ask_approver, build_question, wants_confirmation
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan
from surehand.runtime.policy import Rule, first_matching_rule

if TYPE_CHECKING:
    from surehand.runtime.services import RuntimeServices

log = logging.getLogger("surehand")


def approve(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Left out if policy allows every call of the tool and the tool never asks for confirmation.

    A pending call keeps the stage whatever policy says by then: a rejection ends the call here.
    """
    tool = plan.listing.tool
    rules = plan.services.policy.rules_for(plan.listing)
    if not plan.is_recallable and tool.safety.confirm is False and all(rule.decision == "allow" for rule in rules):
        return proceed
    plan.may_suspend = True
    plan.can_fold_into_invoke = False
    # With the name, because another provider may offer a tool with the same definition.
    return _ApproveStage(rules, plan.services, f"{plan.listing.name} {tool.definition_digest}", proceed)


@dataclass(frozen=True, slots=True)
class _ApproveStage:
    """The stage for one listing."""

    rules: tuple[Rule, ...]
    services: RuntimeServices
    grant_key: str
    """The tool name and definition that a standing approval is stored for."""
    proceed: Proceed

    async def __call__(self, invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        if _has_handler_run(invocation):  # no rule can undo what has happened
            return await self.proceed(invocation)
        try:
            rule = first_matching_rule(self.rules, invocation.effective_arguments())
        except Exception:
            log.exception("A policy rule raised for a call of %s; the call is denied", invocation.listing.name)
            return Failed("denied", f"a policy rule for {invocation.listing.name} failed, so the call is not allowed.")
        if rule.decision == "deny":
            return _denial(invocation, rule)
        if invocation.approval is not None:
            return await self._apply_decision(invocation, invocation.approval)
        # A call with an answer was allowed before it became pending.
        if invocation.answer_value is not None or not await self._must_ask(invocation, rule):
            return await self.proceed(invocation)
        return await self._ask_person(invocation)

    async def _must_ask(self, invocation: Invocation, rule: Rule) -> bool:
        wanted = await wants_confirmation(invocation)
        if wanted == "each time":  # a standing approval does not cover this call
            return True
        if rule.decision != "ask" and not wanted:
            return False
        return not await self.services.has_grant(invocation.principal.user, self.grant_key)

    async def _ask_person(self, invocation: Invocation) -> Outcome:
        invocation.arguments = fast_deepcopy(
            invocation.arguments
        )  # the handler must run with what the person was shown
        pending = await build_question(invocation)
        decision = await ask_approver(invocation, pending)
        if decision is None:
            return pending
        if self.services.journal_writer is not None:
            self.services.journal_writer.add_approver_answer(invocation, decision)
        return await self._apply_decision(invocation, decision)

    async def _apply_decision(self, invocation: Invocation, approval: Approval) -> Outcome:
        """Run the call if it was approved, else end it."""
        if not approval.allow:
            invocation.refused_by = approval.by
            return _rejection(approval)
        # A resumed call was restored with the edited arguments already.
        if approval.arguments is not None and not invocation.is_resumed:
            refusal = self._apply_edited_arguments(invocation, approval)
            if refusal is not None:
                return refusal
        if approval.always:
            await self._save_grant(invocation, approval)
        return await self.proceed(invocation)

    async def _save_grant(self, invocation: Invocation, approval: Approval) -> None:
        """Store a standing approval; that of a stored answer only if it has not been revoked since."""
        store = await self.services.open_store()
        stored_answer = None if invocation.approval is None else (invocation.id, invocation.round)
        await store.grants.give(invocation.principal.user, self.grant_key, approval.by, answer=stored_answer)

    def _apply_edited_arguments(self, invocation: Invocation, approval: Approval) -> Failed | None:
        """Validate edited arguments and apply the policy to them; returns the failure, if any."""
        try:
            arguments = invocation.listing.tool.validate_arguments(approval.arguments)
        except InvalidArguments as error:
            return failed_from_error(error).evolve(executed=False)
        invocation.raw_arguments = approval.arguments
        invocation.arguments = arguments
        rule = first_matching_rule(self.rules, invocation.effective_arguments())
        return _denial(invocation, rule) if rule.decision == "deny" else None


def _has_handler_run(invocation: Invocation) -> bool:
    """Whether the handler ran before the call became pending, and the answer is its result."""
    has_result = invocation.answer_value is not None and invocation.waited_for == "result"
    return has_result and invocation.listing.kind not in ("client", "external")


def _denial(invocation: Invocation, rule: Rule) -> Failed:
    reason = f": {rule.reason}" if rule.reason else ""
    return Failed("denied", f"{invocation.listing.name} is denied by policy{reason}. Do not try it again.")


def _rejection(approval: Approval) -> Failed:
    if approval.code != "rejected":
        return Failed(approval.code, approval.reason)
    reason = f": {approval.reason}" if approval.reason else ""
    return Failed("rejected", f"the call was rejected by the user{reason}. Do not repeat it unless asked to.")
