"""The route of tool descriptions: the tools in the format of a model API, for a program with a loop of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from surehand.gateway.access.identity import Identity
from surehand.gateway.api.requests import Caller, SessionFilter, json_response
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.gateway import Gateway

Format = Annotated[
    Literal["openai", "responses", "anthropic", "gemini", "mcp"], Query(description="The model API, or `mcp`.")
]


class ToolDescriptionsInfo(BaseModel):
    """The tools that a model may be offered, in the format of its API."""

    tools: list[dict[str, Any]] = Field(description="As the `tools` of a request to the API.")
    left_out: dict[str, str] = Field(description="Tools that the API would refuse, with the reason.")
    instructions: str | None = Field(
        None, description="What the providers of the tools want a model to know; null without the scope `tools:*`."
    )


def description_routes(gateway: Gateway) -> APIRouter:
    """The route `/api/describe`."""
    router = APIRouter(tags=["tools"], route_class=StrictRoute)

    @router.get("/api/describe", responses={200: {"model": ToolDescriptionsInfo}})
    async def describe_tools(identity: Caller, format: Format = "openai", session: SessionFilter = None) -> Response:
        """Describe the tools that the caller may use to a model; with a session, also those that its client brings."""
        scope = gateway.scope(identity, session=session)
        await scope.load_user_tools()
        described = scope.describe(format)
        return json_response(
            {
                "tools": [each for each in described if _may_see(identity, each)],
                "left_out": {
                    name: reason for name, reason in described.left_out.items() if identity.may_use_tool(name)
                },
                "instructions": scope.instructions() if identity.has_all_tools else None,
            }
        )

    return router


def _may_see(identity: Identity, entry: Mapping[str, Any]) -> bool:
    """Whether an identity may see an entry. One without a name, of a tool of the model API itself, needs all tools."""
    name = entry.get("function", entry).get("name")
    return identity.has_all_tools or (isinstance(name, str) and identity.may_use_tool(name))
