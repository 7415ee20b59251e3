"""Publish: a visible call shows in the active space as one message, amended at each step."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from surehand.core.outcome import Failed, Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed, StackPlan
from surehand.runtime.visible_calls import to_message_status

log = logging.getLogger("surehand")


def publish(plan: StackPlan, proceed: Proceed) -> Proceed:
    """Left out where nobody keeps spaces, and for tools that are not visible."""
    spaces, name = plan.services.visible_calls.spaces, plan.listing.name
    if not plan.listing.tool.visible:
        return proceed
    if not plan.has_space and plan.services.visible_calls.on_no_space == "error":
        return _refuse_without_space(plan, proceed)
    if spaces is None:
        return proceed
    if not plan.has_space:
        return _warn_without_space(plan, proceed)
    plan.may_suspend, plan.can_fold_into_invoke = True, False
    from surehand.runtime.call_messages import build_call_message  # loaded by those alone who have spaces

    async def stage(invocation: Invocation) -> Outcome:
        space = invocation.principal.space or ""
        invocation.make_interruptible()
        if invocation.message_id is None:
            invocation.message_id = await post(invocation, space)
        elif invocation.round_answer is None:  # else it ends with the answer, and is shown with that
            await show(invocation, space, "running")
        try:
            outcome = await proceed(invocation)
        except BaseException:
            if not invocation.round or invocation.is_outcome_recorded:  # else its caller has left, and it still waits
                await show(invocation, space, "error", Failed("cancelled", f"{name} was cancelled."))
            raise
        if not (invocation.has_lost_race or invocation.runs_elsewhere):  # else another shows how it stands
            await show(invocation, space, to_message_status(outcome), outcome)
        return outcome

    async def post(invocation: Invocation, space: str) -> str | None:
        """Whether it can be shown decides nothing: the call runs."""
        try:
            return await spaces.post(space, build_call_message(invocation, "running"))
        except Exception as error:  # noqa: BLE001 - a host's spaces may raise anything
            log.warning("%s is shown nowhere: it could not be posted to space %r: %s", name, space, error)
            return None

    async def show(invocation: Invocation, space: str, status: str, outcome: Outcome | None = None) -> None:
        """What happened has happened, even where it cannot be shown."""
        if invocation.message_id is None or invocation.message_status == status:
            return
        invocation.message_status = status
        try:
            await spaces.amend(space, invocation.message_id, build_call_message(invocation, status, outcome))
        except Exception:
            log.exception("The message of %s could not be amended", name)

    return stage


def _refuse_without_space(plan: StackPlan, proceed: Proceed) -> Proceed:
    """No space is active, and the developer chose that nothing visible runs without one."""
    name, catalogue = plan.listing.name, plan.services.catalogue

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.is_resumed:  # it began under another setting, and a person has answered it
            return await proceed(invocation)
        remedy = "Call enter_space first." if "enter_space" in catalogue else "The host sets one: scope(space=...)."
        return Failed("failed", f"No active space. {remedy} {name} shows its result in a space, and did not run.")

    return stage


def _warn_without_space(plan: StackPlan, proceed: Proceed) -> Proceed:
    """No space is active; worth a word where there are spaces at all."""
    shown, name = plan.services.visible_calls, plan.listing.name

    def stage(invocation: Invocation) -> Coroutine[Any, Any, Outcome]:
        if shown.has_spaces:
            log.warning("%s is visible, but no space is active: its result is shown nowhere.", name)
        return proceed(invocation)

    return stage
