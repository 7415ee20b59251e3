"""Routes of runs of agents: which are remembered, how one stands, going on with it, and messages to it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from surehand.gateway.access.identity import Identity
from surehand.gateway.agent_runs import ServedAgent
from surehand.gateway.api.calls import UserFilter
from surehand.gateway.api.models import (
    RUN_RESPONSES,
    CancelBody,
    RunDetails,
    RunInfo,
    RunMessageBody,
    RunPage,
    RunStatus,
)
from surehand.gateway.api.requests import (
    Caller,
    Cursor,
    Limit,
    SessionFilter,
    json_response,
    page_response,
    parse_time_cursor,
)
from surehand.gateway.api.run_details import (
    RunSummary,
    find_own_run,
    list_memory_runs,
    list_steps,
    list_waits,
    require_run,
    summary_of_row,
    summary_to_result_json,
)
from surehand.gateway.api.run_stream import run_result_response, stream_run
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.api.tool_results import RunId
from surehand.gateway.api.tools import EVENT_STREAM
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem

AgentFilter = Annotated[str | None, Query(max_length=200, description="Only those of this agent.")]
StatusFilter = Annotated[RunStatus | None, Query(description="Only those with this status.")]


def run_routes(gateway: Gateway) -> APIRouter:
    """The routes under `/api/runs`, except those of events and of results of client tools."""
    router = APIRouter(tags=["runs"], route_class=StrictRoute)

    @router.get("/api/runs", responses={200: {"model": RunPage}})
    async def list_runs(
        identity: Caller,
        limit: Limit = 100,
        cursor: Cursor = None,
        agent: AgentFilter = None,
        status: StatusFilter = None,
        session: SessionFilter = None,
        user: UserFilter = None,
    ) -> Response:
        """List the runs of agents, newest first."""
        wanted = {"agent": agent, "session": session, "user": user if identity.sees_all_calls else identity.user}
        page, next_cursor = await _list_page(gateway, {**wanted, "status": status}, limit, cursor)
        visible = [each for each in page if gateway.may_see_run(identity, user=each.user, agent=each.agent)]
        return page_response([each.to_json() for each in visible], next_cursor)

    @router.get("/api/runs/{run}", responses={200: {"model": RunDetails}})
    async def show_run(identity: Caller, run: RunId) -> Response:
        """Show a run with its steps, what it used, and the calls that it waits for."""
        found = await require_run(gateway, identity, run, "read run")
        return json_response(await _describe_run(gateway, found))

    @router.post("/api/runs/{run}/resume", responses=RUN_RESPONSES)
    async def resume_run(request: Request, identity: Caller, run: RunId) -> Response:
        """Go on with a run, or wait for the process that drives it; one that has ended is returned.

        With `Accept: text/event-stream`, its events follow, and the last is `RunEnded`.
        """
        found = await find_own_run(gateway, identity, run)
        agent = _agent_of(gateway, found)
        wants_events = EVENT_STREAM in request.headers.get("accept", "")
        if found.has_ended and not wants_events:
            return json_response(summary_to_result_json(found))
        last_number = gateway.feed.event_log.last_number
        task = gateway.runs.resume(agent, run)
        return (
            stream_run(gateway, run, last_number, task)
            if wants_events
            else await run_result_response(gateway, task, run)
        )

    @router.post("/api/runs/{run}/steer", status_code=202, responses={202: {"model": RunInfo}})
    async def steer_run(identity: Caller, run: RunId, body: RunMessageBody) -> Response:
        """Send a message to a run; the model reads it with its next request."""
        return await _send(gateway, identity, run, body.text, when_idle=False)

    @router.post("/api/runs/{run}/follow_up", status_code=202, responses={202: {"model": RunInfo}})
    async def follow_up_run(identity: Caller, run: RunId, body: RunMessageBody) -> Response:
        """Send a message to a run; the model reads it when it has nothing else to do."""
        return await _send(gateway, identity, run, body.text, when_idle=True)

    @router.post("/api/runs/{run}/cancel", responses={200: {"model": RunDetails}})
    async def cancel_run(identity: Caller, run: RunId, body: CancelBody | None = None) -> Response:
        """Stop a run for good, with its calls; one that has ended is a conflict."""
        found = await find_own_run(gateway, identity, run)
        reason = (body.reason if body is not None else "") or f"Cancelled by {identity.user or 'the operator'}."
        await gateway.runs.cancel(_agent_of(gateway, found), run, reason)
        return json_response(await _describe_run(gateway, await find_own_run(gateway, identity, run)))

    return router


async def _send(gateway: Gateway, identity: Identity, run_id: str, text: str, *, when_idle: bool) -> Response:
    found = await find_own_run(gateway, identity, run_id)
    await gateway.runs.send(_agent_of(gateway, found), run_id, text, when_idle=when_idle)
    return json_response(found.to_json(), 202)


def _agent_of(gateway: Gateway, run: RunSummary) -> ServedAgent:
    agent = gateway.runs.agents.get(run.agent)
    if agent is None:
        raise Problem("unavailable", f"This gateway does not have the agent {run.agent} of the run.", run_id=run.run_id)
    return agent


async def _describe_run(gateway: Gateway, run: RunSummary) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    if gateway.runtime.is_durable:
        steps = await list_steps(await gateway.require_store(), run.run_id)
    texts = [each["text"] for each in steps if each["text"]]
    shown = run.to_json() if run.has_ended or not texts else {**run.to_json(), "text": texts[-1]}
    return {**shown, "prompt": run.prompt, "steps": steps, "waiting": await list_waits(gateway, run)}


async def _list_page(
    gateway: Gateway, wanted: dict[str, str | None], limit: int, cursor: str | None
) -> tuple[list[RunSummary], str | None]:
    """A page of runs, and the cursor of the next page."""
    before = parse_time_cursor(cursor)
    if gateway.runtime.is_durable:
        status: Any = wanted.pop("status")
        rows = await (await gateway.require_store()).runs.latest(**wanted, state=status, before=before, limit=limit + 1)
        runs = [summary_of_row(row) for row in rows]
    else:
        given = {name: value for name, value in wanted.items() if value is not None}
        runs = [
            each
            for each in list_memory_runs(gateway)
            if all(getattr(each, name) == value for name, value in given.items())
            and (before is None or (each.started_at, each.run_id) < before)
        ][: limit + 1]
    if len(runs) <= limit:
        return runs, None
    last = runs[limit - 1]
    return runs[:limit], f"{last.started_at!r}:{last.run_id}"
