"""Stage `publish`: show a visible call in the active space as one message, and amend it as the call proceeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
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
    return _PublishStage(spaces, messages, journal, posts_when_stored, proceed)


@dataclass(frozen=True, slots=True)
class _PublishStage:
    """The stage for one listing, in a space."""

    spaces: SpaceWriter
    messages: CallMessages
    journal: StoreJournal
    posts_when_stored: bool
    """Whether a client may answer what the space shows: its call is shown once the wait is stored."""
    proceed: NextStage

    async def __call__(self, invocation: Invocation) -> Outcome:
        invocation.make_interruptible()
        posts_later = self.posts_when_stored and not invocation.is_resumed
        await self._show_start(invocation, posts_later=posts_later)
        try:
            outcome = await self.proceed(invocation)
        except BaseException:
            # A call that waited and has no outcome stays pending: only its caller was cancelled.
            if not invocation.resumption.round or invocation.claim.is_recorded:
                failure = Failed("cancelled", f"{invocation.listing.name} was cancelled.")
                await self._amend(invocation, "error", failure)
            raise
        if posts_later and invocation.message.id is None and not isinstance(outcome, Pending):
            await self._post(invocation)  # it ended without a wait
        # Else the other invocation amends the message.
        if not (invocation.claim.is_lost or invocation.claim.belongs_to_other_pass):
            await self._amend(invocation, to_message_status(outcome), outcome)
        return outcome

    async def _show_start(self, invocation: Invocation, *, posts_later: bool) -> None:
        invocation.set_message(invocation.message._replace(posts_when_stored=posts_later))
        if invocation.message.id is None:
            if not posts_later:
                await self._post(invocation)
        elif invocation.claim.answer is None:  # an answer that ends the call amends the message itself
            await self._amend(invocation, "running")

    async def _post(self, invocation: Invocation) -> None:
        """Post the message; the call runs even if that fails."""
        space = invocation.principal.space or ""
        try:
            message_id = await self.spaces.post(space, self.messages.build_message(invocation, "running"))
            invocation.set_message(invocation.message._replace(id=message_id))
        except BaseException as error:  # the spaces of a host application may raise anything
            if is_interruption(error, asyncio.current_task()):
                raise
            log.warning("The call of %s could not be posted to space %r: %s", invocation.listing.name, space, error)

    async def _amend(self, invocation: Invocation, status: str, outcome: Outcome | None = None) -> None:
        """Amend the message; a failure does not change the outcome."""
        message_id = invocation.message.id
        if message_id is None or invocation.message.status == status:
            return
        invocation.set_message(invocation.message._replace(status=status))
        await self.journal.write_progress(invocation)
        space = invocation.principal.space or ""
        try:
            await self.spaces.amend(space, message_id, self.messages.build_message(invocation, status, outcome))
        except BaseException as error:
            if is_interruption(error, asyncio.current_task()):
                raise
            log.exception("The message of %s could not be amended", invocation.listing.name)


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
