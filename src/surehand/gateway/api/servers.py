"""Routes of servers: where tools come from, how those services are, and definitions that wait to be accepted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from starlette.responses import Response

from surehand.core.errors import DefinitionError, ToolError
from surehand.core.protocols import Authorizable
from surehand.core.provider_abilities import AddedProvider
from surehand.gateway.access.identity import Identity
from surehand.gateway.api.models import Body
from surehand.gateway.api.requests import Caller, Cursor, Limit, is_number, json_response, page_response
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import STATUS_BY_CODE, Problem
from surehand.gateway.sign_ins import SignIns

SignInState: TypeAlias = Literal["needed", "running", "done"] | None
ServerName = Annotated[str, Path(min_length=1, max_length=200, description="The namespace of a server.")]


class HeldBackInfo(BaseModel):
    """A definition that has changed since it was accepted."""

    tool: str | None = Field(None, description="Null if the server has become another one.")
    sha256: str
    summary: str
    diff: str
    first_seen: str | None = None


class ServerInfo(BaseModel):
    """A service that tools come from."""

    name: str
    kind: str
    state: str = Field(description="`up`, `starting`, `idle`, `waiting` for the next attempt, or `closed`.")
    address: str
    protocol: str
    server_name: str
    server_version: str
    error: str = Field(description="The last error, until the server is up again.")
    tools: int
    can_refresh: bool
    sign_in: SignInState = Field(description="Of your own user; null if the server needs no sign-in.")
    sign_in_error: str = Field(description="Why the last sign-in that was begun here failed.")
    changes: list[HeldBackInfo]


class SignInInfo(BaseModel):
    """A sign-in that was begun."""

    url: str | None = Field(description="To be opened in a browser; null if you are signed in already.")


class ServerPage(BaseModel):
    """The servers of the gateway."""

    items: list[ServerInfo]
    next: str | None = None


class AcceptBody(Body):
    """A definition that a person has reviewed."""

    sha256: str = Field(min_length=1, max_length=200)
    tool: str | None = Field(None, max_length=200, description="Null to accept a server that has become another one.")


def server_routes(gateway: Gateway) -> APIRouter:
    """The routes under `/api/servers`."""
    router = APIRouter(tags=["servers"], route_class=StrictRoute)
    sign_ins = SignIns(gateway)

    @router.get("/api/servers", responses={200: {"model": ServerPage}})
    async def list_servers(identity: Caller, limit: Limit = 100, cursor: Cursor = None) -> Response:
        """List the servers that tools come from, for those who may see all calls."""
        await gateway.require_all_calls(identity, "list servers")
        if cursor is not None and not is_number(cursor):
            raise Problem("bad_request", f"{cursor[:80]!r} is not a cursor.")
        start = int(cursor or 0)
        providers = gateway.runtime.added_providers[start:]
        items = [await _describe(gateway, sign_ins, identity, each) for each in providers[:limit]]
        return page_response(items, str(start + limit) if len(providers) > limit else None)

    @router.post("/api/servers/{server}/refresh", responses={200: {"model": ServerInfo}})
    async def refresh_server(identity: Caller, server: ServerName) -> Response:
        """List the tools of a server again."""
        added = await _require_server(gateway, identity, server, "refresh")
        try:
            await gateway.runtime.refresh(server)
        except (ToolError, KeyError) as error:
            raise Problem("unavailable", str(error), retry_after=1) from None
        return json_response(await _describe(gateway, sign_ins, identity, added))

    @router.post("/api/servers/{server}/sign-in", responses={200: {"model": SignInInfo}})
    async def sign_in(identity: Caller, server: ServerName) -> Response:
        """Begin to sign your user in to a server. The browser has to run on the machine of the gateway."""
        added = await _require_server(gateway, identity, server, "sign in")
        authorizable = added.abilities.authorizable
        if authorizable is None or authorizable.is_signed_in(identity.user) is None:
            raise Problem("not_found", f"{server[:80]} needs no sign-in.")
        begun = await sign_ins.begin(server, identity, authorizable)
        if begun.problem:
            raise Problem("unavailable", begun.problem, retry_after=1)
        return json_response({"url": None if begun.url.cancelled() else begun.url.result()})

    @router.post("/api/servers/{server}/accept", responses={200: {"model": ServerInfo}})
    async def accept_definition(identity: Caller, server: ServerName, body: AcceptBody) -> Response:
        """Accept a changed definition; one that has changed again is a conflict."""
        added = await _require_server(gateway, identity, server, "accept a definition")
        reviewable = added.abilities.reviewable
        if reviewable is None:
            raise Problem("not_found", f"{server[:80]} holds no definitions back.")
        try:
            await reviewable.accept_definition(body.tool, body.sha256)
        except ToolError as error:
            raise Problem(error.code if error.code in STATUS_BY_CODE else "conflict", str(error)) from None
        except DefinitionError as error:
            raise Problem("conflict", str(error)) from None
        await gateway.audit_acceptance(identity, server, body.tool, body.sha256)
        return json_response(await _describe(gateway, sign_ins, identity, added))

    return router


async def _require_server(gateway: Gateway, identity: Identity, name: str, action: str) -> AddedProvider:
    """A server that the identity may change, which only the operator may."""
    await gateway.require_all_calls(identity, action)
    if not identity.is_operator:
        await gateway.audit_refusal(identity, action, tool=name)
        raise Problem("denied", "Only the operator may do this: the scope * is needed.")
    for added in gateway.runtime.added_providers:
        if added.namespace == name:
            return added
    raise Problem("not_found", f"There is no server {name[:80]!r}.")


async def _describe(gateway: Gateway, sign_ins: SignIns, identity: Identity, added: AddedProvider) -> dict[str, Any]:
    provider = added.provider
    abilities = added.abilities
    listings = [each for each in gateway.runtime.catalogue if each.provider is provider]
    described: dict[str, Any] = {
        "name": provider.namespace,
        "kind": provider.kind,
        "state": "up" if listings else "idle",
        "address": "",
        "protocol": "",
        "server_name": "",
        "server_version": "",
        "error": "",
        "tools": len(listings),
        "can_refresh": abilities.refreshable is not None,
        "sign_in": None,
        "sign_in_error": "",
        "changes": [],
    }
    if abilities.inspectable is not None:
        described |= asdict(await abilities.inspectable.server_status())
    if abilities.authorizable is not None:
        described |= _describe_sign_in(abilities.authorizable, sign_ins, identity, provider.namespace)
    if abilities.reviewable is not None:
        try:
            described["changes"] = [asdict(each) for each in await abilities.reviewable.held_back_definitions()]
        except DefinitionError as error:  # the lock file cannot be read
            described["error"] = str(error)
    return described


def _describe_sign_in(authorizable: Authorizable, sign_ins: SignIns, identity: Identity, server: str) -> dict[str, Any]:
    try:
        is_signed_in = authorizable.is_signed_in(identity.user)
    except DefinitionError as error:  # a variable of its entry is not set
        return {"sign_in_error": str(error)}
    if is_signed_in is None:
        return {}
    begun = sign_ins.find(server, identity)
    is_running = begun is not None and begun.is_running
    state: SignInState = "running" if is_running else "done" if is_signed_in else "needed"
    return {"sign_in": state, "sign_in_error": begun.problem if begun is not None else ""}
