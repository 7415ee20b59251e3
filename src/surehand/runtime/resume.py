"""Resume: a call that waited, as the store keeps it, becomes an invocation again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from surehand.catalogue.listing import Listing
from surehand.core.define import tool
from surehand.core.outcome import Wait
from surehand.runtime.invocation import Invocation
from surehand.runtime.pipeline import Proceed
from surehand.runtime.verdict import Verdict
from surehand.store.outcomes import arguments_of
from surehand.store.pending import Answered, Held

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts
    from surehand.runtime.scope import Scope

_WHO = ("message", "task", "space", "turn")


def listing_of(parts: Parts, held: Held) -> Listing | None:
    """The tool of a call, as the call's own scope knows it."""
    return scope_of(parts, held).find(held.call.tool)


def scope_of(parts: Parts, held: Held) -> Scope:
    """The scope that the call was made in where that lives here, else one for the same user and session."""
    before = parts.waits.here.get(held.call.call_id)
    if before is not None:
        return before.scope
    call, context = held.call, json.loads(held.call.context)
    who: dict[str, Any] = {name: context[name] for name in _WHO if context.get(name) is not None}
    named = {"user": call.user_id, "session": call.session, "agent": call.agent}
    who.update({name: value for name, value in named.items() if value is not None})
    return parts.root.scope(**who)


def again_from(parts: Parts, held: Held) -> tuple[Invocation, Proceed]:
    """The same call once more, from its stored arguments, and the stack to send it through."""
    call, context = held.call, json.loads(held.call.context)
    before = parts.waits.here.get(call.call_id)
    scope = scope_of(parts, held)
    again = Invocation(scope, call.tool, arguments_of(call.arguments))
    again.known_id, again.given, again.resumed = call.call_id, bool(context.get("given")), True
    again.round, again.posted = held.rounds[-1].round, call.posted
    again.model_id, again.parent = context.get("model_id"), context.get("parent")
    again.depth, again.known = int(context.get("depth", 0)), call
    listing = scope.find(call.tool)
    if listing is not None and listing.tool.definition == call.definition:
        return again, parts.stack_for(again)
    # A no, or somebody's answer, ends the call that was asked about, even where the tool is another one by now.
    return again, parts.stack_of(before.listing if before is not None else _stand_in(call.tool), again)


def _stand_in(name: str) -> Listing:
    """For a tool that is not here: its call can be ended, and nothing of it can run."""
    absent = tool.external("absent", "A tool that is not here.", parameters={"type": "object"}, visible=False)
    return Listing(name, absent, None, "", name)


@dataclass(frozen=True, slots=True)
class Turn:
    """How a call goes on: with which answer, and under which fence it runs or what is written when it ends."""

    verdict: Verdict
    answered: Answered | None = None
    fence: int | None = None
    on_settled: Callable[[Invocation], None] | None = None


def take(invocation: Invocation, held: Held, turn: Turn) -> None:
    """Let a call go on with the answer it waited for."""
    last, verdict = held.rounds[-1], turn.verdict
    invocation.state_note, invocation.answered, invocation.fence = held.note, turn.answered, turn.fence
    invocation.on_settled = turn.on_settled
    if verdict.approval is not None:
        invocation.approval = verdict.approval
        return
    invocation.answer = verdict.value
    invocation.waited_for = "result" if last.inner_call is not None else cast(Wait, last.waiting_for)
