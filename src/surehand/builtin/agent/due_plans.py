"""Due: plans whose time has come, how an agent is told of them, and how they move on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surehand.builtin.agent.plans import format_time, next_cron_time
from surehand.core.errors import ToolError

if TYPE_CHECKING:
    from surehand.store.store import Store
    from surehand.store.tables.notes import NoteTable

_ADVANCE_PLAN_SQL = """UPDATE notes SET value = :new, updated_at = {now}
    WHERE agent = :agent AND kind = 'plan' AND key = :key AND value = :old RETURNING key"""


@dataclass(frozen=True, slots=True)
class DuePlan:
    """A plan whose time has come."""

    plan_id: str
    name: str
    instruction: str | None
    due_at: float
    """When it was to run."""
    note: Mapping[str, Any]

    @property
    def event_id(self) -> str:
        """The same however often it is told: an inbox takes it once."""
        return f"plan:{self.plan_id}:{int(self.due_at * 1000)}"

    @property
    def event_data(self) -> dict[str, Any]:
        """What an agent is told."""
        at = format_time(self.due_at, self.note["timezone"])
        return {"planId": self.plan_id, "name": self.name, "instruction": self.instruction, "scheduledAt": at}


async def find_due_plans(notes: NoteTable, agent: str, now: float) -> list[DuePlan]:
    """An agent's plans whose time has come, the oldest first. Nothing is changed: see `wake` and `advance`."""
    found = [
        DuePlan(key, note["name"], note["instruction"], note["nextRunAt"], note)
        for key, note in (await notes.all(agent, "plan")).items()
        if note["nextRunAt"] is not None and note["nextRunAt"] <= now
    ]
    return sorted(found, key=lambda plan: plan.due_at)


async def deliver_due_plans(
    store: Store, agent: str, now: float, *, max_delay_seconds: float | None = None
) -> list[DuePlan]:
    """Put the plans whose time has come into an agent's inbox, each once, and move them on; gives those it told.

    Args:
        patience: how many seconds late a plan may still be told; later ones expire, or wait for their next time.
    """
    told = []
    for plan in await find_due_plans(store.notes, agent, now):
        late = max_delay_seconds is not None and now - plan.due_at > max_delay_seconds
        # Told first: whoever dies in between tells it again, and the inbox knows it already.
        if not late and await store.inbox.push(agent, plan.event_id, "plan", plan.event_data):
            told.append(plan)
        await advance_plan(store, agent, plan, now, is_late=late)
    return told


async def advance_plan(store: Store, agent: str, plan: DuePlan, now: float, *, is_late: bool = False) -> bool:
    """Move a plan on that was due: to its next time, or to its end. False if it was changed meanwhile, and is kept."""
    from surehand.store.database import Statement

    new = json.dumps({**plan.note, **_advanced_fields(plan.note, now, is_late=is_late)})
    change = {"agent": agent, "key": plan.plan_id, "old": json.dumps(plan.note), "new": new}
    [changed] = await store.write([Statement(_ADVANCE_PLAN_SQL, change)])
    return bool(changed)


def _advanced_fields(note: Mapping[str, Any], now: float, *, is_late: bool) -> dict[str, Any]:
    if note["cron"] is None:
        return {"nextRunAt": None, "status": "expired" if is_late else "completed"}
    try:
        following = next_cron_time(note["cron"], now, note["timezone"])
    except ToolError:  # the zone, or the package, is gone since the plan was made
        following = None
    return {"nextRunAt": following, "status": "active" if following is not None else "expired"}
