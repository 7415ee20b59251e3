"""Active space: the calls of an agent are made in the space that it has entered."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from surehand.core.outcome import Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan


def active_space(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Left out until an agent enters a space. Outermost, so that events and records carry the space too."""
    services = plan.services
    visible_calls = services.visible_calls
    if not visible_calls.has_entered_space:
        return proceed

    def stage(invocation: Invocation) -> Coroutine[Any, Any, Outcome]:
        # A call that waited goes on in the space where it was posted, wherever its agent is by now.
        if invocation.is_resumed:
            return proceed(invocation)
        scope = visible_calls.scope_in_active_space(invocation.scope)
        if scope is invocation.scope:
            return proceed(invocation)
        invocation.scope = scope
        return services.stack_for_call(invocation)(invocation)

    async def stage_with_store(invocation: Invocation) -> Outcome:
        if not invocation.is_resumed:
            await visible_calls.load_active_space(invocation.scope)
        return await stage(invocation)

    return stage_with_store if services.is_durable and plan.has_session else stage
