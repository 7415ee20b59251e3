"""Routes of spaces: their members and messages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import Response

from surehand.core.errors import ToolError
from surehand.core.ids import new_id
from surehand.gateway.access.identity import Identity
from surehand.gateway.api.models import (
    MemberBody,
    MemberInfo,
    MemberPage,
    MessageBody,
    MessageInfo,
    MessagePage,
    SpaceBody,
    SpaceInfo,
    SpacePage,
)
from surehand.gateway.api.requests import (
    Caller,
    Cursor,
    Limit,
    is_number,
    json_response,
    page_response,
    parse_time_cursor,
)
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import STATUS_BY_CODE, Problem
from surehand.store.store import Store
from surehand.store.tables.messages import Message
from surehand.store.tables.spaces import Member, Space

SpaceId = Annotated[str, Path(min_length=1, max_length=200, description="The id of a space.")]
MemberId = Annotated[str, Path(min_length=1, max_length=200, description="The user or agent.")]


def space_routes(gateway: Gateway) -> APIRouter:
    """The routes under `/api/spaces`."""
    router = APIRouter(tags=["spaces"], route_class=StrictRoute)

    @router.get("/api/spaces", responses={200: {"model": SpacePage}})
    async def list_spaces(identity: Caller, limit: Limit = 100, cursor: Cursor = None) -> Response:
        """List the spaces that the caller is a member of; the operator sees all."""
        store = await gateway.require_store()
        if identity.user is None or identity.is_operator:
            spaces = await store.spaces.all(limit=limit + 1, after=cursor or "")
        else:
            own = await store.spaces.of_member(identity.user)
            spaces = sorted(own, key=lambda each: each.space_id)
        visible = [each for each in spaces if each.space_id > (cursor or "") and identity.may_use_space(each.space_id)]
        next_cursor = visible[limit - 1].space_id if len(visible) > limit else None
        return page_response([_describe_space(each) for each in visible[:limit]], next_cursor)

    @router.post("/api/spaces", status_code=201, responses={201: {"model": SpaceInfo}})
    async def create_space(identity: Caller, body: SpaceBody) -> Response:
        """Create a space, whose first member is the caller."""
        store = await gateway.require_store()
        space_id = body.id or new_id()
        if not identity.may_use_space(space_id):
            await gateway.audit_refusal(identity, "create space")
            raise Problem("denied", f"Space {space_id[:80]} is not allowed with this token.")
        if await _find_space(store, space_id) is not None:
            raise Problem("conflict", f"There is a space {space_id[:80]} already.")
        space = await store.spaces.create(space_id, body.name)
        if identity.user is not None:
            await store.spaces.join(space.space_id, identity.user)
        return json_response(_describe_space(space), 201)

    @router.get("/api/spaces/{space}", responses={200: {"model": SpaceInfo}})
    async def show_space(identity: Caller, space: SpaceId) -> Response:
        """Show a space."""
        return json_response(_describe_space(await require_space(gateway, identity, space)))

    @router.get("/api/spaces/{space}/members", responses={200: {"model": MemberPage}})
    async def list_members(identity: Caller, space: SpaceId, limit: Limit = 100, cursor: Cursor = None) -> Response:
        """List the members of a space, in the order in which they joined."""
        await require_space(gateway, identity, space)
        after = parse_time_cursor(cursor)
        members = await (await gateway.require_store()).spaces.members(space, limit=limit + 1, after=after)
        page = members[:limit]
        next_cursor = f"{page[-1].joined_at!r}:{page[-1].member_id}" if len(members) > limit else None
        return page_response([_describe_member(each) for each in page], next_cursor)

    @router.post("/api/spaces/{space}/members", responses={200: {"model": MemberInfo}})
    async def add_member(identity: Caller, space: SpaceId, body: MemberBody) -> Response:
        """Add a member to a space, or change its name or kind."""
        await require_space(gateway, identity, space)
        await (await gateway.require_store()).spaces.join(space, body.id, body.kind, body.name)
        return json_response(_describe_member(Member(body.id, body.kind, body.name or body.id)))

    @router.delete("/api/spaces/{space}/members/{member}", status_code=204, response_model=None)
    async def remove_member(identity: Caller, space: SpaceId, member: MemberId) -> Response:
        """End a membership."""
        await require_space(gateway, identity, space)
        if not await (await gateway.require_store()).spaces.leave(space, member):
            raise Problem("not_found", f"{member[:80]} is not a member of this space.")
        return Response(status_code=204)

    @router.get("/api/spaces/{space}/messages", responses={200: {"model": MessagePage}})
    async def list_messages(identity: Caller, space: SpaceId, limit: Limit = 50, cursor: Cursor = None) -> Response:
        """List the messages of a space, newest first."""
        await require_space(gateway, identity, space)
        if cursor is not None and not is_number(cursor):
            raise Problem("bad_request", f"{cursor[:80]!r} is not a cursor.")
        before = None if cursor is None else int(cursor)
        store = await gateway.require_store()
        messages = await store.spaces.history(space, limit=limit, before=before)
        has_more = len(messages) == limit and messages[0].number > 1
        items = [_describe_message(each) for each in reversed(messages)]
        return page_response(items, str(messages[0].number) if has_more else None)

    @router.post("/api/spaces/{space}/messages", status_code=201, responses={201: {"model": MessageInfo}})
    async def post_message(identity: Caller, space: SpaceId, body: MessageBody) -> Response:
        """Post a message as a member of the space; agents among its members are told."""
        await require_space(gateway, identity, space)
        sender = body.sender or identity.user
        if sender is None:
            raise Problem("invalid_arguments", "`sender` is missing: the operator names the member who posts.")
        if sender != identity.user and not identity.is_operator:
            await gateway.audit_refusal(identity, "post as another member")
            raise Problem("denied", f"You may not post as {sender[:80]}.")
        store = await gateway.require_store()
        try:
            message = await store.spaces.post(space, body.content, sender=sender, reply_to=body.reply_to)
        except ToolError as error:
            code = error.code if error.code in STATUS_BY_CODE else "invalid_arguments"
            raise Problem(code, str(error)) from None
        return json_response(_describe_message(message), 201)

    return router


async def require_space(gateway: Gateway, identity: Identity, space_id: str) -> Space:
    """The space, if the identity is a member of it or operates the gateway; raises `Problem` else."""
    store = await gateway.require_store()
    space = await _find_space(store, space_id)
    is_visible = space is not None and await may_read_space(store, identity, space_id)
    if space is not None and not is_visible:
        await gateway.audit_refusal(identity, f"use space {space_id}", code="not_found")
    if space is None or not is_visible:
        raise Problem("not_found", f"There is no space {space_id[:80]}.")
    return space


async def may_read_space(store: Store, identity: Identity, space_id: str) -> bool:
    """Whether an identity is a member of a space, or operates the gateway."""
    if identity.is_operator:
        return True
    if identity.user is None or not identity.may_use_space(space_id):
        return False
    return await store.spaces.is_member(space_id, identity.user)


async def _find_space(store: Store, space_id: str) -> Space | None:
    try:
        return await store.spaces.find(space_id)
    except ToolError:
        return None


def _describe_space(space: Space) -> dict[str, Any]:
    return {"id": space.space_id, "name": space.name, "messages": space.messages, "created_at": space.created_at}


def _describe_member(member: Member) -> dict[str, Any]:
    return {"id": member.member_id, "kind": member.kind, "name": member.name}


def _describe_message(message: Message) -> dict[str, Any]:
    names = (
        "number", "content", "sender_id", "sender_name", "sender_kind", "call_id", "reply_to", "created_at",
        "amended_at",
    )  # fmt: skip
    return {"id": message.message_id, **{name: getattr(message, name) for name in names}}
