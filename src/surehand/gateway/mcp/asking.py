"""Asking: in the older protocol a person is asked within the request, unless somebody else answers first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
from pydantic import ValidationError

from surehand.gateway.mcp.ended import ended

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from surehand.gateway.mcp.questions import Answers, Question


async def asked(
    ctx: ServerRequestContext[Any, Any], question: Question, moot: Callable[[], Awaitable[object]]
) -> Answers | None:
    """The answers; None where nobody can be asked, or once nobody need be: then what is open is withdrawn.

    Args:
        moot: comes back when the question needs no answer any more.
    """
    loop = asyncio.get_running_loop()
    asking = loop.create_task(_answers(ctx, question), name="mcp: asking")
    watching = loop.create_task(_until(moot), name="mcp: still asking")
    try:
        await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        await ended(asking, watching)  # a client is told that nobody asks any more


async def _until(moot: Callable[[], Awaitable[object]]) -> None:
    await moot()


async def _answers(ctx: ServerRequestContext[Any, Any], question: Question) -> Answers | None:
    try:
        return {key: await _elicited(ctx, key, params) for key, params in question.requests.items()}
    except (MCPError, ValidationError):  # it said that it can be asked, but it cannot: the call goes on waiting
        return None


async def _elicited(ctx: ServerRequestContext[Any, Any], key: str, params: dict[str, Any]) -> dict[str, Any]:
    asked: Any
    if params["mode"] == "url":
        asked = ElicitRequestURLParams(**params, elicitation_id=f"{ctx.request_id}-{key}")
    else:
        asked = ElicitRequestFormParams(message=params["message"], requested_schema=params["requestedSchema"])
    sent = ServerMessageMetadata(related_request_id=ctx.request_id)
    result = await ctx.session.send_request(ElicitRequest(params=asked), ElicitResult, metadata=sent)
    return result.model_dump(mode="json", exclude_none=True)
