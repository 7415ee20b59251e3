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
from surehand.runtime.standing import standing

if TYPE_CHECKING:
    from surehand.catalogue.listing import Listing
    from surehand.runtime.parts import Parts

OnWait: TypeAlias = Callable[[str, Pending], None]
"""Is told of a call that waits for somebody whom its client cannot ask: the tool, and what it waits for."""

log = logging.getLogger("surehand")
NAME = "call_result"
MOST_TOLD = 1_000
_AT_WORK = "Go on with other work, and do not repeat the call."
_HERE_ONLY = " It waits only while this server runs."


class Later:
    """What clients are told of such calls. The tool is offered once there is one to ask for."""

    def __init__(self, parts: Parts, on_wait: OnWait | None) -> None:
        self._parts, self._on_wait = parts, on_wait
        self._told: dict[tuple[str, str, str], None] = {}

    def text(self, name: str, pending: Pending) -> str:
        """What a model is told in place of the result."""
        self.tell(name, pending)
        ask = f"Ask for the answer later with {NAME}(call_id={pending.call_id!r})." if self.show() else _COMES
        here_only = "" if self._parts.durable else _HERE_ONLY
        told = {"waiting_for": pending.waiting_for, "message": pending.message, "next": f"{ask} {_AT_WORK}{here_only}"}
        return to_text({"status": "pending", "pendingToolCallId": pending.call_id, **told})

    def tell(self, name: str, pending: Pending) -> None:
        """Somebody has to answer whom no client asks; told once."""
        wait = (pending.call_id, pending.waiting_for, pending.message)
        if self._on_wait is None or wait in self._told:
            return
        self._told[wait] = None
        if len(self._told) > MOST_TOLD:
            del self._told[next(iter(self._told))]
        try:
            self._on_wait(name, pending)
        except Exception:
            log.exception("Nobody could be told that %s waits", name)

    def resume(self) -> None:
        """Offer the tool to those who were told of it before a restart, where a call still waits."""
        if self._parts.durable and self._parts.waits.open:
            self.show()

    def show(self) -> bool:
        """Offer the tool; false where another tool has its name."""
        found = self._parts.catalogue.find(NAME)
        if found is None:
            [found] = self._parts.catalogue.add(_asker(self._parts))
        return is_ours(found)


_COMES = "The answer comes later."


def is_ours(listing: Listing) -> bool:
    """Whether a tool of that name is the one from here."""
    return listing.name == NAME and listing.kind == "internal"


def _asker(parts: Parts) -> Tool[..., Any]:
    @tool(name=NAME, effects={"read"}, retries=0, category="system", visible=False)
    async def call_result(ctx: Context, call_id: str) -> Any:
        """Get the result of a call that had to wait for somebody.

        Args:
            call_id: The pendingToolCallId that the call gave.
        """
        return _told(call_id, await _outcome(parts, call_id, ctx))

    return call_result.evolve(kind="internal")


async def _outcome(parts: Parts, call_id: str, ctx: Context) -> Outcome | None:
    """How a call of the same user stands; calls for nobody are nobody's but theirs who are nobody."""
    viewer = Principal(user=ctx.user, session=ctx.session)
    held = await parts.waits.find(call_id, viewer)
    found = await standing(parts, call_id, viewer) if held is not None and held.call.user_id == ctx.user else None
    if found is None:
        raise NotFound(f"No call {call_id[:80]!r} has waited. Copy the pendingToolCallId exactly as it was given.")
    return found.outcome


def _told(call_id: str, outcome: Outcome | None) -> Any:
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
