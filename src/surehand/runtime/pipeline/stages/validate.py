"""Stage `validate`: validate the arguments against the tool's schema, before any person is asked about the call."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from surehand.core.errors import InvalidArguments
from surehand.core.fast_copy import copy_if_possible
from surehand.core.invoke import failed_from_error
from surehand.core.outcome import Failed, Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.pipeline import StackPlan
from surehand.runtime.pipeline.stages.repair import repair_arguments


def validate(plan: StackPlan, proceed: NextStage, *, max_input: int) -> NextStage:
    """Parse and validate in one step; `repair` is tried only when that fails."""
    tool = plan.listing.tool
    validate_json = tool.parameters.validate_json
    validate_arguments = tool.validate_arguments
    limit = max_input
    # Without a stage that may wait, nothing else runs between validation and the handler: no copy is needed.
    needs_copy = plan.may_suspend

    # Not `async def`: it awaits nothing itself, and returns the coroutine of the rest of the stack.
    def stage(invocation: Invocation) -> Coroutine[Any, Any, Outcome]:
        raw = invocation.raw_arguments
        try:
            if type(raw) is str and raw and len(raw) <= limit:
                invocation.arguments = validate_json(raw)
            elif isinstance(raw, (str, bytes)) and len(raw) > limit:
                return _return_outcome(
                    Failed("too_large", f"{len(raw)} characters of arguments, at most {limit}. Send less.")
                )
            else:
                if needs_copy and isinstance(raw, Mapping):
                    # The caller may change nested values while the call waits: what is judged here is what runs.
                    raw = copy_if_possible(raw if type(raw) is dict else dict(raw))
                    invocation.raw_arguments = raw
                invocation.arguments = validate_arguments(raw)
        except InvalidArguments as error:
            try:
                invocation.repair(repair_arguments(tool, raw, error))
            except InvalidArguments as refusal:
                return _return_outcome(failed_from_error(refusal).evolve(executed=False))
        return proceed(invocation)

    return stage


async def _return_outcome(outcome: Outcome) -> Outcome:
    return outcome
