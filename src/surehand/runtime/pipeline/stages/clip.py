"""Stage `clip`: store an output that is too large for a model under a handle, and tell the model how to read it."""

from __future__ import annotations

from surehand.core.outcome import Done, Failed, Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.outputs import OversizedOutputs
from surehand.runtime.pipeline.pipeline import StackPlan, add_outcome_filter

_MAX_FIRST_LINE_LENGTH = 500
"""A longer first line of a failure is cut with the rest of it."""


def clip(plan: StackPlan, proceed: NextStage, *, outputs: OversizedOutputs, max_output: int) -> NextStage:
    """Replace the text and content of large outcomes; `data` stays complete."""
    name = plan.listing.name
    limit = plan.listing.tool.limits.max_bytes or max_output
    shows_excerpt = plan.listing.tool.limits.overflow == "excerpt"

    async def shorten(text: str, invocation: Invocation) -> str:
        stored = await outputs.store_text(text, invocation.principal, tool=name, reason="size_limit_exceeded")
        return stored.excerpt_message(text, limit) if shows_excerpt else stored.placeholder_message(text, limit)

    async def shorten_message(message: str, invocation: Invocation) -> str:
        """Keep the first line, which says what failed, above the excerpt of the output below it."""
        first_line, newline, output = message.partition("\n")
        if not shows_excerpt or not newline or len(first_line) > _MAX_FIRST_LINE_LENGTH:
            return await shorten(message, invocation)
        return f"{first_line}\n{await shorten(output, invocation)}"

    async def clip_outcome(invocation: Invocation, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Done) and outcome.text_size_bytes() > limit:
            return outcome.with_clipped_text(await shorten(outcome.text, invocation))
        if isinstance(outcome, Failed) and len(outcome.message) > limit:
            return outcome.evolve(message=await shorten_message(outcome.message, invocation))
        return outcome

    return add_outcome_filter(plan, proceed, clip_outcome)
