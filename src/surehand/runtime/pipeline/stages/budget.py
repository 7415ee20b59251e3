"""Stage `budget`: limit the calls and tokens of a turn, over all its calls."""

from __future__ import annotations

from typing import Any

from surehand.core.outcome import Done, Failed, Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.outputs import READER_TOOL_NAME, OversizedOutputs, parse_placeholder
from surehand.runtime.pipeline.pipeline import StackPlan


def budget(plan: StackPlan, proceed: NextStage, *, outputs: OversizedOutputs) -> NextStage:
    """Refuse calls beyond the budget; store the output of a call that ran but does not fit."""
    if not plan.has_budget or plan.listing.kind == "internal":  # internal tools, such as tool_output, always run
        return proceed

    async def stage(invocation: Invocation) -> Outcome:
        turn = invocation.scope.budget
        if turn is None or invocation.is_resumed:  # a late result does not count against the turn that asked
            return await proceed(invocation)
        refusal = turn.admit()
        if refusal is not None:
            return refusal
        outcome = await proceed(invocation)
        if turn.reserve_tokens(outcome.text) or not isinstance(outcome, Done):
            return outcome
        stored = _stored_by_clip(outcome)
        if stored is None:
            principal = invocation.principal
            output = await outputs.store_text(outcome.text, principal, tool=plan.listing.name, reason="token_budget")
            stored = output.summary()
        return Failed(
            "over_budget",
            f"context window budget exceeded. {plan.listing.name} ran and must not be repeated; its output of "
            f"{stored['bytes']} bytes is kept. Read parts of it with "
            f"tool_output(handle={stored['handle']!r}, lines='1-40')",
            executed=True,
            data={READER_TOOL_NAME: stored},
        )

    return stage


def _stored_by_clip(outcome: Done) -> dict[str, Any] | None:
    """The summary of an output that `clip` has stored already, because it was too large; None if it has not."""
    summary = None if outcome.clipped_text is None else parse_placeholder(outcome.clipped_text)
    return summary and {name: value for name, value in summary.items() if name not in ("preview", "left_out")}
