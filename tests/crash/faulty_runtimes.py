"""Deliberate faults for a runtime. The invariant checks must detect each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from surehand import Done
from surehand.agent.loop import RunLoop
from surehand.agent.models.base import ModelRequest
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.durability.repeated_calls import RepeatedCalls
from surehand.runtime.pending import following_calls
from surehand.store.database import Statement
from surehand.store.tables import owners
from surehand.store.tables.inbox import InboxTable
from surehand.store.tables.steps import StepTable
from tests.crash.agent_driver import CURRENT_RUN


def intent_after_effect() -> None:
    """Record the intent after the effect instead of before it."""
    claim, record_outcome = Ledger.claim, Ledger.record_outcome

    async def pretend_to_claim(self: Ledger, invocation: Any, **options: Any) -> bool:
        return True

    async def claim_and_record(self: Ledger, invocation: Any, outcome: Any, **options: Any) -> Any:
        await claim(self, invocation)
        return await record_outcome(self, invocation, outcome, **options)

    Ledger.claim, Ledger.record_outcome = pretend_to_claim, claim_and_record  # type: ignore[method-assign]


def reply_before_write() -> None:
    """Return the outcome to the caller before it is written to disk."""
    record_outcome, background_tasks = Ledger.record_outcome, set[asyncio.Task[Any]]()

    async def record_in_background(self: Ledger, invocation: Any, outcome: Any, **options: Any) -> Any:
        task = asyncio.create_task(record_outcome(self, invocation, outcome, **options))
        background_tasks.add(task)
        return outcome

    Ledger.record_outcome = record_in_background  # type: ignore[method-assign]


def rerun_unknown_calls() -> None:
    """Run a call again although its process died while it ran."""
    query = "mark_running_calls_unknown"
    owners._SQL[query] = owners._SQL[query].replace("state = 'unknown'", "state = 'idle'")


def overwrite_outcome() -> None:
    """Overwrite the stored outcome when a call is requested again."""
    open_call = Ledger.open_call
    change = "UPDATE ledger SET outcome = '{\"done\":\"otherwise\"}' WHERE call_id = :call_id AND state = 'ended'"

    async def open_and_overwrite(self: Ledger, invocation: Any) -> Any:
        opened = await open_call(self, invocation)
        await self._store.current.write([Statement(change, {"call_id": invocation.id})])
        return opened

    Ledger.open_call = open_and_overwrite  # type: ignore[method-assign]


def push_to_inbox_separately() -> None:
    """Notify the agent in another transaction than the one that writes the outcome."""
    push_statement = InboxTable.push_statement

    def push_under_another_id(self: InboxTable, agent: str, event_id: str, *rest: Any, **options: Any) -> Statement:
        return push_statement(self, agent, f"{event_id}?", *rest, **options)

    InboxTable.push_statement = push_under_another_id  # type: ignore[method-assign]


def ask_model_again() -> None:
    """Ask the model for an answer that is stored, whenever a process goes on with a run."""
    drive = RunLoop.drive

    async def ask_and_drive(self: RunLoop) -> Any:
        CURRENT_RUN.set(self._state.run_id)
        async for _ in self._settings.model.stream(ModelRequest(self._state.prompt)):
            pass
        return await drive(self)

    RunLoop.drive = ask_and_drive  # type: ignore[method-assign]


def drop_outcomes_of_steps() -> None:
    """Ask the model again before the outcomes of its calls are stored with the step."""

    async def pretend_to_store(self: StepTable, *args: Any, **options: Any) -> bool:
        return True

    StepTable.set_outcomes = pretend_to_store  # type: ignore[method-assign]


def never_follow() -> None:
    """Ask again for a call of a session that waits already."""

    def have_no_key(self: RepeatedCalls, invocation: Any) -> None:
        return None

    RepeatedCalls.key_of = have_no_key  # type: ignore[method-assign]


def forget_reports() -> None:
    """End a call that waits for a run without the report of the run."""
    following_calls.outcome_of_run = lambda run: Done("It has ended.") if run.has_ended else None


def forget_inner_outcomes() -> None:
    """End a call that waits for another call without the outcome of that one."""
    following_calls.deserialize_outcome = lambda text: Done("It has ended.")
    end_following_calls = following_calls.FollowingCalls.end_following_calls

    async def end_without_outcome(self: Any, call_id: str, outcome: Any = None) -> None:
        await end_following_calls(self, call_id)

    following_calls.FollowingCalls.end_following_calls = end_without_outcome  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (
        intent_after_effect,
        reply_before_write,
        rerun_unknown_calls,
        overwrite_outcome,
        push_to_inbox_separately,
        ask_model_again,
        drop_outcomes_of_steps,
        never_follow,
        forget_reports,
        forget_inner_outcomes,
    )
}
