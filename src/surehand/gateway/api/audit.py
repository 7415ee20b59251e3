"""The route of the audit: who did what to which call."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from surehand.gateway.api.call_history import HistoryPosition
from surehand.gateway.api.calls import ToolFilter, UserFilter
from surehand.gateway.api.models import AuditPage
from surehand.gateway.api.requests import Caller, Cursor, Limit, SessionFilter, page_response
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.gateway import Gateway
from surehand.store.tables.audit import AuditRow

CallFilter = Annotated[str | None, Query(max_length=200, description="Only those of this call.")]
Since = Annotated[float | None, Query(ge=0, lt=1e12, description="Seconds since the epoch.")]


def audit_routes(gateway: Gateway) -> APIRouter:
    """The route `/api/audit`."""
    router = APIRouter(tags=["audit"], route_class=StrictRoute)

    @router.get("/api/audit", responses={200: {"model": AuditPage}})
    async def list_audit(
        identity: Caller,
        limit: Limit = 100,
        cursor: Cursor = None,
        call: CallFilter = None,
        tool: ToolFilter = None,
        session: SessionFilter = None,
        user: UserFilter = None,
        since: Since = None,
    ) -> Response:
        """List audit rows, newest first: those of the caller's own calls, or of all with the scope `calls:all`."""
        store = await gateway.require_store()
        position = HistoryPosition.parse(cursor)
        rows = await store.audit.list(
            call=call,
            tool=tool,
            session=session,
            user=user if identity.sees_all_calls else identity.user,
            since=since,
            until=position.until,
            limit=position.skip + limit + 1,
        )
        page = [*rows][position.skip :]
        next_cursor = None
        if len(page) > limit:
            next_cursor = HistoryPosition.after([*rows], position.skip + limit).cursor
        visible = [each for each in page[:limit] if identity.sees_all_calls or identity.may_use_tool(each.tool)]
        return page_response([_describe(each) for each in visible], next_cursor)

    return router


def _describe(row: AuditRow) -> dict[str, Any]:
    names = ("at", "kind", "call_id", "tool", "user", "session", "by", "detail")
    return {name: getattr(row, name) for name in names}
