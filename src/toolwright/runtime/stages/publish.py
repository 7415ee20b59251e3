"""Publish: a visible call shows in the active space as one message, amended at each step."""

from __future__ import annotations

import logging
from typing import Any

from toolwright.core.outcome import Failed, Outcome, Pending
from toolwright.runtime.invocation import Invocation
from toolwright.runtime.pipeline import Plan, Proceed
from toolwright.runtime.plain import plain_arguments

log = logging.getLogger("toolwright")


def publish(plan: Plan, proceed: Proceed) -> Proceed:
    """Left out where nobody keeps spaces, and for tools that are not visible."""
    spaces, name = plan.parts.spaces, plan.listing.name
    if spaces is None or not plan.listing.tool.visible:
        return proceed
    plan.suspends, plan.bare = True, False

    async def stage(invocation: Invocation) -> Outcome:
        space = invocation.principal.space
        if space is None:
            log.warning("%s is visible, but no space is active: its result is shown nowhere.", name)
            return await proceed(invocation)
        invocation.suspend()
        posted = invocation.posted
        if posted is None:
            posted = invocation.posted = await spaces.post(space, _message(invocation, "running"))
        else:
            await _amend(space, posted, _message(invocation, "running"))
        try:
            outcome = await proceed(invocation)
        except BaseException:
            await _amend(space, posted, _message(invocation, "error", "cancelled"))
            raise
        await _amend(space, posted, _message(invocation, _status(outcome), outcome.text))
        return outcome

    async def _amend(space: str, posted: str, message: dict[str, Any]) -> None:
        """What happened has happened, even where it cannot be shown."""
        try:
            await spaces.amend(space, posted, message)
        except Exception:
            log.exception("The message of %s could not be amended", name)

    return stage


def _status(outcome: Outcome) -> str:
    if isinstance(outcome, Pending):
        return "requires_action"
    return "error" if isinstance(outcome, Failed) else "complete"


def _message(invocation: Invocation, status: str, result: Any = None) -> dict[str, Any]:
    return {
        "type": "tool_call",
        "toolName": invocation.listing.name,
        "args": plain_arguments(invocation),
        "result": result,
        "status": status,
        "toolCallId": invocation.id,
        "runId": invocation.principal.turn,
        "display": dict(invocation.listing.tool.face.display),
    }
