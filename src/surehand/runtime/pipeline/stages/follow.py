"""Stage `follow`: a call that repeats one of its session which still waits follows that one instead of asking again."""

from __future__ import annotations

from surehand.core.client import ClientHandler
from surehand.core.outcome import Outcome
from surehand.runtime.durability.repeated_calls import RepeatedCalls
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.pipeline import StackPlan
from surehand.runtime.pipeline.stages.intent import needs_claim
from surehand.runtime.runtime_store import RuntimeStore


def follow(plan: StackPlan, proceed: NextStage, *, repeated_calls: RepeatedCalls, store: RuntimeStore) -> NextStage:
    """Outside `approve`: no one is asked twice. Left out without a session, and if nothing can wait.

    A call that never asks and that `intent` claims in a configured store is recognised there, with the claim, unless
    its id was given.
    """
    has_open_store = store.is_durable or store.current is not None
    if not plan.has_session or not has_open_store or not _may_be_repetition(plan, is_durable=store.is_durable):
        return proceed
    plan.may_suspend = True
    plan.can_fold_into_invoke = False
    name = plan.listing.name
    handler = plan.listing.tool.handler

    async def stage(invocation: Invocation) -> Outcome:
        first = await repeated_calls.find_first(invocation)
        if first is None:
            return await proceed(invocation)
        reply_timeout = handler.reply_timeout(invocation.arguments) if isinstance(handler, ClientHandler) else None
        return first.to_pending(name, reply_timeout=reply_timeout)

    return stage


def _may_be_repetition(plan: StackPlan, *, is_durable: bool) -> bool:
    """Whether an equal call may be waiting, or its effect be unknown, when a call of this tool is made."""
    tool = plan.listing.tool
    if isinstance(tool.handler, ClientHandler):
        return tool.handler.waits
    may_ask = tool.safety.confirm is not False or any(rule.decision == "ask" for rule in plan.rules)
    if may_ask or (plan.listing.provider is not None and tool.repeatable):
        return True
    # The claim of a call with a given id does not compare it.
    return not tool.repeatable and (plan.is_recallable or not needs_claim(plan, is_durable=is_durable))
