"""The factory `todo`: tools with which a model keeps a list of steps for one session, in the runtime's store."""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from surehand.builtin.limited_field import limited_field
from surehand.builtin.runtime_store import OWN_NOTES_OPTIONS, runtime_store
from surehand.core.content import Text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.outcome import Done
from surehand.core.tool import Tool

_STATUS_ICONS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
_LIST_KEY = "list"


class Todo(BaseModel):
    """One step."""

    content: str = limited_field(
        description="What is to be done, as an order: 'Run the tests'.", min_length=1, max_length=2_000
    )
    status: Literal["pending", "in_progress", "completed"] = Field(description="How it stands.")
    active_form: str | None = limited_field(
        default=None,
        alias="activeForm",
        description="The same while it is being done: 'Running the tests'.",
        max_length=2_000,
    )


def todo() -> list[Tool[..., Any]]:
    """Tools that keep a list of steps for each session of each user, in the runtime's store."""

    @tool(category="system", **OWN_NOTES_OPTIONS,
          examples=[{"todos": [{"content": "Run the tests", "status": "in_progress", "activeForm": "Running the tests"}]}])  # fmt: skip # noqa: E501
    async def todowrite(
        todos: Annotated[
            list[Todo], limited_field(description="The whole list, in order; it replaces the old.", max_length=500)
        ],
        ctx: Context,
    ) -> Done:
        """Replace this session's todo list. Send every item each time, with one item in progress."""
        items = [item.model_dump(by_alias=True, exclude_none=True) for item in todos]
        async with runtime_store(ctx) as store:
            await store.notes.put(_list_owner(ctx), "todo", {_LIST_KEY: items})
        return _render_todos(items, "(empty list)")

    @tool(category="system", effects={"read"}, repeatable=True, visible=False)
    async def todoread(ctx: Context) -> Done:
        """Show this session's todo list and how far it is."""
        async with runtime_store(ctx) as store:
            notes = await store.notes.all(_list_owner(ctx), "todo")
        return _render_todos(notes.get(_LIST_KEY, []), "(no todos)")

    return [todowrite, todoread]


def _list_owner(ctx: Context) -> str:
    """The name under which the list of a session is stored."""
    # JSON keeps names apart that joined strings could make equal.
    return json.dumps([ctx.user, ctx.session])


def _render_todos(todos: list[dict[str, Any]], empty_text: str) -> Done:
    counts = Counter(item["status"] for item in todos)
    text = "\n".join(map(_render_todo, todos)) or empty_text
    status_counts = {status: counts[status] for status in _STATUS_ICONS}
    remaining = len(todos) - counts["completed"]
    return Done(
        {"todos": todos},
        content=[Text(text)],
        title=f"{remaining} of {len(todos)} left",
        metadata={"todoCount": len(todos), "statusCounts": status_counts},
    )


def _render_todo(item: dict[str, Any]) -> str:
    active_form = item.get("activeForm") if item["status"] == "in_progress" else None
    return f"{_STATUS_ICONS[item['status']]} {active_form or item['content']}"
