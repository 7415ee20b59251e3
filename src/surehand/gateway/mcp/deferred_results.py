"""Deferred results: what a client gets for a pending call if it can neither ask its user nor accept a task.

The client's model gets a text with the call's id, and the tool `call_result`, which returns the result later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.core.content import to_text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import NotFound
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.core.tool import Tool

if TYPE_CHECKING:
    from surehand.catalogue.listing import Listing
    from surehand.runtime.runtime import Runtime

OnWait: TypeAlias = Callable[[str, Pending], None]
"""Called with the tool's name and the `Pending` of a call about which the client cannot be asked."""

log = logging.getLogger("surehand")
CALL_RESULT_TOOL = "call_result"
MAX_REPORTED_WAITS = 1_000
"""Waits that are remembered as reported, so that each is reported once."""
_CONTINUE_HINT = "Go on with other work, and do not repeat the call."
_NOT_DURABLE_HINT = " It waits only while this server runs."
_NO_TOOL_HINT = "The answer comes later."


class DeferredResults:
    """Renders pending calls, reports them to `on_wait`, and adds `call_result` to the catalogue when it is needed."""

    def __init__(self, runtime: Runtime, on_wait: OnWait | None) -> None:
        self._runtime = runtime
        self._on_wait = on_wait
        self._reported_waits: dict[tuple[str, str, str], None] = {}

    def pending_text(self, tool_name: str, pending: Pending) -> str:
        """Render the text that a model gets instead of the result, and report the wait."""
        self.report_wait(tool_name, pending)
        hint = _NO_TOOL_HINT
        if self.offer_tool():
            hint = f"Ask for the answer later with {CALL_RESULT_TOOL}(call_id={pending.call_id!r})."
        durability_hint = "" if self._runtime.is_durable else _NOT_DURABLE_HINT
        return to_text(
            {
                "status": "pending",
                "pendingToolCallId": pending.call_id,
                "waiting_for": pending.waiting_for,
                "message": pending.message,
                "next": f"{hint} {_CONTINUE_HINT}{durability_hint}",
            }
        )

    def report_wait(self, tool_name: str, pending: Pending) -> None:
        """Call `on_wait`, once for each wait of a call."""
        wait = (pending.call_id, pending.waiting_for, pending.message)
        if self._on_wait is None or wait in self._reported_waits:
            return
        self._reported_waits[wait] = None
        if len(self._reported_waits) > MAX_REPORTED_WAITS:
            del self._reported_waits[next(iter(self._reported_waits))]
        try:
            self._on_wait(tool_name, pending)
        except Exception:
            log.exception("The on_wait function failed for the pending call of %s", tool_name)

    def restore_tool(self) -> None:
        """Offer `call_result` after a restart if a stored call is still pending: clients may know its id."""
        if self._runtime.is_durable and self._runtime.stats().pending:
            self.offer_tool()

    def offer_tool(self) -> bool:
        """Add `call_result` to the catalogue. False if another tool has this name."""
        listing = self._runtime.catalogue.find(CALL_RESULT_TOOL)
        if listing is None:
            [listing] = self._runtime.catalogue.add(_build_call_result_tool(self._runtime))
        return _is_call_result_tool(listing)


def _is_call_result_tool(listing: Listing) -> bool:
    return listing.name == CALL_RESULT_TOOL and listing.kind == "internal"


def _build_call_result_tool(runtime: Runtime) -> Tool[..., Any]:
    @tool(name=CALL_RESULT_TOOL, effects={"read"}, retries=0, category="system", visible=False)
    async def call_result(ctx: Context, call_id: str) -> Any:
        """Get the result of a call that had to wait for somebody.

        Args:
            call_id: The pendingToolCallId that the call gave.
        """
        return _describe_outcome(call_id, await _load_outcome(runtime, call_id, ctx))

    return call_result.evolve(kind="internal")


async def _load_outcome(runtime: Runtime, call_id: str, ctx: Context) -> Outcome | None:
    """Load the outcome of a call of the same user. Anonymous callers see anonymous calls alone."""
    scope = runtime.scope(user=ctx.user, session=ctx.session)
    status = await scope.status(call_id) if await scope.questions(call_id) else None
    if status is None or status.user != ctx.user:
        raise NotFound(f"No call {call_id[:80]!r} has waited. Copy the pendingToolCallId exactly as it was given.")
    return status.outcome


def _describe_outcome(call_id: str, outcome: Outcome | None) -> Any:
    match outcome:
        case None:
            hint = "It was answered and runs. Ask again soon."
            return {"status": "running", "pendingToolCallId": call_id, "next": hint}
        case Pending():
            wait = {"waiting_for": outcome.waiting_for, "message": outcome.message}
            return {"status": "pending", "pendingToolCallId": call_id, **wait, "next": "Ask again later."}
        case Failed(code="interrupted"):  # the call of `call_result` itself was not interrupted
            return outcome.evolve(code="failed")
        case Done() | Failed():
            return outcome
