"""Invoke: the tool's own handler, or its provider. The only place where foreign code runs."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

from surehand.core.context import Context, Running
from surehand.core.errors import Unavailable
from surehand.core.handler import Start
from surehand.core.invoke import invoker, outcome_of
from surehand.core.outcome import Done, Failed, Outcome
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed
from surehand.runtime.stages.clip import size_limit


def invoke(plan: Plan, proceed: Proceed) -> Proceed:
    """Errors become outcomes here; a call that waited goes on with its answer."""
    listing, parts = plan.listing, plan.parts
    start = _start(plan)
    ways_out, short = plan.ways_out, size_limit(plan) // 4  # so few characters fit whatever they are
    run = invoker(listing.name, start, redact=parts.redact, details=parts.crash_details, short=short, ways_out=ways_out)
    # A provider's call may wait for input while its caller waits too; it goes on then, and does not begin again.
    if listing.kind not in ("client", "external") and listing.provider is None and not plan.recallable:
        return cast(Proceed, run)

    resume = invoker(
        listing.name, _resume, redact=parts.redact, details=parts.crash_details, short=short, ways_out=ways_out
    )

    plain_wait = listing.kind in ("client", "external")

    async def stage(invocation: Invocation) -> Outcome:
        if (answer := invocation.answer) is None:
            return await run(invocation)
        if isinstance(answer, Done) and invocation.waited_for == "input" and listing.provider is not None:
            return await resume(invocation)
        # Where there is a handler, it has run: it asked for the answer.
        ran = answer.evolve(executed=True) if isinstance(answer, Failed) and not plain_wait else answer
        outcome = outcome_of(listing.name, ran) if isinstance(ran, Done) else ran
        for way_out in ways_out:
            outcome = await way_out(invocation, outcome)
        return outcome

    return stage


def _start(plan: Plan) -> Start:
    tool, provider = plan.listing.tool, plan.listing.provider
    start = tool.compile()
    if start is not None:
        return start
    if provider is not None:
        own_name = tool.name
        return lambda running: provider.invoke(cast(Invocation, running).call_of(own_name), Context(running))
    return _hosted


async def _hosted(running: Running) -> Any:
    raise Unavailable(f"{running.tool_name} is run by the model's own provider and cannot be called here.")


def _resume(running: Running) -> Awaitable[Any]:
    invocation = cast(Invocation, running)
    provider, answer = invocation.listing.provider, invocation.answer
    assert provider is not None
    assert isinstance(answer, Done)
    invocation.answer = None
    call = invocation.call_of(invocation.listing.tool.name)
    return provider.go_on(call, invocation.state_note, answer.data, Context(running))
