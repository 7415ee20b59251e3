"""Invoke: the tool's own handler, or its provider. The only place where foreign code runs."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

from surehand.core.context import Context, RunningCall
from surehand.core.errors import Unavailable
from surehand.core.handler import StartHandler
from surehand.core.invoke import build_invoker, outcome_from_value
from surehand.core.outcome import Done, Failed, Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan
from surehand.runtime.pipeline.stages.clip import max_output_bytes


def invoke(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Errors become outcomes here; a call that waited goes on with its answer."""
    listing, parts = plan.listing, plan.services
    start = _build_start(plan)
    ways_out, short = plan.outcome_filters, max_output_bytes(plan) // 4  # so few characters fit whatever they are
    run = build_invoker(
        listing.name,
        start,
        redact=parts.redact,
        crash_details=parts.crash_details,
        max_plain_chars=short,
        outcome_filters=ways_out,
    )
    # A provider's call may wait for input while its caller waits too; it goes on then, and does not begin again.
    if listing.kind not in ("client", "external") and listing.provider is None and not plan.is_recallable:
        return cast(Proceed, run)

    resume = build_invoker(
        listing.name,
        _resume_provider,
        redact=parts.redact,
        crash_details=parts.crash_details,
        max_plain_chars=short,
        outcome_filters=ways_out,
    )

    plain_wait = listing.kind in ("client", "external")

    async def stage(invocation: Invocation) -> Outcome:
        if (answer := invocation.answer_value) is None:
            return await run(invocation)
        if isinstance(answer, Done) and invocation.waited_for == "input" and listing.provider is not None:
            return await resume(invocation)
        # Where there is a handler, it has run: it asked for the answer.
        ran = answer.evolve(executed=True) if isinstance(answer, Failed) and not plain_wait else answer
        outcome = outcome_from_value(listing.name, ran) if isinstance(ran, Done) else ran
        for way_out in ways_out:
            outcome = await way_out(invocation, outcome)
        return outcome

    return stage


def _build_start(plan: StackPlan) -> StartHandler:
    tool, provider = plan.listing.tool, plan.listing.provider
    start = tool.compile()
    if start is not None:
        return start
    if provider is not None:
        own_name = tool.name
        return lambda running: provider.invoke(cast(Invocation, running).call_as(own_name), Context(running))
    return _refuse_hosted


async def _refuse_hosted(running_call: RunningCall) -> Any:
    raise Unavailable(f"{running_call.tool_name} is run by the model's own provider and cannot be called here.")


def _resume_provider(running_call: RunningCall) -> Awaitable[Any]:
    invocation = cast(Invocation, running_call)
    provider, answer = invocation.listing.provider, invocation.answer_value
    assert provider is not None
    assert isinstance(answer, Done)
    invocation.answer_value = None
    call = invocation.call_as(invocation.listing.tool.name)
    return provider.resume_with_context(call, invocation.provider_state, answer.data, Context(running_call))
