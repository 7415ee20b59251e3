"""Active space: the calls of an agent are made in the space that it has entered."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from surehand.core.outcome import Outcome
from surehand.runtime.active_spaces import ActiveSpaces
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.pipeline import StackPlan


def active_space(plan: StackPlan, proceed: NextStage, *, active_spaces: ActiveSpaces) -> NextStage:
    """Left out until an agent enters a space. Outermost, so that events and records carry the space too."""
    if not active_spaces.has_entered_space:
        return proceed

    def stage(invocation: Invocation) -> Coroutine[Any, Any, Outcome]:
        # A call that waited goes on in the space where it was posted, wherever its agent is by now.
        if invocation.is_resumed:
            return proceed(invocation)
        scope = active_spaces.scope_in_active_space(invocation.scope)
        if scope is invocation.scope:
            return proceed(invocation)
        invocation.scope = scope
        return scope.stack_for_call(invocation)(invocation)

    async def stage_with_store(invocation: Invocation) -> Outcome:
        if not invocation.is_resumed:
            await active_spaces.load(invocation.scope)
        return await stage(invocation)

    return stage_with_store if active_spaces.is_stored and plan.has_session else stage
