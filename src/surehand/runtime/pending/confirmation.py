"""Confirmation: whether a tool wants its call approved, the question to ask, and the runtime's own approver.

Used by the stage `approve`.
"""

from __future__ import annotations

import logging
from typing import Any, Literal

from surehand.core.clock import Clock
from surehand.core.context import CURRENT_CALL, Context
from surehand.core.errors import ToolError
from surehand.core.fast_copy import copy_if_possible
from surehand.core.invoke import failed_from_error
from surehand.core.outcome import Failed, Pending
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.invocation.foreign_code import ForeignCodeError, run_foreign
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.invocation.json_arguments import json_arguments
from surehand.runtime.pending.pending_call import Approver, PendingCall

log = logging.getLogger("surehand")


class Confirmation:
    """Asks whether calls may run: the tool itself, its provider, and the runtime's own approver if there is one."""

    def __init__(self, background_tasks: BackgroundTasks, clock: Clock, approver: Approver | None) -> None:
        self._background_tasks = background_tasks
        self._clock = clock
        self._approver = approver

    async def is_wanted(self, invocation: Invocation) -> bool | Literal["each time"]:
        """Whether the tool itself asks for approval; a confirmation that raises counts as yes."""
        try:
            wanted = await self._evaluate(invocation.listing.tool.safety.confirm, invocation)
        except ForeignCodeError as error:
            name = invocation.listing.name
            log.error("The confirm function of %s raised; the call needs an approval", name, exc_info=error.original)
            return True
        return "each time" if wanted == "each time" else bool(wanted)

    async def build_question(self, invocation: Invocation) -> Pending | Failed:
        """Build the question for an approval: message, schema of the arguments and preview.

        Returns a failure instead if the tool's provider or its preview already knows that the call cannot work.
        """
        tool = invocation.listing.tool
        name = invocation.listing.name
        try:
            await self._check_with_provider(invocation)
            preview = await self._evaluate_preview(invocation)
        except ToolError as error:
            return failed_from_error(error).evolve(executed=False)
        message = await self._evaluate_message(invocation)
        request = {"schema": tool.schema, "preview": preview}
        question = str(message or f"Allow {name} to execute?")
        if invocation.resumption.note:
            question = f"{invocation.resumption.note} {question}"
        return Pending("approval", message=question, request=request)

    async def _check_with_provider(self, invocation: Invocation) -> None:
        """Raise the `ToolError` of a call that the tool's provider already knows it cannot run."""
        listing = invocation.listing
        call_checker = listing.abilities.call_checker
        if call_checker is None:
            return
        call = invocation.call_as(listing.tool.name)
        try:
            await run_foreign(self._background_tasks, call_checker.check_call, call)
        except ForeignCodeError as error:
            if isinstance(error.original, ToolError):
                raise error.original from None
            log.error("The provider of %s raised in check_call", listing.name, exc_info=error.original)

    async def _evaluate_preview(self, invocation: Invocation) -> Any:
        """The preview; None if it crashes. A `ToolError` says that the call cannot work, and is raised.

        It gets what the handler will get: defaults of a raw schema are not sent, so that they must not be shown.
        """
        tool = invocation.listing.tool
        arguments = {**tool.handler_defaults, **invocation.arguments}
        try:
            return await self._evaluate(tool.safety.preview, invocation, arguments)
        except ForeignCodeError as error:
            if isinstance(error.original, ToolError):
                raise error.original from None
            log.error("The preview of %s raised", invocation.listing.name, exc_info=error.original)
            return None

    async def _evaluate_message(self, invocation: Invocation) -> Any:
        """The text of the question; None if its function raises: that must not prevent the question."""
        try:
            return await self._evaluate(invocation.listing.tool.safety.confirm_message, invocation)
        except ForeignCodeError as error:
            log.error("The confirm_message of %s raised", invocation.listing.name, exc_info=error.original)
            return None

    async def ask_approver(self, invocation: Invocation, pending: Pending) -> Approval | None:
        """Ask the approvers of the scope and of the runtime; None if there is none, or none decides now."""
        approvers = [each for each in (invocation.scope.approver, self._approver) if each is not None]
        if not approvers:
            return None
        pending_call = PendingCall(
            call_id=invocation.id,
            tool=invocation.listing.name,
            arguments=json_arguments(invocation),
            waiting_for="approval",
            message=pending.message,
            request=pending.request,
            expires_at=None,
            created_at=self._clock.time(),
            **invocation.identity._asdict(),
        )
        with invocation.waiting_for_person():
            for approver in approvers:
                decision = await self._ask_one(approver, pending_call)
                if decision is not None:
                    return decision
        return None

    async def _ask_one(self, approver: Approver, pending_call: PendingCall) -> Approval | None:
        try:
            return Approval.from_decision(await run_foreign(self._background_tasks, approver, pending_call))
        except (ForeignCodeError, TypeError) as error:
            original = error.original if isinstance(error, ForeignCodeError) else error
            log.error(
                "The approver raised on a call of %s; the call stays pending", pending_call.tool, exc_info=original
            )
            return None

    async def _evaluate(
        self, value_or_function: Any, invocation: Invocation, arguments: dict[str, Any] | None = None
    ) -> Any:
        """The value, or the result of the sync or async function of arguments (with all defaults) and context."""
        if not callable(value_or_function):
            return value_or_function
        if arguments is None:
            arguments = invocation.effective_arguments()
        arguments = copy_if_possible(arguments)  # what the function changes does not run
        token = CURRENT_CALL.set(invocation)
        try:
            return await run_foreign(self._background_tasks, value_or_function, arguments, Context(invocation))
        finally:
            CURRENT_CALL.reset(token)
