"""Approve: policy and the tool's own confirmation. Allow, deny, or ask a person."""

from __future__ import annotations

import inspect
import logging
from copy import deepcopy
from typing import Any

from toolwright.core.context import Context
from toolwright.core.errors import InvalidArguments
from toolwright.core.invoke import failed
from toolwright.core.outcome import Failed, Outcome, Pending
from toolwright.runtime.approval import Approval
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.pipeline import Plan, Proceed
from toolwright.runtime.plain import plain_arguments
from toolwright.runtime.policy import Rule, decide
from toolwright.runtime.waits import WaitingCall

log = logging.getLogger("toolwright")


def approve(plan: Plan, proceed: Proceed) -> Proceed:
    """Left out where policy allows every call of the tool and the tool asks for nothing itself.

    A call that waits keeps it, whatever policy says by then: a no has to end the call here.
    """
    listing, parts = plan.listing, plan.parts
    tool, rules = listing.tool, parts.policy.for_tool(listing)
    if not plan.recallable and tool.safety.confirm is False and all(rule.decision == "allow" for rule in rules):
        return proceed
    plan.suspends, plan.bare = True, False

    async def stage(invocation: Invocation) -> Outcome:
        invocation.suspend()
        try:
            rule = decide(rules, invocation.effective())
        except Exception:
            log.exception("A policy rule failed on %s", listing.name)
            return Failed("denied", f"a policy rule for {listing.name} failed, so the call is not allowed.")
        if rule.decision == "deny":
            return _denied(invocation, rule)
        if invocation.approval is not None:
            return await _approved(invocation, invocation.approval)
        # An answer is to a call that was allowed already: whether to ask about it is not asked again.
        if invocation.answer is not None or not await _asks(invocation, rule):
            return await proceed(invocation)
        invocation.arguments = deepcopy(invocation.arguments)  # what is shown now is what runs then
        pending = await _question(invocation)
        decision = await _from_approver(invocation, pending)
        return pending if decision is None else await _approved(invocation, decision)

    async def _asks(invocation: Invocation, rule: Rule) -> bool:
        if rule.decision != "ask" and not await _wants_confirmation(tool.safety.confirm, invocation):
            return False
        return not parts.grants.has(invocation.principal.user, _granted())

    def _granted() -> str:
        """Another provider may offer a tool with the very same definition: the name tells them apart."""
        return f"{listing.name} {tool.definition}"

    async def _approved(invocation: Invocation, approval: Approval) -> Outcome:
        if not approval.allow:
            return _rejected(approval)
        if approval.arguments is not None and not invocation.resumed:
            try:
                invocation.raw, invocation.arguments = approval.arguments, tool.check(approval.arguments)
            except InvalidArguments as error:
                return failed(error).evolve(executed=False)
            if (rule := decide(rules, invocation.effective())).decision == "deny":
                return _denied(invocation, rule)
        if approval.always:
            parts.grants.give(invocation.principal.user, _granted())
        return await proceed(invocation)

    async def _question(invocation: Invocation) -> Pending:
        message = await _told(tool.safety.confirm_message, invocation)
        preview = await _told(tool.safety.preview, invocation)
        request = {"schema": tool.schema, "preview": preview}
        return Pending("approval", message=str(message or f"Allow {listing.name} to execute?"), request=request)

    async def _from_approver(invocation: Invocation, pending: Pending) -> Approval | None:
        if parts.approver is None:
            return None
        now, who = parts.clock.time(), invocation.principal
        shown = WaitingCall(
            invocation.id, listing.name, plain_arguments(invocation), "approval", pending.message, pending.request,
            None, now, who.user, who.session,
        )  # fmt: skip
        try:
            return Approval.of(await parts.approver(shown))
        except Exception:
            log.exception("The approver failed on %s; the call waits for somebody else", listing.name)
            return None

    return stage


def _denied(invocation: Invocation, rule: Rule) -> Failed:
    why = f": {rule.reason}" if rule.reason else ""
    return Failed("denied", f"{invocation.listing.name} is denied by policy{why}. Do not try it again.")


def _rejected(approval: Approval) -> Failed:
    if approval.code != "rejected":
        return Failed(approval.code, approval.reason)
    why = f": {approval.reason}" if approval.reason else ""
    return Failed("rejected", f"the call was rejected by the user{why}. Do not repeat it unless asked to.")


async def _value(given: Any, invocation: Invocation) -> Any:
    """A value as it is, or what a sync or async function of arguments and context says."""
    if not callable(given):
        return given
    made = given(invocation.effective(), Context(invocation))
    return await made if inspect.isawaitable(made) else made


async def _wants_confirmation(given: Any, invocation: Invocation) -> bool:
    """A confirmation that fails has not said that nobody need be asked."""
    try:
        return bool(await _value(given, invocation))
    except Exception:
        log.exception("The confirmation of %s failed; a person is asked", invocation.listing.name)
        return True


async def _told(given: Any, invocation: Invocation) -> Any:
    """The same, but a failure here never blocks the question itself."""
    try:
        return await _value(given, invocation)
    except Exception:
        log.exception("The confirmation message or preview of %s failed", invocation.listing.name)
        return None
