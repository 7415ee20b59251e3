"""Routes of sessions: the tools that a session's client brings, and answers itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Path
from starlette.responses import Response

from surehand.core.define import tool as define
from surehand.core.errors import DefinitionError
from surehand.core.tool import Tool
from surehand.gateway.api.models import ClientTool, ClientToolsBody, ToolPage
from surehand.gateway.api.requests import Caller, page_response
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.api.tools import describe_listing
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem
from surehand.runtime.scope import Scope

SessionId = Annotated[str, Path(min_length=1, max_length=200, description="The session, a name of the client's own.")]
MAX_TOOLS_PER_REQUEST = 100
MAX_TOOLS_PER_SESSION = 200
MAX_DESCRIPTION_LENGTH = 10_000
MAX_PATTERNS = 50
"""Patterns in the schemas of one request: each may take milliseconds to compile, and all requests wait for it."""


def session_routes(gateway: Gateway) -> APIRouter:
    """The routes under `/api/sessions`."""
    router = APIRouter(tags=["sessions"], route_class=StrictRoute)

    @router.post("/api/sessions/{session}/tools", responses={200: {"model": ToolPage}})
    async def offer_tools(identity: Caller, session: SessionId, body: ClientToolsBody) -> Response:
        """Bring client tools, for this session of this user alone; a tool of the same name is replaced.

        Calls of them appear under `/api/pending`, and their results go to `/tool-results`.
        """
        scope = gateway.scope(identity, session=session)
        await scope.load_user_tools()
        refused = [each.name for each in body.tools if not identity.may_use_tool(each.name)]
        if refused:
            await gateway.audit_refusal(identity, "offer", tool=refused[0])
            raise Problem("denied", f"{refused[0]} is not allowed with this token.")
        check_offer(gateway, scope, body.tools)
        for each in body.tools:
            if gateway.runtime.find(each.name) is not None:
                raise Problem("conflict", f"The runtime has a tool {each.name}; give yours another name.")
        try:
            scope.offer(*map(_build_tool, body.tools))
        except DefinitionError as error:
            raise Problem("invalid_arguments", error.problem) from None
        listings = [listing for each in body.tools if (listing := scope.find(each.name)) is not None]
        return page_response([describe_listing(each) for each in listings], None)

    return router


class OfferedTool(Protocol):
    """A tool that a client brings, as far as it is limited."""

    name: str
    description: str
    parameters: Any


def check_offer(gateway: Gateway, scope: Scope, tools: Collection[OfferedTool]) -> None:
    """Raise `Problem` for more tools, or larger ones, than a session may bring: compiling them stops all requests."""
    if len(tools) > MAX_TOOLS_PER_REQUEST:
        raise Problem("invalid_arguments", f"One request may bring {MAX_TOOLS_PER_REQUEST} tools.")
    known = {each.name for each in scope.usable_listings(for_person=True) if gateway.runtime.find(each.name) is None}
    if len(known | {each.name for each in tools}) > MAX_TOOLS_PER_SESSION:
        raise Problem("invalid_arguments", f"A session may bring {MAX_TOOLS_PER_SESSION} tools.")
    if any(len(each.description) > MAX_DESCRIPTION_LENGTH for each in tools):
        raise Problem("invalid_arguments", f"A description may have {MAX_DESCRIPTION_LENGTH:,} characters.")
    if sum(_count_patterns(each.parameters) for each in tools) > MAX_PATTERNS:
        raise Problem("invalid_arguments", f"The schemas of one request may have {MAX_PATTERNS} patterns.")


def _build_tool(given: ClientTool) -> Tool[..., Any]:
    return define.client(
        given.name, given.description, parameters=given.parameters, reply=given.reply, display=given.display
    )


def _count_patterns(schema: Any) -> int:
    """The patterns in a schema, at any depth; parameters that are called like a keyword count too."""
    if isinstance(schema, list):
        return sum(map(_count_patterns, schema))
    if not isinstance(schema, dict):
        return 0
    named = schema.get("patternProperties")
    own = int("pattern" in schema) + (len(named) if isinstance(named, dict) else 0)
    return own + sum(map(_count_patterns, schema.values()))
