"""The factory `delegate`: tools with which a model asks its host for something. Their outcome names the action."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from surehand.builtin.limited_field import limited_field
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.outcome import Done
from surehand.core.tool import Tool

ASSIST_REQUIRED = "LLM_ASSIST_REQUIRED"
"""Marks an outcome that the host has to complete with a model."""
_MAX_TEXT_LENGTH = 200_000


def delegate() -> list[Tool[..., Any]]:
    """Tools whose outcome tells your program what to do: `{"action": ...}`. There are no agents yet that would."""

    @tool(category="system", effects={"execute"}, repeatable=True, visible=False, toolsets="main_agent_tools")
    async def spawn_task(
        description: Annotated[
            str, limited_field(description="A few words on the task.", min_length=1, max_length=500)
        ],
        input: Annotated[
            str, limited_field(description="All that the task needs to know.", max_length=_MAX_TEXT_LENGTH)
        ],
    ) -> dict[str, Any]:
        """Hand a piece of work to a background task. It knows only the input, and its result comes later."""
        return {"action": "spawn_task", "description": description, "input": input}

    @tool(category="system", effects={"execute"}, repeatable=True, visible=False)
    async def resume_task(
        task_id: Annotated[str, limited_field(description="Id of the waiting task.", min_length=1, max_length=200)],
        input: Annotated[str, limited_field(description="What it asked for.", max_length=_MAX_TEXT_LENGTH)],
    ) -> dict[str, Any]:
        """Let a task go on that waits for more information, and give it that."""
        return {"action": "resume_task", "task_id": task_id, "input": input}

    @tool(category="system", effects={"read"}, repeatable=True, visible=False, toolsets="main_agent_tools")
    async def reply(
        text: Annotated[
            str, limited_field(description="What to say to the person.", min_length=1, max_length=_MAX_TEXT_LENGTH)
        ],
        channel_id: Annotated[
            str, limited_field(alias="channelId", description="Channel the person wrote in.", max_length=200)
        ],
        reply_to: Annotated[
            str | None,
            limited_field(alias="replyTo", description="Id of the message that is answered.", max_length=200),
        ] = None,
    ) -> dict[str, Any]:
        """Say something to the person in a channel. This is the only output that people see."""
        return {"action": "reply", "text": text, "channelId": channel_id, "replyTo": reply_to}

    @tool(category="system", effects={"execute"}, repeatable=True, visible=False)
    async def task(
        description: Annotated[
            str, limited_field(description="The task in three to five words.", min_length=1, max_length=500)
        ],
        prompt: Annotated[
            str, limited_field(description="All that the sub-agent needs to know.", max_length=_MAX_TEXT_LENGTH)
        ],
        ctx: Context,
        subagent_type: Annotated[
            Literal["general", "code-review", "research", "planning"],
            Field(description="Which kind of sub-agent is to do it."),
        ] = "general",
        session_id: Annotated[
            str | None, limited_field(description="Session of an earlier task to go on with.", max_length=200)
        ] = None,
    ) -> Done:
        """Ask for a sub-agent to work on a self-contained task and report back. It sees only the prompt."""
        session = session_id or f"task-{ctx.call_id}"
        request = {
            "action": ASSIST_REQUIRED,
            "taskType": "subagent_delegation",
            "sessionID": session,
            "subagentType": subagent_type,
            "description": description,
            "prompt": prompt,
            "message": f"A {subagent_type} sub-agent has to do this; its answer comes from the host.",
        }
        metadata = {"error": ASSIST_REQUIRED, "sessionID": session, "subagentType": subagent_type, "status": "pending"}
        return Done(request, title=description, metadata=metadata)

    return [spawn_task, resume_task, reply, task]
