"""Stage `invoke`: run the tool's handler or its provider. The only place where foreign code runs."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

from surehand.core.context import CURRENT_CALL, Context, RunningCall
from surehand.core.errors import Unavailable
from surehand.core.handler import StartHandler
from surehand.core.invoke import Invoker, build_invoker, outcome_from_value, with_block_content
from surehand.core.outcome import Done, Outcome
from surehand.runtime.crash_report import CrashReport
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.pipeline import StackPlan


def invoke(plan: StackPlan, proceed: NextStage, *, crash_report: CrashReport, max_output: int) -> NextStage:
    """Turn results and errors into outcomes; a resumed call continues with its answer."""
    listing = plan.listing
    start = _build_start(plan)
    outcome_filters = plan.outcome_filters
    max_bytes = listing.tool.limits.max_bytes or max_output
    # A character has at most four bytes: a text of so many characters always fits.
    max_plain_chars = max_bytes // 4
    run = build_invoker(
        listing.name,
        start,
        redact=crash_report.redact_secrets,
        crash_details=crash_report.shows_details,
        max_plain_chars=max_plain_chars,
        outcome_filters=outcome_filters,
    )
    handler = listing.tool.handler
    if handler is not None and handler.may_read_current_call:
        run = _with_current_call(run, has_own_task=handler.can_suspend)
    # A provider's call may become pending while its caller waits: it is then resumed, not started again.
    if listing.kind not in ("client", "external") and listing.provider is None and not plan.is_recallable:
        return cast(NextStage, run)

    resume = build_invoker(
        listing.name,
        _resume_provider,
        redact=crash_report.redact_secrets,
        crash_details=crash_report.shows_details,
        max_plain_chars=max_plain_chars,
        outcome_filters=outcome_filters,
    )

    has_no_handler = listing.kind in ("client", "external")

    async def stage(invocation: Invocation) -> Outcome:
        answer = invocation.resumption.answer
        if answer is None:
            return await run(invocation)
        value = answer.value
        if isinstance(value, Done) and answer.waited_for == "input" and listing.provider is not None:
            return await resume(invocation)
        outcome: Outcome
        if isinstance(value, Done):
            outcome = outcome_from_value(listing.name, with_block_content(value))
        else:
            # A handler has run before it asked for the answer.
            has_not_run = has_no_handler or answer.is_following
            outcome = value if has_not_run else value.evolve(executed=True)
        for outcome_filter in outcome_filters:
            outcome = await outcome_filter(invocation, outcome)
        return outcome

    return stage


def _with_current_call(run: Invoker, *, has_own_task: bool) -> Invoker:
    """Make the call the one that `Context.get` finds while its handler runs.

    A handler that may suspend runs in a task of its own, whose context ends with it; for others the variable is reset.
    """

    def start_in_own_task(running_call: RunningCall) -> Awaitable[Outcome]:
        CURRENT_CALL.set(running_call)
        return run(running_call)

    async def run_with_context(running_call: RunningCall) -> Outcome:
        token = CURRENT_CALL.set(running_call)
        try:
            return await run(running_call)
        finally:
            CURRENT_CALL.reset(token)

    return start_in_own_task if has_own_task else run_with_context


def _build_start(plan: StackPlan) -> StartHandler:
    """The function that starts the handler or the provider's call."""
    tool = plan.listing.tool
    provider = plan.listing.provider
    start = tool.compile()
    if start is not None:
        return start
    if provider is not None:
        provider_name = tool.provider_name
        return lambda call: provider.invoke(cast(Invocation, call).call_as(provider_name), Context(call))
    return _refuse_hosted


async def _refuse_hosted(running_call: RunningCall) -> Any:
    raise Unavailable(f"{running_call.tool_name} is run by the model's own provider and cannot be called here.")


def _resume_provider(running_call: RunningCall) -> Awaitable[Any]:
    invocation = cast(Invocation, running_call)
    resumable = invocation.listing.abilities.resumable
    answer = invocation.take_answer()
    assert answer is not None
    assert isinstance(answer.value, Done)
    if resumable is None:
        return _return_answer(answer.value)
    call = invocation.call_as(invocation.listing.tool.provider_name)
    return resumable.resume(call, answer.provider_state, answer.value.data, Context(running_call))


async def _return_answer(answer: Done) -> Any:
    """The result of a call whose provider does nothing with the answer."""
    return answer.data
