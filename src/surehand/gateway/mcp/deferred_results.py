"""Later: calls whose clients cannot be asked are told to come back, and the tool with which they do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.core.call import Principal
from surehand.core.content import to_text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import NotFound
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.core.tool import Tool
from surehand.runtime.pending.status import find_call_status

if TYPE_CHECKING:
    from surehand.catalogue.listing import Listing
    from surehand.runtime.services import RuntimeServices

OnWait: TypeAlias = Callable[[str, Pending], None]
"""Is told of a call that waits for somebody whom its client cannot ask: the tool, and what it waits for."""

log = logging.getLogger("surehand")
CALL_RESULT_TOOL = "call_result"
MAX_REPORTED_WAITS = 1_000
_CONTINUE_HINT = "Go on with other work, and do not repeat the call."
_NOT_DURABLE_HINT = " It waits only while this server runs."


class DeferredResults:
    """What clients are told of such calls. The tool is offered once there is one to ask for."""

    def __init__(self, services: RuntimeServices, on_wait: OnWait | None) -> None:
        self._services, self._on_wait = services, on_wait
        self._reported_waits: dict[tuple[str, str, str], None] = {}

    def pending_text(self, tool_name: str, pending: Pending) -> str:
        """What a model is told in place of the result."""
        self.report_wait(tool_name, pending)
        ask = (
            f"Ask for the answer later with {CALL_RESULT_TOOL}(call_id={pending.call_id!r})."
            if self.offer_tool()
            else _NO_TOOL_HINT
        )
        here_only = "" if self._services.is_durable else _NOT_DURABLE_HINT
        told = {
            "waiting_for": pending.waiting_for,
            "message": pending.message,
            "next": f"{ask} {_CONTINUE_HINT}{here_only}",
        }
        return to_text({"status": "pending", "pendingToolCallId": pending.call_id, **told})

    def report_wait(self, tool_name: str, pending: Pending) -> None:
        """Somebody has to answer whom no client asks; told once."""
        wait = (pending.call_id, pending.waiting_for, pending.message)
        if self._on_wait is None or wait in self._reported_waits:
            return
        self._reported_waits[wait] = None
        if len(self._reported_waits) > MAX_REPORTED_WAITS:
            del self._reported_waits[next(iter(self._reported_waits))]
        try:
            self._on_wait(tool_name, pending)
        except Exception:
            log.exception("Nobody could be told that %s waits", tool_name)

    def restore_tool(self) -> None:
        """Offer the tool to those who were told of it before a restart, where a call still waits."""
        if self._services.is_durable and self._services.pending_calls.open_count:
            self.offer_tool()

    def offer_tool(self) -> bool:
        """Offer the tool; false where another tool has its name."""
        found = self._services.catalogue.find(CALL_RESULT_TOOL)
        if found is None:
            [found] = self._services.catalogue.add(_build_call_result_tool(self._services))
        return _is_call_result_tool(found)


_NO_TOOL_HINT = "The answer comes later."


def _is_call_result_tool(listing: Listing) -> bool:
    """Whether a tool of that name is the one from here."""
    return listing.name == CALL_RESULT_TOOL and listing.kind == "internal"


def _build_call_result_tool(services: RuntimeServices) -> Tool[..., Any]:
    @tool(name=CALL_RESULT_TOOL, effects={"read"}, retries=0, category="system", visible=False)
    async def call_result(ctx: Context, call_id: str) -> Any:
        """Get the result of a call that had to wait for somebody.

        Args:
            call_id: The pendingToolCallId that the call gave.
        """
        return _describe_outcome(call_id, await _load_outcome(services, call_id, ctx))

    return call_result.evolve(kind="internal")


async def _load_outcome(services: RuntimeServices, call_id: str, ctx: Context) -> Outcome | None:
    """How a call of the same user stands; calls for nobody are nobody's but theirs who are nobody."""
    viewer = Principal(user=ctx.user, session=ctx.session)
    held = await services.pending_calls.find(call_id, viewer)
    found = (
        await find_call_status(services, call_id, viewer)
        if held is not None and held.call.user_id == ctx.user
        else None
    )
    if found is None:
        raise NotFound(f"No call {call_id[:80]!r} has waited. Copy the pendingToolCallId exactly as it was given.")
    return found.outcome


def _describe_outcome(call_id: str, outcome: Outcome | None) -> Any:
    match outcome:
        case None:
            goes_on = "It was answered and runs. Ask again soon."
            return {"status": "running", "pendingToolCallId": call_id, "next": goes_on}
        case Pending():
            waits = {"waiting_for": outcome.waiting_for, "message": outcome.message}
            return {"status": "pending", "pendingToolCallId": call_id, **waits, "next": "Ask again later."}
        case Failed(code="interrupted"):  # this call was not: only what it asks for
            return outcome.evolve(code="failed")
        case Done() | Failed():
            return outcome
