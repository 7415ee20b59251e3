"""Publish: a visible call shows in the active space as one message, amended at each step."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from surehand.core.outcome import Failed, Outcome
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Plan, Proceed
from surehand.runtime.shown import status_of

log = logging.getLogger("surehand")


def publish(plan: Plan, proceed: Proceed) -> Proceed:
    """Left out where nobody keeps spaces, and for tools that are not visible."""
    spaces, name = plan.parts.shown.spaces, plan.listing.name
    if spaces is None or not plan.listing.tool.visible:
        return proceed
    if not plan.shown:
        return _nowhere(plan, proceed)
    plan.suspends, plan.bare = True, False
    from surehand.runtime.board import message_of  # loaded by those alone who have spaces

    async def stage(invocation: Invocation) -> Outcome:
        space = invocation.principal.space or ""
        invocation.suspend()
        if invocation.posted is None:
            invocation.posted = await post(invocation, space)
        elif invocation.answered is None:  # else it ends with the answer, and is shown with that
            await show(invocation, space, "running")
        try:
            outcome = await proceed(invocation)
        except BaseException:
            if not invocation.round or invocation.closed:  # else its caller has left, and it still waits
                await show(invocation, space, "error", Failed("cancelled", f"{name} was cancelled."))
            raise
        if not (invocation.lost or invocation.elsewhere):  # else another shows how it stands
            await show(invocation, space, status_of(outcome), outcome)
        return outcome

    async def post(invocation: Invocation, space: str) -> str | None:
        """Whether it can be shown decides nothing: the call runs."""
        try:
            return await spaces.post(space, message_of(invocation, "running"))
        except Exception as error:  # noqa: BLE001 - a host's spaces may raise anything
            log.warning("%s is shown nowhere: it could not be posted to space %r: %s", name, space, error)
            return None

    async def show(invocation: Invocation, space: str, status: str, outcome: Outcome | None = None) -> None:
        """What happened has happened, even where it cannot be shown."""
        if invocation.posted is None or invocation.shown == status:
            return
        invocation.shown = status
        try:
            await spaces.amend(space, invocation.posted, message_of(invocation, status, outcome))
        except Exception:
            log.exception("The message of %s could not be amended", name)

    return stage


def _nowhere(plan: Plan, proceed: Proceed) -> Proceed:
    """No space is active; worth a word where there are spaces at all."""
    shown, name = plan.parts.shown, plan.listing.name

    def stage(invocation: Invocation) -> Coroutine[Any, Any, Outcome]:
        if shown.in_use:
            log.warning("%s is visible, but no space is active: its result is shown nowhere.", name)
        return proceed(invocation)

    return stage
