"""Approve: policy and the tool's own confirmation. Allow, deny, or ask a person."""

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
    """Left out where policy allows every call of the tool and the tool asks for nothing itself.

    A call that waits keeps it, whatever policy says by then: a no has to end the call here.
    """
    tool, rules = plan.listing.tool, plan.services.policy.rules_for(plan.listing)
    if not plan.is_recallable and tool.safety.confirm is False and all(rule.decision == "allow" for rule in rules):
        return proceed
    plan.may_suspend, plan.can_fold_into_invoke = True, False
    # Another provider may offer a tool with the very same definition: the name tells them apart.
    return _ApproveStage(rules, plan.services, f"{plan.listing.name} {tool.definition_digest}", proceed)


@dataclass(frozen=True, slots=True)
class _ApproveStage:
    """The stage for one listing."""

    rules: tuple[Rule, ...]
    services: RuntimeServices
    grant_key: str
    """What a standing approval is given for."""
    proceed: Proceed

    async def __call__(self, invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        if _has_handler_run(invocation):  # no rule can undo it: what came of it is what is told
            return await self.proceed(invocation)
        try:
            rule = first_matching_rule(self.rules, invocation.effective_arguments())
        except Exception:
            log.exception("A policy rule failed on %s", invocation.listing.name)
            return Failed("denied", f"a policy rule for {invocation.listing.name} failed, so the call is not allowed.")
        if rule.decision == "deny":
            return _denial(invocation, rule)
        if invocation.approval is not None:
            return await self._apply_decision(invocation, invocation.approval)
        # An answer is to a call that was allowed already: whether to ask about it is not asked again.
        if invocation.answer_value is not None or not await self._must_ask(invocation, rule):
            return await self.proceed(invocation)
        return await self._ask_person(invocation)

    async def _must_ask(self, invocation: Invocation, rule: Rule) -> bool:
        wanted = await wants_confirmation(invocation)
        if wanted == "each time":  # a standing approval was given for other calls than this one
            return True
        if rule.decision != "ask" and not wanted:
            return False
        return not await self.services.has_grant(invocation.principal.user, self.grant_key)

    async def _ask_person(self, invocation: Invocation) -> Outcome:
        invocation.arguments = fast_deepcopy(invocation.arguments)  # what is shown now is what runs then
        pending = await build_question(invocation)
        decision = await ask_approver(invocation, pending)
        return pending if decision is None else await self._apply_decision(invocation, decision)

    async def _apply_decision(self, invocation: Invocation, approval: Approval) -> Outcome:
        if not approval.allow:
            return _rejection(approval)
        edited = approval.arguments is not None and not invocation.is_resumed
        if edited and (refusal := self._apply_edited_arguments(invocation, approval)) is not None:
            return refusal
        if approval.always:
            await self._save_grant(invocation, approval)
        return await self.proceed(invocation)

    async def _save_grant(self, invocation: Invocation, approval: Approval) -> None:
        """Of an answer that was waited for, what is written counts: it may have been revoked since."""
        store = await self.services.open_store()
        written = None if invocation.approval is None else (invocation.id, invocation.round)
        await store.grants.give(invocation.principal.user, self.grant_key, approval.by, answer=written)

    def _apply_edited_arguments(self, invocation: Invocation, approval: Approval) -> Failed | None:
        """Edited arguments are checked and judged like any others."""
        try:
            arguments = invocation.listing.tool.validate_arguments(approval.arguments)
        except InvalidArguments as error:
            return failed_from_error(error).evolve(executed=False)
        invocation.raw_arguments, invocation.arguments = approval.arguments, arguments
        rule = first_matching_rule(self.rules, invocation.effective_arguments())
        return _denial(invocation, rule) if rule.decision == "deny" else None


def _has_handler_run(invocation: Invocation) -> bool:
    """Whether its handler ran before, and somebody now says what came of it."""
    told = invocation.answer_value is not None and invocation.waited_for == "result"
    return told and invocation.listing.kind not in ("client", "external")


def _denial(invocation: Invocation, rule: Rule) -> Failed:
    why = f": {rule.reason}" if rule.reason else ""
    return Failed("denied", f"{invocation.listing.name} is denied by policy{why}. Do not try it again.")


def _rejection(approval: Approval) -> Failed:
    if approval.code != "rejected":
        return Failed(approval.code, approval.reason)
    why = f": {approval.reason}" if approval.reason else ""
    return Failed("rejected", f"the call was rejected by the user{why}. Do not repeat it unless asked to.")
