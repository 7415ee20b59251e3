"""Question: what a person is asked before a call runs, and what an approver at hand answers."""

from __future__ import annotations

import inspect
import logging
from typing import Any, Literal

from surehand.core.context import Context
from surehand.core.outcome import Pending
from surehand.runtime.durability.json_arguments import json_arguments
from surehand.runtime.pending.approval import Approval
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.pipeline.invocation import Invocation

log = logging.getLogger("surehand")


async def wants_confirmation(invocation: Invocation) -> bool | Literal["each time"]:
    """Whether the tool itself asks. A confirmation that fails has not said that nobody need be asked."""
    try:
        wanted = await _evaluate(invocation.listing.tool.safety.confirm, invocation)
    except Exception:
        log.exception("The confirmation of %s failed; a person is asked", invocation.listing.name)
        return True
    return "each time" if wanted == "each time" else bool(wanted)


async def build_question(invocation: Invocation) -> Pending:
    """The message, the form and the preview."""
    tool, name = invocation.listing.tool, invocation.listing.name
    message = await _evaluate_or_none(tool.safety.confirm_message, invocation)
    request = {"schema": tool.schema, "preview": await _evaluate_or_none(tool.safety.preview, invocation)}
    return Pending("approval", message=str(message or f"Allow {name} to execute?"), request=request)


async def ask_approver(invocation: Invocation, pending: Pending) -> Approval | None:
    """What somebody at hand decides; None where nobody is, or not now."""
    parts, who, name = invocation.scope.services, invocation.principal, invocation.listing.name
    if parts.approver is None:
        return None
    shown = PendingCall(
        invocation.id, name, json_arguments(invocation), "approval", pending.message, pending.request,
        None, parts.clock.time(), who.user, who.session,
    )  # fmt: skip
    try:
        return Approval.from_decision(await parts.approver(shown))
    except Exception:
        log.exception("The approver failed on %s; the call waits for somebody else", name)
        return None


async def _evaluate(value_or_function: Any, invocation: Invocation) -> Any:
    """A value as it is, or what a sync or async function of arguments and context says."""
    if not callable(value_or_function):
        return value_or_function
    made = value_or_function(invocation.effective_arguments(), Context(invocation))
    return await made if inspect.isawaitable(made) else made


async def _evaluate_or_none(value_or_function: Any, invocation: Invocation) -> Any:
    """The same, but a failure here never blocks the question itself."""
    try:
        return await _evaluate(value_or_function, invocation)
    except Exception:
        log.exception("The confirmation message or preview of %s failed", invocation.listing.name)
        return None
