"""Clip: what is too large for a model is kept under a handle, and the model is told how to read it."""

from __future__ import annotations

from surehand.core.outcome import Done, Failed, Outcome
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed, on_the_way_out


def clip(plan: Plan, proceed: Proceed) -> Proceed:
    """Text and content change; the data stays whole."""
    outputs, limit = plan.parts.outputs, size_limit(plan)

    async def way_out(invocation: Invocation, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Done) and outcome.size() > limit:
            text = outcome.text
            kept = await outputs.keep(text, invocation, reason="size_limit_exceeded")
            return outcome.clipped(kept.message(text, limit))
        if isinstance(outcome, Failed) and len(outcome.message) > limit:
            kept = await outputs.keep(outcome.message, invocation, reason="size_limit_exceeded")
            return outcome.evolve(message=kept.message(outcome.message, limit))
        return outcome

    return on_the_way_out(plan, proceed, way_out)


def size_limit(plan: Plan) -> int:
    """Bytes of text that a model may be shown."""
    return plan.listing.tool.limits.max_bytes or plan.parts.defaults.max_output
