"""Delivery of plans that are due: each becomes an event in its agent's inbox, for the user that the plan was made for.

A host calls `deliver_due_plans` at intervals, which moves each plan to its next time. Plans are notes in the store,
written by the tools of `plans`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surehand.builtin.agent.plans import format_time, next_cron_time
from surehand.core.errors import ToolError

if TYPE_CHECKING:
    from surehand.store.store import Store
    from surehand.store.tables.notes import NoteTable


@dataclass(frozen=True, slots=True)
class DuePlan:
    """A plan that is due."""

    plan_id: str
    name: str
    instruction: str | None
    due_at: float
    """When the plan was to run, in seconds since the epoch."""
    note: Mapping[str, Any]
    user: str | None = None
    """The user that the agent made the plan for."""

    @property
    def event_id(self) -> str:
        """The same id at every delivery of one occurrence, so that the inbox accepts it once."""
        return f"plan:{self.plan_id}:{int(self.due_at * 1000)}"

    @property
    def event_data(self) -> dict[str, Any]:
        """The data of the inbox event."""
        at = format_time(self.due_at, self.note["timezone"])
        return {"planId": self.plan_id, "name": self.name, "instruction": self.instruction, "scheduledAt": at}


async def find_due_plans(notes: NoteTable, agent: str, now: float) -> list[DuePlan]:
    """Find the plans of an agent that are due, for any user, the oldest first, without changing them."""
    due_plans = [
        DuePlan(key, note["name"], note["instruction"], note["nextRunAt"], note, user)
        for user, plans in (await notes.all_users(agent, "plan")).items()
        for key, note in plans.items()
        if note["nextRunAt"] is not None and note["nextRunAt"] <= now
    ]
    return sorted(due_plans, key=lambda plan: plan.due_at)


async def deliver_due_plans(
    store: Store, agent: str, now: float, *, max_delay_seconds: float | None = None
) -> list[DuePlan]:
    """Put the due plans of an agent into its inbox, each once, and advance them; return the delivered ones.

    Args:
        max_delay_seconds: how late a plan may still be delivered. A later one expires, or waits for its next time.
    """
    delivered = []
    for plan in await find_due_plans(store.notes, agent, now):
        is_late = max_delay_seconds is not None and now - plan.due_at > max_delay_seconds
        # Delivered before it is advanced: after a crash in between it is delivered again, and the inbox ignores that.
        is_new = not is_late and await store.inbox.push(agent, plan.event_id, "plan", plan.event_data, user=plan.user)
        if is_new:
            delivered.append(plan)
        await advance_plan(store, agent, plan, now, is_late=is_late)
    return delivered


async def advance_plan(store: Store, agent: str, plan: DuePlan, now: float, *, is_late: bool = False) -> bool:
    """Set a due plan to its next time, or mark it as completed; return False if it was changed meanwhile."""
    new_note = {**plan.note, **_advanced_fields(plan.note, now, is_late=is_late)}
    return await store.notes.replace(agent, "plan", plan.plan_id, old=plan.note, new=new_note, user=plan.user)


def _advanced_fields(note: Mapping[str, Any], now: float, *, is_late: bool) -> dict[str, Any]:
    if note["cron"] is None:
        return {"nextRunAt": None, "status": "expired" if is_late else "completed"}
    try:
        next_time = next_cron_time(note["cron"], now, note["timezone"])
    except ToolError:  # the time zone or cronsim has been removed since the plan was stored
        next_time = None
    return {"nextRunAt": next_time, "status": "active" if next_time is not None else "expired"}
