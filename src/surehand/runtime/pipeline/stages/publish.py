"""Stage `publish`: show a visible call in the active space as one message, and amend it as the call proceeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from surehand.core.client import ClientHandler
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.runtime.invocation.foreign_code import is_interruption
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.pipeline.pipeline import NextStage, StackPlan
from surehand.runtime.visible_calls import to_message_status

log = logging.getLogger("surehand")


def publish(plan: StackPlan, proceed: NextStage) -> NextStage:
    """Left out without spaces, and for tools that are not visible."""
    services = plan.services
    spaces = services.visible_calls.spaces
    name = plan.listing.name
    if not plan.listing.tool.visible:
        return proceed
    if not plan.has_space and plan.services.visible_calls.on_no_space == "error":
        return _refuse_without_space(plan, proceed)
    if spaces is None:
        return proceed
    if not plan.has_space:
        return _warn_without_space(plan, proceed)
    plan.may_suspend = True
    plan.can_fold_into_invoke = False
    handler = plan.listing.tool.handler
    visible_calls = plan.services.visible_calls
    posts_when_stored = isinstance(handler, ClientHandler) and handler.waits and visible_calls.can_post_with_wait
    from surehand.runtime.durability.call_messages import (
        build_call_message,
    )  # keeps the store tables off the import path

    async def stage(invocation: Invocation) -> Outcome:
        space = invocation.principal.space or ""
        invocation.make_interruptible()
        # A client may answer what the space shows: its call is shown once the wait is stored.
        invocation.posts_when_stored = posts_when_stored and not invocation.is_resumed
        if invocation.message_id is None and not invocation.posts_when_stored:
            invocation.message_id = await post(invocation, space)
        elif (
            invocation.message_id is not None and invocation.round_answer is None
        ):  # an answer that ends the call amends the message itself
            await show(invocation, space, "running")
        try:
            outcome = await proceed(invocation)
        except BaseException:
            if (
                not invocation.round or invocation.is_outcome_recorded
            ):  # else only the caller was cancelled: the call stays pending
                await show(invocation, space, "error", Failed("cancelled", f"{name} was cancelled."))
            raise
        if invocation.posts_when_stored and invocation.message_id is None and not isinstance(outcome, Pending):
            invocation.message_id = await post(invocation, space)  # it ended without a wait
        if not (invocation.has_lost_race or invocation.runs_elsewhere):  # else the other invocation amends the message
            await show(invocation, space, to_message_status(outcome), outcome)
        return outcome

    async def post(invocation: Invocation, space: str) -> str | None:
        """Post the message; the call runs even if that fails."""
        try:
            return await spaces.post(space, build_call_message(invocation, "running"))
        except BaseException as error:  # the spaces of a host application may raise anything
            if is_interruption(error, asyncio.current_task()):
                raise
            log.warning("The call of %s could not be posted to space %r: %s", name, space, error)
            return None

    async def show(invocation: Invocation, space: str, status: str, outcome: Outcome | None = None) -> None:
        """Amend the message; a failure does not change the outcome."""
        if invocation.message_id is None or invocation.message_status == status:
            return
        invocation.message_status = status
        await services.write_progress(invocation)
        try:
            await spaces.amend(space, invocation.message_id, build_call_message(invocation, status, outcome))
        except BaseException as error:
            if is_interruption(error, asyncio.current_task()):
                raise
            log.exception("The message of %s could not be amended", name)

    return stage


def _refuse_without_space(plan: StackPlan, proceed: NextStage) -> NextStage:
    """No space is active, and the developer chose that nothing visible runs without one."""
    name, catalogue = plan.listing.name, plan.services.catalogue

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.is_resumed:  # it began under another setting, and a person has answered it
            return await proceed(invocation)
        remedy = "Call enter_space first." if "enter_space" in catalogue else "The host sets one: scope(space=...)."
        return Failed("failed", f"No active space. {remedy} {name} shows its result in a space, and did not run.")

    return stage


def _warn_without_space(plan: StackPlan, proceed: NextStage) -> NextStage:
    """Warn that a visible call is not shown because no space is active, if there are any spaces."""
    visible_calls = plan.services.visible_calls
    name = plan.listing.name

    def stage(invocation: Invocation) -> Coroutine[Any, Any, Outcome]:
        if visible_calls.has_spaces and not invocation.is_resumed:
            log.warning("The visible call of %s is not shown: no space is active.", name)
        return proceed(invocation)

    return stage
