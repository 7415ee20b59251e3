"""Plans: what an agent means to do later, and when it is to be woken for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from surehand.builtin.agent.notes import MAX_NOTES_PER_CALL, AgentNotes, NoteKey, derive_note_key
from surehand.builtin.clock import find_time_zone
from surehand.core.clock import Clock
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, Unavailable
from surehand.core.tool import Tool

_DELAY = re.compile(r"([0-9]{1,6})\s*(minute|hour|day|week)s?\Z", re.IGNORECASE)
_SECONDS_PER_UNIT = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_MAX_FUTURE_SECONDS = 20 * 365 * 86_400


def parse_run_after(text: str, now: float) -> float:
    """`30 minutes`, `2 hours`, `1 day` or `3 weeks` from now, in seconds since the epoch."""
    found = _DELAY.match(text.strip())
    if found is None or not int(found[1]):
        raise InvalidArguments(
            f"runAfter {text[:60]!r} is no time. Write '30 minutes', '2 hours', '1 day' or '3 weeks'."
        )
    return _validate_future("runAfter", text, now + int(found[1]) * _SECONDS_PER_UNIT[found[2].lower()], now)


def parse_scheduled_at(text: str, now: float, timezone: str) -> float:
    """An ISO 8601 date and time; one without an offset is meant in the time zone."""
    try:
        local = datetime.fromisoformat(text.strip())
        at = (local if local.tzinfo else local.replace(tzinfo=find_time_zone(timezone))).timestamp()
    except (ValueError, OverflowError):
        example = "2027-03-31T09:00:00+02:00"
        raise InvalidArguments(f"scheduledAt {text[:60]!r} is no date and time. Write ISO 8601: {example}.") from None
    return _validate_future("scheduledAt", text, at, now)


def next_cron_time(cron: str, after: float, timezone: str) -> float | None:
    """The first moment strictly after another that a cron expression names; None if there is none."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise Unavailable("plans with cron need the package cronsim: pip install 'surehand[cron]'") from None

    start = datetime.fromtimestamp(after, find_time_zone(timezone))
    try:
        if len(cron.split()) != 5:
            raise CronSimError("it needs five fields")
        return next(CronSim(cron, start)).timestamp()
    except StopIteration:
        return None
    except (CronSimError, AssertionError, ValueError, TypeError) as error:
        example = "'30 9 * * MON-FRI' is 9:30 on working days"
        raise InvalidArguments(f"cron {cron[:60]!r}: {str(error) or 'wrong'}. Minute, hour, day, month, weekday: {example}.") from None  # fmt: skip # noqa: E501


def format_time(timestamp: float | None, timezone: str) -> str | None:
    """A moment as ISO 8601 in a time zone."""
    return (
        None
        if timestamp is None
        else datetime.fromtimestamp(timestamp, _time_zone_or_utc(timezone)).isoformat(timespec="seconds")
    )


def _time_zone_or_utc(timezone: str) -> tzinfo:
    try:
        return find_time_zone(timezone)
    except (InvalidArguments, Unavailable):
        return UTC  # the database of zones has changed since the plan was made


def _validate_future(parameter: str, text: str, timestamp: float, now: float) -> float:
    if not now < timestamp <= now + _MAX_FUTURE_SECONDS:
        side = "past" if timestamp <= now else "far future"
        raise InvalidArguments(f"{parameter} {text[:60]!r} is in the {side}: it is {format_time(now, 'UTC')} now.")
    return timestamp


PlanStatus: TypeAlias = Literal["pending", "active", "completed", "expired"]
"""Waiting for its one time, recurring, done, or too late to be done."""


class Plan(BaseModel):
    """One plan; exactly one of `cron`, `scheduledAt` and `runAfter` says when."""

    id: NoteKey | None = Field(default=None, description="Id of the plan to replace; leave it out for a new one.")
    name: str = Field(description="Short name of the plan.", min_length=1, max_length=200)
    instruction: str | None = Field(default=None, description="What to do when the time comes.", max_length=8_000)
    cron: str | None = Field(
        default=None, description="When, recurring: minute hour day month weekday.", max_length=100
    )
    scheduled_at: str | None = Field(
        default=None, alias="scheduledAt", description="When, once: ISO 8601 date and time.", max_length=60
    )
    run_after: str | None = Field(
        default=None, alias="runAfter", description="When, once: '30 minutes', '2 hours', '1 day'.", max_length=60
    )
    timezone: str = Field(default="UTC", description="IANA zone of cron and of times without offset.", max_length=100)


def plans(source: Clock | None = None) -> list[Tool[..., Any]]:
    """Tools with which an agent plans to be woken, on the runtime's store; `surehand.builtin.agent.due_plans` wakes it.

    Args:
        source: the clock that plans are made by; a test gives the one of its runtime.
    """
    book, clock = AgentNotes("plan"), source or Clock()

    @tool(category="memory", effects={"read"}, repeatable=True, visible=False,
          examples=[{"plans": [{"name": "Stand-up", "cron": "30 9 * * MON-FRI", "timezone": "Europe/Berlin"}]},
                    {"plans": [{"name": "Look again", "runAfter": "2 hours"}]}])  # fmt: skip
    async def set_plans(
        plans: Annotated[
            list[Plan], Field(description="Plans to add or replace.", min_length=1, max_length=MAX_NOTES_PER_CALL)
        ],
        ctx: Context,
    ) -> dict[str, Any]:
        """Plan to be woken later: give each plan exactly one of cron, scheduledAt or runAfter."""
        known = await book.read_all(ctx)
        notes: dict[str, Mapping[str, Any]] = {}
        for number, plan in enumerate(plans):
            key = plan.id or derive_note_key(ctx, number)
            old = known.get(key, {"setBy": None})
            # A call that is run again changes nothing: the plan may have run meanwhile, and two hours are not four.
            notes[key] = old if old["setBy"] == ctx.call_id else _build_note(plan, clock.time(), ctx.call_id)
            await asyncio.sleep(0)  # a cron expression may be looked for over fifty years, and others want to go on
        await book.write(ctx, notes)
        return {"success": True, "count": len(notes), "plans": [_render_plan(key, note) for key, note in notes.items()]}

    @tool(category="memory", effects={"read"}, repeatable=True, visible=False)
    async def get_plans(
        ctx: Context,
        status: Annotated[PlanStatus | None, Field(description="Only plans that stand so; all if left out.")] = None,
    ) -> dict[str, Any]:
        """List your plans with their ids, status and next time, the next to run first."""
        found = [(key, note) for key, note in (await book.read_all(ctx)).items() if status in (None, note["status"])]
        found.sort(key=lambda pair: pair[1]["nextRunAt"] or float("inf"))
        return {"plans": [_render_plan(key, note) for key, note in found]}

    @tool(category="memory", effects={"read"}, repeatable=True, visible=False)
    async def delete_plans(
        plan_ids: Annotated[
            list[NoteKey],
            Field(
                alias="planIds", description="Ids of the plans to give up.", min_length=1, max_length=MAX_NOTES_PER_CALL
            ),
        ],
        ctx: Context,
    ) -> dict[str, Any]:
        """Give plans up, by their ids: you are not woken for them any more."""
        return {"success": True, "deleted": await book.delete(ctx, plan_ids)}

    return [set_plans, get_plans, delete_plans]


def _build_note(plan: Plan, now: float, call_id: str) -> dict[str, Any]:
    at = _first_run_time(plan, now)
    return {
        "name": plan.name, "instruction": plan.instruction, "cron": plan.cron,
        "scheduledAt": None if plan.cron is not None else format_time(at, plan.timezone), "timezone": plan.timezone,
        "nextRunAt": at, "status": "pending" if plan.cron is None else "active", "setBy": call_id,
    }  # fmt: skip


def _first_run_time(plan: Plan, now: float) -> float:
    find_time_zone(plan.timezone)
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
    plain = {name: note[name] for name in ("name", "instruction", "cron", "scheduledAt", "timezone", "status")}
    return {"id": key, **plain, "nextRunAt": format_time(note["nextRunAt"], note["timezone"])}
