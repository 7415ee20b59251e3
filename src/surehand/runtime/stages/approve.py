"""Approve: policy and the tool's own confirmation. Allow, deny, or ask a person."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surehand.core.copied import copied
from surehand.core.errors import InvalidArguments
from surehand.core.invoke import failed
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.approval import Approval
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed
from surehand.runtime.policy import Rule, decide
from surehand.runtime.question import from_approver, question, wants_confirmation

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts

log = logging.getLogger("surehand")


def approve(plan: Plan, proceed: Proceed) -> Proceed:
    """Left out where policy allows every call of the tool and the tool asks for nothing itself.

    A call that waits keeps it, whatever policy says by then: a no has to end the call here.
    """
    tool, rules = plan.listing.tool, plan.parts.policy.for_tool(plan.listing)
    if not plan.recallable and tool.safety.confirm is False and all(rule.decision == "allow" for rule in rules):
        return proceed
    plan.suspends, plan.bare = True, False
    # Another provider may offer a tool with the very same definition: the name tells them apart.
    return _Approve(rules, plan.parts, f"{plan.listing.name} {tool.definition}", proceed)


@dataclass(frozen=True, slots=True)
class _Approve:
    """The stage for one listing."""

    rules: tuple[Rule, ...]
    parts: Parts
    granted: str
    """What a standing approval is given for."""
    proceed: Proceed

    async def __call__(self, invocation: Invocation) -> Outcome:
        invocation.suspend()
        if _has_run(invocation):  # no rule can undo it: what came of it is what is told
            return await self.proceed(invocation)
        try:
            rule = decide(self.rules, invocation.effective())
        except Exception:
            log.exception("A policy rule failed on %s", invocation.listing.name)
            return Failed("denied", f"a policy rule for {invocation.listing.name} failed, so the call is not allowed.")
        if rule.decision == "deny":
            return _denied(invocation, rule)
        if invocation.approval is not None:
            return await self._go_on(invocation, invocation.approval)
        # An answer is to a call that was allowed already: whether to ask about it is not asked again.
        if invocation.answer is not None or not await self._asks(invocation, rule):
            return await self.proceed(invocation)
        return await self._ask(invocation)

    async def _asks(self, invocation: Invocation, rule: Rule) -> bool:
        wanted = await wants_confirmation(invocation)
        if wanted == "each time":  # a standing approval was given for other calls than this one
            return True
        if rule.decision != "ask" and not wanted:
            return False
        return not await self.parts.granted(invocation.principal.user, self.granted)

    async def _ask(self, invocation: Invocation) -> Outcome:
        invocation.arguments = copied(invocation.arguments)  # what is shown now is what runs then
        pending = await question(invocation)
        decision = await from_approver(invocation, pending)
        return pending if decision is None else await self._go_on(invocation, decision)

    async def _go_on(self, invocation: Invocation, approval: Approval) -> Outcome:
        if not approval.allow:
            return _rejected(approval)
        edited = approval.arguments is not None and not invocation.resumed
        if edited and (refusal := self._edit(invocation, approval)) is not None:
            return refusal
        if approval.always:
            await self._grant(invocation, approval)
        return await self.proceed(invocation)

    async def _grant(self, invocation: Invocation, approval: Approval) -> None:
        """Of an answer that was waited for, what is written counts: it may have been revoked since."""
        store = await self.parts.remembered()
        written = None if invocation.approval is None else (invocation.id, invocation.round)
        await store.grants.give(invocation.principal.user, self.granted, approval.by, answer=written)

    def _edit(self, invocation: Invocation, approval: Approval) -> Failed | None:
        """Edited arguments are checked and judged like any others."""
        try:
            arguments = invocation.listing.tool.check(approval.arguments)
        except InvalidArguments as error:
            return failed(error).evolve(executed=False)
        invocation.raw, invocation.arguments = approval.arguments, arguments
        rule = decide(self.rules, invocation.effective())
        return _denied(invocation, rule) if rule.decision == "deny" else None


def _has_run(invocation: Invocation) -> bool:
    """Whether its handler ran before, and somebody now says what came of it."""
    told = invocation.answer is not None and invocation.waited_for == "result"
    return told and invocation.listing.kind not in ("client", "external")


def _denied(invocation: Invocation, rule: Rule) -> Failed:
    why = f": {rule.reason}" if rule.reason else ""
    return Failed("denied", f"{invocation.listing.name} is denied by policy{why}. Do not try it again.")


def _rejected(approval: Approval) -> Failed:
    if approval.code != "rejected":
        return Failed(approval.code, approval.reason)
    why = f": {approval.reason}" if approval.reason else ""
    return Failed("rejected", f"the call was rejected by the user{why}. Do not repeat it unless asked to.")
