"""Routes for the results of client tools: `/tool-results` and `/api/runs/{run}/tool-results`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from surehand.core.outcome import Failed
from surehand.gateway.access.identity import Identity
from surehand.gateway.api.calls import find_call, unknown_call
from surehand.gateway.api.models import CALL_RESPONSES, ToolResultBody
from surehand.gateway.api.pending import answered_call_response, require_may_answer
from surehand.gateway.api.requests import Caller
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem

RunId = Annotated[str, Path(min_length=1, max_length=200, description="The run, which is the `turn` of its calls.")]


def tool_result_routes(gateway: Gateway) -> APIRouter:
    """The routes that browsers and other clients send results to."""
    router = APIRouter(tags=["pending"], route_class=StrictRoute)

    @router.post("/tool-results", responses=CALL_RESPONSES)
    async def send_result(identity: Caller, body: ToolResultBody) -> Response:
        """Send the result of a client tool."""
        return await _settle(gateway, identity, body)

    @router.post("/api/runs/{run}/tool-results", responses=CALL_RESPONSES)
    async def send_result_of_run(identity: Caller, run: RunId, body: ToolResultBody) -> Response:
        """Send the result of a client tool of a run; a call of another run is 403."""
        if body.callId:
            await _require_run(gateway, identity, run, body.callId)
        return await _settle(gateway, identity, body)

    return router


async def _settle(gateway: Gateway, identity: Identity, body: ToolResultBody) -> Response:
    if not body.callId:
        raise Problem("bad_request", "`callId` is missing: it names the call that the result is of.")
    if "result" not in body.model_fields_set:
        raise Problem("bad_request", "`result` is missing: send null if the call has none.")
    permission = await require_may_answer(gateway, identity, body.callId, "settle")
    outcome = await permission.scope.settle(body.callId, body.result, by=identity.user, round=permission.round)
    if isinstance(outcome, Failed) and outcome.code == "expired" and not outcome.executed:
        raise Problem("conflict", f"Call {body.callId} has expired.", call_id=body.callId)
    return answered_call_response(outcome, body.callId)


async def _require_run(gateway: Gateway, identity: Identity, run: str, call_id: str) -> None:
    """Raise `Problem` unless the call is visible and belongs to the run."""
    details = await find_call(gateway, identity, call_id)
    if details is None:
        await gateway.audit_refusal(identity, "settle", call_id=call_id, code="not_found")
        raise unknown_call(call_id)
    if details["turn"] != run:
        await gateway.audit_refusal(identity, "settle", call_id=call_id, tool=details["tool"])
        raise Problem("denied", f"Call {call_id} does not belong to run {run[:80]}.", call_id=call_id)
