"""Routes of standing approvals: who need not be asked about which tools, and taking that back."""

from __future__ import annotations

from dataclasses import asdict
from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from surehand.gateway.access.identity import Identity
from surehand.gateway.api.calls import ToolFilter, UserFilter
from surehand.gateway.api.requests import Caller, Cursor, Limit, json_response, page_response, parse_time_cursor
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.api.tools import ToolName
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem
from surehand.store.tables.grants import Grant

OwnerOfGrants = Annotated[
    str | None,
    Query(max_length=200, description="Whose; the operator's default is all users, and that of others themselves."),
]


class GrantInfo(BaseModel):
    """A standing approval: a user may call a tool, as it was defined then, without being asked."""

    tool: str
    user: str | None = None
    by: str | None = Field(None, description="Who gave the approval.")
    given_at: float
    definition: str = Field(description="A digest: the approval holds only while the tool is defined as it was.")
    session: str | None = Field(None, description="The only session that it holds in; null for all.")


class GrantPage(BaseModel):
    """A page of standing approvals, newest first."""

    items: list[GrantInfo]
    next: str | None = None


class RevocationInfo(BaseModel):
    """What was revoked."""

    tool: str
    user: str | None = Field(None, description="Whose approvals; null for those of all users.")
    revoked: int


def grant_routes(gateway: Gateway) -> APIRouter:
    """The routes under `/api/grants`."""
    router = APIRouter(tags=["grants"], route_class=StrictRoute)

    @router.get("/api/grants", responses={200: {"model": GrantPage}})
    async def list_grants(
        identity: Caller, limit: Limit = 100, cursor: Cursor = None, tool: ToolFilter = None, user: UserFilter = None
    ) -> Response:
        """List the standing approvals: the caller's own, or those of all users with the scope `calls:all`."""
        before = parse_time_cursor(cursor)
        grants = await _load_grants(gateway, user if identity.sees_all_calls else identity.user)
        visible = [
            each
            for each in grants
            if (tool is None or each.tool == tool)
            and (identity.sees_all_calls or identity.may_use_tool(each.tool))
            and (before is None or _position(each) < before)
        ]
        visible.sort(key=_position, reverse=True)
        page = visible[:limit]
        next_cursor = None
        if len(visible) > limit:
            given_at, digest = _position(page[-1])
            next_cursor = f"{given_at!r}:{digest}"
        return page_response([asdict(each) for each in page], next_cursor)

    @router.delete("/api/grants/{name}", responses={200: {"model": RevocationInfo}})
    async def revoke_grants(identity: Caller, name: ToolName, user: OwnerOfGrants = None) -> Response:
        """Revoke the standing approvals of a tool, so that its next call asks again.

        Only the operator revokes those of other users.
        """
        listing = gateway.scope(identity).find(name)
        tool = name if listing is None else listing.name
        owner = await _choose_owner(gateway, identity, tool, user)
        store = gateway.runtime.store
        may_use = identity.may_use_tool(tool)
        if not may_use:
            await gateway.audit_refusal(identity, "revoke", tool=tool, code="not_found")
        revoked = 0
        if store is not None and may_use:
            revoked = await store.grants.revoke(tool, owner, identity.user)
        if not revoked:
            raise Problem("not_found", f"There is no standing approval for {name[:80]!r}.")
        return json_response({"tool": tool, "user": owner, "revoked": revoked})

    return router


async def _load_grants(gateway: Gateway, user: str | None) -> list[Grant]:
    store = gateway.runtime.store
    return [] if store is None else await store.grants.list_grants(user)


async def _choose_owner(gateway: Gateway, identity: Identity, tool: str, user: str | None) -> str | None:
    """Whose approvals are revoked; None for those of all users. Raises `Problem`, and audits it, for other users."""
    if identity.is_operator:
        return user
    if user not in (None, identity.user):
        await gateway.audit_refusal(identity, "revoke", tool=tool)
        raise Problem("denied", "You may revoke your own standing approvals only.")
    return identity.user


def _position(grant: Grant) -> tuple[float, str]:
    """The place of a grant in the list."""
    key = "\0".join((grant.tool, grant.definition, grant.user or "", grant.session or ""))
    return grant.given_at, sha256(key.encode()).hexdigest()[:16]
