"""The factory `plans`: tools with which an agent plans to be woken later, once or by a cron expression.

Plans are notes in the runtime's store; `due_plans` delivers them when they are due.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from surehand.builtin.agent.notes import MAX_NOTES_PER_CALL, AgentNotes, NoteKey, derive_note_key
from surehand.builtin.clock import find_time_zone
from surehand.builtin.limited_field import limited_field
from surehand.builtin.runtime_store import OWN_NOTES_OPTIONS
from surehand.core.clock import Clock
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, Unavailable
from surehand.core.extras import install_command
from surehand.core.tool import Tool

_DELAY = re.compile(r"([0-9]{1,6})\s*(minute|hour|day|week)s?\Z", re.IGNORECASE)
_SECONDS_PER_UNIT = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_MAX_FUTURE_SECONDS = 20 * 365 * 86_400
_NOTE_FIELDS = ("name", "instruction", "cron", "scheduledAt", "timezone", "status")
"""Fields of a stored plan that the model is shown unchanged."""
PlanStatus: TypeAlias = Literal["pending", "active", "completed", "expired"]
"""`pending` runs once, `active` recurs, `completed` has run, and `expired` was too late to run."""


class Plan(BaseModel):
    """One plan; exactly one of `cron`, `scheduledAt` and `runAfter` says when."""

    id: NoteKey | None = Field(default=None, description="Id of the plan to replace; leave it out for a new one.")
    name: str = limited_field(description="Short name of the plan.", min_length=1, max_length=200)
    instruction: str | None = limited_field(
        default=None, description="What to do when the time comes.", max_length=8_000
    )
    cron: str | None = limited_field(
        default=None, description="When, recurring: minute hour day month weekday.", max_length=100
    )
    scheduled_at: str | None = limited_field(
        default=None, alias="scheduledAt", description="When, once: ISO 8601 date and time.", max_length=60
    )
    run_after: str | None = limited_field(
        default=None, alias="runAfter", description="When, once: '30 minutes', '2 hours', '1 day'.", max_length=60
    )
    timezone: str = limited_field(
        default="UTC", description="IANA zone of cron and of times without offset.", max_length=100
    )


def plans(source: Clock | None = None) -> list[Tool[..., Any]]:
    """Tools with which an agent plans to be woken later. Call `surehand.builtin.agent.due_plans` to deliver them.

    Args:
        source: the clock to use; a test passes the clock of its runtime.
    """
    notes = AgentNotes("plan")
    clock = source or Clock()

    @tool(category="memory", **OWN_NOTES_OPTIONS,
          examples=[{"plans": [{"name": "Stand-up", "cron": "30 9 * * MON-FRI", "timezone": "Europe/Berlin"}]},
                    {"plans": [{"name": "Look again", "runAfter": "2 hours"}]}])  # fmt: skip
    async def set_plans(
        plans: Annotated[
            list[Plan],
            limited_field(description="Plans to add or replace.", min_length=1, max_length=MAX_NOTES_PER_CALL),
        ],
        ctx: Context,
    ) -> dict[str, Any]:
        """Plan to be woken later: give each plan exactly one of cron, scheduledAt or runAfter."""
        stored = await notes.read_all(ctx)
        new_notes: dict[str, Mapping[str, Any]] = {}
        for index, plan in enumerate(plans):
            key = plan.id or derive_note_key(ctx, index)
            old_note = stored.get(key, {"setBy": None})
            # A repeated call keeps the note: the plan may have run meanwhile, and "in 2 hours" must not start anew.
            if old_note["setBy"] == ctx.call_id:
                new_notes[key] = old_note
            else:
                new_notes[key] = _build_note(plan, clock.time(), ctx.call_id)
            await asyncio.sleep(0)  # cronsim may search fifty years for a date: let other tasks run in between
        await notes.write(ctx, new_notes)
        rendered = [_render_plan(key, note) for key, note in new_notes.items()]
        return {"success": True, "count": len(new_notes), "plans": rendered}

    @tool(category="memory", effects={"read"}, repeatable=True, visible=False)
    async def get_plans(
        ctx: Context,
        status: Annotated[PlanStatus | None, Field(description="Only plans that stand so; all if left out.")] = None,
    ) -> dict[str, Any]:
        """List your plans, with the next one to run first."""
        stored = await notes.read_all(ctx)
        matching = [(key, note) for key, note in stored.items() if status in (None, note["status"])]
        matching.sort(key=lambda item: item[1]["nextRunAt"] or float("inf"))
        return {"plans": [_render_plan(key, note) for key, note in matching]}

    @tool(category="memory", **OWN_NOTES_OPTIONS)
    async def delete_plans(
        plan_ids: Annotated[
            list[NoteKey],
            limited_field(
                alias="planIds", description="Ids of the plans to give up.", min_length=1, max_length=MAX_NOTES_PER_CALL
            ),
        ],
        ctx: Context,
    ) -> dict[str, Any]:
        """Give plans up, by their ids: you are not woken for them any more."""
        return {"success": True, "deleted": await notes.delete(ctx, plan_ids)}

    return [set_plans, get_plans, delete_plans]


def _build_note(plan: Plan, now: float, call_id: str) -> dict[str, Any]:
    """The stored form of a plan."""
    run_time = _first_run_time(plan, now)
    is_recurring = plan.cron is not None
    return {
        "name": plan.name,
        "instruction": plan.instruction,
        "cron": plan.cron,
        "scheduledAt": None if is_recurring else format_time(run_time, plan.timezone),
        "timezone": plan.timezone,
        "nextRunAt": run_time,
        "status": "active" if is_recurring else "pending",
        "setBy": call_id,
    }


def _first_run_time(plan: Plan, now: float) -> float:
    find_time_zone(plan.timezone)  # refuses an unknown name
    given = [name for name in ("cron", "scheduled_at", "run_after") if getattr(plan, name) is not None]
    match given:
        case ["cron"]:
            return _require_run_time(plan, next_cron_time(plan.cron or "", now, plan.timezone))
        case ["scheduled_at"]:
            return parse_scheduled_at(plan.scheduled_at or "", now, plan.timezone)
        case ["run_after"]:
            return parse_run_after(plan.run_after or "", now)
    raise InvalidArguments(
        f"Plan {plan.name!r} has {len(given)} of cron, scheduledAt and runAfter. Give exactly one of them."
    )


def _require_run_time(plan: Plan, run_time: float | None) -> float:
    if run_time is None:
        raise InvalidArguments(f"cron {plan.cron!r} names no time in the next 50 years. Give one that comes.")
    return run_time


def _render_plan(key: str, note: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: note[name] for name in _NOTE_FIELDS}
    return {"id": key, **fields, "nextRunAt": format_time(note["nextRunAt"], note["timezone"])}


def parse_run_after(text: str, now: float) -> float:
    """The time `30 minutes`, `2 hours`, `1 day` or `3 weeks` from now, in seconds since the epoch."""
    match = _DELAY.match(text.strip())
    if match is None or not int(match[1]):
        raise InvalidArguments(
            f"runAfter {text[:60]!r} is no time. Write '30 minutes', '2 hours', '1 day' or '3 weeks'."
        )
    delay = int(match[1]) * _SECONDS_PER_UNIT[match[2].lower()]
    return _validate_future("runAfter", text, now + delay, now)


def parse_scheduled_at(text: str, now: float, timezone: str) -> float:
    """Parse an ISO 8601 date and time. Without an offset, it is a local time of the time zone."""
    try:
        time = datetime.fromisoformat(text.strip())
        if time.tzinfo is None:
            time = time.replace(tzinfo=find_time_zone(timezone))
        timestamp = time.timestamp()
    except (ValueError, OverflowError):
        example = "2027-03-31T09:00:00+02:00"
        raise InvalidArguments(f"scheduledAt {text[:60]!r} is no date and time. Write ISO 8601: {example}.") from None
    return _validate_future("scheduledAt", text, timestamp, now)


def next_cron_time(cron: str, after: float, timezone: str) -> float | None:
    """The first time after `after` that matches a cron expression; None if no time ever does."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise Unavailable(f"plans with cron need the package cronsim: {install_command('cron')}") from None

    start = datetime.fromtimestamp(after, find_time_zone(timezone))
    try:
        if len(cron.split()) != 5:
            raise CronSimError("it needs five fields")
        return next(CronSim(cron, start)).timestamp()
    except StopIteration:
        return None
    except (CronSimError, AssertionError, ValueError, TypeError) as error:
        example = "'30 9 * * MON-FRI' is 9:30 on working days"
        problem = f"cron {cron[:60]!r}: {str(error) or 'wrong'}."
        raise InvalidArguments(f"{problem} Minute, hour, day, month, weekday: {example}.") from None


def format_time(timestamp: float | None, timezone: str) -> str | None:
    """A timestamp as ISO 8601 in a time zone."""
    if timestamp is None:
        return None
    return datetime.fromtimestamp(timestamp, _time_zone_or_utc(timezone)).isoformat(timespec="seconds")


def _time_zone_or_utc(timezone: str) -> tzinfo:
    try:
        return find_time_zone(timezone)
    except (InvalidArguments, Unavailable):
        return UTC  # the time zone database has changed since the plan was stored


def _validate_future(parameter: str, text: str, timestamp: float, now: float) -> float:
    if not now < timestamp <= now + _MAX_FUTURE_SECONDS:
        side = "past" if timestamp <= now else "far future"
        raise InvalidArguments(f"{parameter} {text[:60]!r} is in the {side}: it is {format_time(now, 'UTC')} now.")
    return timestamp
