"""The factory `spaces`: tools with which an agent reads and writes messages in the spaces of the runtime's store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from surehand.builtin.limited_field import limited_field
from surehand.builtin.runtime_store import OWN_NOTES_OPTIONS, runtime_store
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import FailureCode, NotFound, ToolError
from surehand.core.tool import Tool

if TYPE_CHECKING:
    from surehand.store.tables.messages import Message
    from surehand.store.tables.spaces import Space, SpaceTable

_MAX_MESSAGES = 200
MessageLimit = Annotated[int, Field(description=f"How many messages, at most {_MAX_MESSAGES}.", ge=1)]


def spaces() -> list[Tool[..., Any]]:
    """Tools with which an agent enters spaces, and reads and sends messages there."""

    @tool(category="system", **OWN_NOTES_OPTIONS)
    async def enter_space(
        space_id: Annotated[
            str, limited_field(alias="spaceId", description="Id of the space.", min_length=1, max_length=200)
        ],
        ctx: Context,
        limit: MessageLimit = 50,
    ) -> dict[str, Any]:
        """Make a space the active one, where send_message speaks and calls are shown, and see its newest messages."""
        async with runtime_store(ctx) as store:
            space = await _find_joined_space(store.spaces, space_id, ctx)
            history = await store.spaces.history(space_id, limit=min(limit, _MAX_MESSAGES))
            await ctx.enter_space(space_id)
        return {
            "success": True,
            "spaceId": space_id,
            "spaceName": space.name,
            "history": _render_messages(history),
            "totalMessages": space.messages,
        }

    @tool(category="system", **OWN_NOTES_OPTIONS)
    async def leave_space(ctx: Context) -> dict[str, Any]:
        """Leave the active space, so that no space is active. You stay a member and can enter it again."""
        space_id = _active_space_id(ctx)
        async with runtime_store(ctx):
            await ctx.enter_space(None)
        return {"success": True, "spaceId": space_id}

    @tool(category="system", effects={"write"}, visible=False)
    async def send_message(
        text: Annotated[str, limited_field(description="What to say.", min_length=1, max_length=50_000)], ctx: Context
    ) -> dict[str, Any]:
        """Say something in the active space. Everybody in it reads it, and the other agents are woken."""
        space_id = _active_space_id(ctx)
        try:
            async with runtime_store(ctx) as store:
                message = await store.spaces.post(space_id, text, sender=_require_member(ctx), stream_id=ctx.call_id)
        except NotFound:
            raise _not_a_member_error() from None
        return {"success": True, "messageId": message.message_id, "spaceId": space_id, "status": "delivered"}

    @tool(category="system", effects={"read"}, repeatable=True, visible=False)
    async def read_messages(
        ctx: Context,
        space_id: Annotated[
            str | None,
            limited_field(alias="spaceId", description="Id of the space; the active one if left out.", max_length=200),
        ] = None,
        limit: MessageLimit = 50,
        offset: Annotated[int, Field(description="How many of the newest messages to pass over.", ge=0)] = 0,
    ) -> dict[str, Any]:
        """Read messages of a space, oldest first, without entering it. Page back with offset."""
        async with runtime_store(ctx) as store:
            space = await _find_joined_space(store.spaces, space_id or _active_space_id(ctx), ctx)
            before = space.messages - min(offset, space.messages) + 1
            messages = await store.spaces.history(space.space_id, limit=min(limit, _MAX_MESSAGES), before=before)
        return {"messages": _render_messages(messages), "total": space.messages}

    posts_text = replace(send_message.presentation, posted_argument="text")
    return [enter_space, leave_space, send_message.evolve(presentation=posts_text), read_messages]


def _require_member(ctx: Context) -> str:
    """The member that a call acts for: its agent, or else its user."""
    member = ctx.agent or ctx.user
    if not member:
        raise _not_a_member_error()
    return member


async def _find_joined_space(all_spaces: SpaceTable, space_id: str, ctx: Context) -> Space:
    """Find a space that the caller is a member of; other spaces and missing ones get the same error."""
    joined = await all_spaces.of_member(_require_member(ctx))
    for space in joined:
        if space.space_id == space_id:
            return space
    raise _not_a_member_error()


def _active_space_id(ctx: Context) -> str:
    _require_member(ctx)
    if ctx.space is None:
        raise _space_error("No active space. Call enter_space first.", "failed")
    return ctx.space


def _not_a_member_error() -> ToolError:
    return _space_error("Not a member of this space", "denied")


def _space_error(problem: str, code: FailureCode) -> ToolError:
    return ToolError(problem, code=code, data={"success": False, "error": problem})


def _render_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [
        {
            "id": message.message_id,
            "senderName": message.sender_name,
            "senderType": message.sender_kind,
            "content": message.content,
            "timestamp": datetime.fromtimestamp(message.created_at, UTC).isoformat(timespec="milliseconds"),
        }
        for message in messages
    ]
