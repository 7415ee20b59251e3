"""Asking: in the older protocol a person is asked within the request, unless somebody else answers first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
from pydantic import ValidationError

from surehand.gateway.mcp.ended import cancel_and_wait

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from surehand.gateway.mcp.questions import ElicitationAnswers, ElicitationQuestion


async def ask_client(
    ctx: ServerRequestContext[Any, Any], question: ElicitationQuestion, wait_until_moot: Callable[[], Awaitable[object]]
) -> ElicitationAnswers | None:
    """The answers; None where nobody can be asked, or once nobody need be: then what is open is withdrawn.

    Args:
        moot: comes back when the question needs no answer any more.
    """
    loop = asyncio.get_running_loop()
    asking = loop.create_task(_elicit_all(ctx, question), name="mcp: asking")
    watching = loop.create_task(_run_wait(wait_until_moot), name="mcp: still asking")
    try:
        await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        await cancel_and_wait(asking, watching)  # a client is told that nobody asks any more


async def _run_wait(wait_until_moot: Callable[[], Awaitable[object]]) -> None:
    await wait_until_moot()


async def _elicit_all(ctx: ServerRequestContext[Any, Any], question: ElicitationQuestion) -> ElicitationAnswers | None:
    try:
        return {key: await _elicit(ctx, key, params) for key, params in question.requests.items()}
    except (MCPError, ValidationError):  # it said that it can be asked, but it cannot: the call goes on waiting
        return None


async def _elicit(ctx: ServerRequestContext[Any, Any], key: str, params: dict[str, Any]) -> dict[str, Any]:
    asked: Any
    if params["mode"] == "url":
        asked = ElicitRequestURLParams(**params, elicitation_id=f"{ctx.request_id}-{key}")
    else:
        asked = ElicitRequestFormParams(message=params["message"], requested_schema=params["requestedSchema"])
    sent = ServerMessageMetadata(related_request_id=ctx.request_id)
    result = await ctx.session.send_request(ElicitRequest(params=asked), ElicitResult, metadata=sent)
    return result.model_dump(mode="json", exclude_none=True)
