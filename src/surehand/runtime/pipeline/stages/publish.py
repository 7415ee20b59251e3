"""Stage `publish`: show a visible call in the active space as one message, and amend it as the call proceeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from surehand.catalogue.catalogue import Catalogue
from surehand.core.client import ClientHandler
from surehand.core.outcome import Failed, Outcome, Pending
from surehand.core.spaces import SpaceWriter
from surehand.runtime.active_spaces import ActiveSpaces
from surehand.runtime.durability.call_messages import CallMessages, to_message_status
from surehand.runtime.durability.store_journal import StoreJournal
from surehand.runtime.invocation.foreign_code import is_interruption
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.pipeline import StackPlan

log = logging.getLogger("surehand")


def publish(
    plan: StackPlan,
    proceed: NextStage,
    *,
    active_spaces: ActiveSpaces,
    messages: CallMessages,
    journal: StoreJournal,
    catalogue: Catalogue,
) -> NextStage:
    """Left out without spaces, and for tools that are not visible."""
    spaces: SpaceWriter | None = active_spaces.host_spaces or (messages if messages.shows_calls else None)
    name = plan.listing.name
    if not plan.listing.tool.visible:
        return proceed
    if not plan.has_space and active_spaces.on_no_space == "error":
        return _refuse_without_space(plan, proceed, catalogue)
    if spaces is None:
        return proceed
    if not plan.has_space:
        return _warn_without_space(plan, proceed, active_spaces)
    plan.may_suspend = True
    plan.can_fold_into_invoke = False
    handler = plan.listing.tool.handler
    posts_when_stored = isinstance(handler, ClientHandler) and handler.waits and messages.shows_calls

    async def stage(invocation: Invocation) -> Outcome:
        space = invocation.principal.space or ""
        invocation.make_interruptible()
        # A client may answer what the space shows: its call is shown once the wait is stored.
        posts_later = posts_when_stored and not invocation.is_resumed
        invocation.show_in(invocation.message._replace(posts_when_stored=posts_later))
        if invocation.message.id is None and not posts_later:
            await post(invocation, space)
        elif (
            invocation.message.id is not None and invocation.claim.answer is None
        ):  # an answer that ends the call amends the message itself
            await show(invocation, space, "running")
        try:
            outcome = await proceed(invocation)
        except BaseException:
            if (
                not invocation.resumption.round or invocation.claim.is_recorded
            ):  # else only the caller was cancelled: the call stays pending
                await show(invocation, space, "error", Failed("cancelled", f"{name} was cancelled."))
            raise
        if posts_later and invocation.message.id is None and not isinstance(outcome, Pending):
            await post(invocation, space)  # it ended without a wait
        if not (
            invocation.claim.is_lost or invocation.claim.is_elsewhere
        ):  # else the other invocation amends the message
            await show(invocation, space, to_message_status(outcome), outcome)
        return outcome

    async def post(invocation: Invocation, space: str) -> None:
        """Post the message; the call runs even if that fails."""
        try:
            message_id = await spaces.post(space, messages.build_message(invocation, "running"))
            invocation.show_in(invocation.message._replace(id=message_id))
        except BaseException as error:  # the spaces of a host application may raise anything
            if is_interruption(error, asyncio.current_task()):
                raise
            log.warning("The call of %s could not be posted to space %r: %s", name, space, error)

    async def show(invocation: Invocation, space: str, status: str, outcome: Outcome | None = None) -> None:
        """Amend the message; a failure does not change the outcome."""
        message_id = invocation.message.id
        if message_id is None or invocation.message.status == status:
            return
        invocation.show_in(invocation.message._replace(status=status))
        await journal.write_progress(invocation)
        try:
            await spaces.amend(space, message_id, messages.build_message(invocation, status, outcome))
        except BaseException as error:
            if is_interruption(error, asyncio.current_task()):
                raise
            log.exception("The message of %s could not be amended", name)

    return stage


def _refuse_without_space(plan: StackPlan, proceed: NextStage, catalogue: Catalogue) -> NextStage:
    """No space is active, and the developer chose that nothing visible runs without one."""
    name = plan.listing.name

    async def stage(invocation: Invocation) -> Outcome:
        if invocation.is_resumed:  # it began under another setting, and a person has answered it
            return await proceed(invocation)
        remedy = "Call enter_space first." if "enter_space" in catalogue else "The host sets one: scope(space=...)."
        return Failed("failed", f"No active space. {remedy} {name} shows its result in a space, and did not run.")

    return stage


def _warn_without_space(plan: StackPlan, proceed: NextStage, active_spaces: ActiveSpaces) -> NextStage:
    """Warn that a visible call is not shown because no space is active, if there are any spaces."""
    name = plan.listing.name

    def stage(invocation: Invocation) -> Coroutine[Any, Any, Outcome]:
        if active_spaces.has_spaces and not invocation.is_resumed:
            log.warning("The visible call of %s is not shown: no space is active.", name)
        return proceed(invocation)

    return stage
