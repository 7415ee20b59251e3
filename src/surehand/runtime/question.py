"""Question: what a person is asked before a call runs, and what an approver at hand answers."""

from __future__ import annotations

import inspect
import logging
from typing import Any, Literal

from surehand.core.context import Context
from surehand.core.outcome import Pending
from surehand.runtime.approval import Approval
from surehand.runtime.invocation import Invocation
from surehand.runtime.plain import plain_arguments
from surehand.runtime.waiting import WaitingCall

log = logging.getLogger("surehand")


async def wants_confirmation(invocation: Invocation) -> bool | Literal["each time"]:
    """Whether the tool itself asks. A confirmation that fails has not said that nobody need be asked."""
    try:
        wanted = await _value(invocation.listing.tool.safety.confirm, invocation)
    except Exception:
        log.exception("The confirmation of %s failed; a person is asked", invocation.listing.name)
        return True
    return "each time" if wanted == "each time" else bool(wanted)


async def question(invocation: Invocation) -> Pending:
    """The message, the form and the preview."""
    tool, name = invocation.listing.tool, invocation.listing.name
    message = await _told(tool.safety.confirm_message, invocation)
    request = {"schema": tool.schema, "preview": await _told(tool.safety.preview, invocation)}
    return Pending("approval", message=str(message or f"Allow {name} to execute?"), request=request)


async def from_approver(invocation: Invocation, pending: Pending) -> Approval | None:
    """What somebody at hand decides; None where nobody is, or not now."""
    parts, who, name = invocation.scope.parts, invocation.principal, invocation.listing.name
    if parts.approver is None:
        return None
    shown = WaitingCall(
        invocation.id, name, plain_arguments(invocation), "approval", pending.message, pending.request,
        None, parts.clock.time(), who.user, who.session,
    )  # fmt: skip
    try:
        return Approval.of(await parts.approver(shown))
    except Exception:
        log.exception("The approver failed on %s; the call waits for somebody else", name)
        return None


async def _value(given: Any, invocation: Invocation) -> Any:
    """A value as it is, or what a sync or async function of arguments and context says."""
    if not callable(given):
        return given
    made = given(invocation.effective(), Context(invocation))
    return await made if inspect.isawaitable(made) else made


async def _told(given: Any, invocation: Invocation) -> Any:
    """The same, but a failure here never blocks the question itself."""
    try:
        return await _value(given, invocation)
    except Exception:
        log.exception("The confirmation message or preview of %s failed", invocation.listing.name)
        return None
