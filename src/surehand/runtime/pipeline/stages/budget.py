"""Budget: what a turn may spend in calls and tokens, shared by all the calls of the turn."""

from __future__ import annotations

from surehand.core.outcome import Done, Failed, Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan


def budget(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Refuse what the turn can no longer afford; keep what ran but does not fit."""
    if not plan.has_budget or plan.listing.kind == "internal":  # those help to get out of trouble, and always may
        return proceed
    outputs = plan.services.outputs

    async def stage(invocation: Invocation) -> Outcome:
        turn = invocation.scope.budget
        if turn is None or invocation.is_resumed:  # an answer that comes later is no expense of the turn that asked
            return await proceed(invocation)
        if refusal := turn.admit():
            return refusal
        outcome = await proceed(invocation)
        if turn.reserve_tokens(outcome.text) or not isinstance(outcome, Done):
            return outcome
        kept = await outputs.store_text(outcome.text, invocation, reason="token_budget")
        return Failed(
            "over_budget",
            f"context window budget exceeded. {plan.listing.name} ran and must not be repeated; its output of "
            f"{kept.byte_count} bytes is kept. Read parts of it with tool_output(handle={kept.handle!r}, lines='1-40')",
            executed=True,
            data={"tool_output": kept.summary()},
        )

    return stage
