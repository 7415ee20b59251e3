"""Confirmation: whether a tool wants its call approved, the question to ask, and the runtime's own approver.

Used by the stage `approve`.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any, Literal

from surehand.core.context import CURRENT_CALL, Context
from surehand.core.outcome import Pending
from surehand.runtime.durability.json_arguments import json_arguments
from surehand.runtime.pending.approval import Approval
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.pipeline.invocation import Invocation

log = logging.getLogger("surehand")


async def wants_confirmation(invocation: Invocation) -> bool | Literal["each time"]:
    """Whether the tool itself asks for approval; a confirmation that raises counts as yes."""
    try:
        wanted = await _evaluate(invocation.listing.tool.safety.confirm, invocation)
    except Exception:
        log.exception("The confirm function of %s raised; the call needs an approval", invocation.listing.name)
        return True
    return "each time" if wanted == "each time" else bool(wanted)


async def build_question(invocation: Invocation) -> Pending:
    """Build the question for an approval: message, schema of the arguments and preview."""
    tool = invocation.listing.tool
    name = invocation.listing.name
    message = await _evaluate_or_none(tool.safety.confirm_message, invocation)
    request = {"schema": tool.schema, "preview": await _evaluate_or_none(tool.safety.preview, invocation)}
    return Pending("approval", message=str(message or f"Allow {name} to execute?"), request=request)


async def ask_approver(invocation: Invocation, pending: Pending) -> Approval | None:
    """Ask the runtime's approver; None if there is none, or it does not decide now."""
    services = invocation.scope.services
    name = invocation.listing.name
    if services.approver is None:
        return None
    pending_call = PendingCall(
        call_id=invocation.id,
        tool=name,
        arguments=json_arguments(invocation),
        waiting_for="approval",
        message=pending.message,
        request=pending.request,
        expires_at=None,
        created_at=services.clock.time(),
        **invocation.identity._asdict(),
    )
    try:
        return Approval.from_decision(await services.approver(pending_call))
    except Exception:
        log.exception("The approver raised on a call of %s; the call stays pending", name)
        return None


async def _evaluate(value_or_function: Any, invocation: Invocation) -> Any:
    """The value, or the result of the sync or async function of arguments and context."""
    if not callable(value_or_function):
        return value_or_function
    token = CURRENT_CALL.set(invocation)
    try:
        result = value_or_function(invocation.effective_arguments(), Context(invocation))
        return await result if inspect.isawaitable(result) else result
    finally:
        CURRENT_CALL.reset(token)


async def _evaluate_or_none(value_or_function: Any, invocation: Invocation) -> Any:
    """Like `_evaluate`, but None if the function raises: that must not prevent the question."""
    try:
        return await _evaluate(value_or_function, invocation)
    except Exception:
        log.exception("The confirm_message or preview of %s raised", invocation.listing.name)
        return None
