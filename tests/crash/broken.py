"""Broken: runtimes with a deliberate fault each. A judge that lets one of them pass is no judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from surehand.runtime.durability.ledger import Ledger
from surehand.store.database import Statement
from surehand.store.tables import owners
from surehand.store.tables.inbox import InboxTable


def intent_after_effect() -> None:
    """The effect comes first, and is written down when it is over."""
    claim, end = Ledger.claim, Ledger.record_outcome

    async def pretend(self: Ledger, invocation: Any) -> bool:
        return True

    async def both(self: Ledger, invocation: Any, outcome: Any) -> Any:
        await claim(self, invocation)
        return await end(self, invocation, outcome)

    Ledger.claim, Ledger.record_outcome = pretend, both  # type: ignore[method-assign]


def told_before_written() -> None:
    """Whoever called hears of the outcome while it is still on its way to the disk."""
    end, late = Ledger.record_outcome, set[asyncio.Task[Any]]()

    async def sooner(self: Ledger, invocation: Any, outcome: Any) -> Any:
        task = asyncio.create_task(end(self, invocation, outcome))
        late.add(task)
        return outcome

    Ledger.record_outcome = sooner  # type: ignore[method-assign]


def runs_again() -> None:
    """A call whose process died while it ran is simply tried again."""
    query = "mark_running_calls_unknown"
    owners._SQL[query] = owners._SQL[query].replace("state = 'unknown'", "state = 'idle'")


def outcome_changes() -> None:
    """Whoever asks for a call again writes another outcome over the one that is there."""
    known = Ledger.open_call
    change = "UPDATE ledger SET outcome = '{\"done\":\"otherwise\"}' WHERE call_id = :call_id AND state = 'ended'"

    async def changing(self: Ledger, invocation: Any) -> Any:
        found = await known(self, invocation)
        await self._services.store.write([Statement(change, {"call_id": invocation.id})])
        return found

    Ledger.open_call = changing  # type: ignore[method-assign]


def inbox_apart() -> None:
    """The outcome is written, and the agent is told in another transaction."""
    pushed = InboxTable.push_statement
    InboxTable.push_statement = lambda self, agent, event_id, *rest: pushed(self, agent, f"{event_id}?", *rest)  # type: ignore[method-assign]


WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way for way in (intent_after_effect, told_before_written, runs_again, outcome_changes, inbox_apart)
}
