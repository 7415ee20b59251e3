"""Routes of agents: which there are, and running one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from surehand.core.ids import new_id
from surehand.core.names import nearest_names
from surehand.gateway.access.identity import Identity
from surehand.gateway.agent_runs import RunRequest, ServedAgent
from surehand.gateway.api.models import RUN_RESPONSES, AgentDetails, AgentPage, RunBody
from surehand.gateway.api.requests import Caller, Cursor, Limit, SessionFilter, json_response, page_response
from surehand.gateway.api.run_details import RunSummary, find_any_run, summary_to_result_json
from surehand.gateway.api.run_stream import run_result_response, stream_run
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.api.tools import EVENT_STREAM, IdempotencyKey, id_under_key
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem

AgentId = Annotated[str, Path(min_length=1, max_length=200, description="The name of an agent.")]


def agent_routes(gateway: Gateway) -> APIRouter:
    """The routes under `/api/agents`."""
    router = APIRouter(tags=["agents"], route_class=StrictRoute)

    @router.get("/api/agents", responses={200: {"model": AgentPage}})
    async def list_agents(identity: Caller, limit: Limit = 100, cursor: Cursor = None) -> Response:
        """List the agents that the caller may run, by name."""
        agents = {name: agent for name, agent in gateway.runs.agents.items() if identity.may_use_agent(name)}
        names = sorted(name for name in agents if cursor is None or name > cursor)
        items = [_describe(agents[name]) for name in names[:limit]]
        return page_response(items, names[limit - 1] if len(names) > limit else None)

    @router.get("/api/agents/{agent}", responses={200: {"model": AgentDetails}})
    async def show_agent(identity: Caller, agent: AgentId, session: SessionFilter = None) -> Response:
        """Show one agent, with the tools that its model may call."""
        served_agent = await require_agent(gateway, identity, agent, "read agent")
        scope = await gateway.runtime.enter_agent(served_agent, user=identity.user, session=session)
        await scope.load_user_tools()
        return json_response(
            {**_describe(served_agent), "tools": sorted(each.name for each in scope.usable_listings())}
        )

    @router.post("/api/agents/{agent}/run", responses=RUN_RESPONSES)
    async def run_agent(
        request: Request, identity: Caller, agent: AgentId, body: RunBody, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Run an agent until it is done, stopped or failed, or waits; the run goes on if the client disconnects.

        With `Accept: text/event-stream`, its events follow, and the last is `RunEnded`.
        """
        served_agent = await require_agent(gateway, identity, agent, "run agent")
        run_id = _choose_run_id(identity, body, idempotency_key)
        run_request = RunRequest(run_id, body.messages(), identity.user, body.session)
        existing_run = await find_any_run(gateway, run_id)
        if existing_run is not None:
            _require_same_run(served_agent, run_request, existing_run)
        wants_events = EVENT_STREAM in request.headers.get("accept", "")
        if existing_run is not None and existing_run.has_ended and not wants_events:
            return json_response(summary_to_result_json(existing_run))
        last_number = gateway.feed.event_log.last_number  # before the first event of the run
        task = gateway.runs.start(served_agent, run_request)
        if wants_events:
            return stream_run(gateway, run_id, last_number, task)
        return await run_result_response(gateway, task, run_id)

    return router


async def require_agent(gateway: Gateway, identity: Identity, name: str, action: str) -> ServedAgent:
    """An agent; raises `Problem` for one that the identity may not run, and audits it."""
    agent = gateway.runs.agents.get(name)
    is_allowed = identity.may_use_agent(name)
    if agent is not None and not is_allowed:
        await gateway.audit_refusal(identity, action, tool=name, code="not_found")
    if agent is None or not is_allowed:
        near = nearest_names(name, filter(identity.may_use_agent, gateway.runs.agents), 1)
        suggestion = f" Did you mean {near[0]!r}?" if near else ""
        raise Problem("not_found", f"There is no agent {name[:80]!r}.{suggestion}")
    return agent


def _choose_run_id(identity: Identity, body: RunBody, key: str | None) -> str:
    if key is not None and body.run_id is not None:
        raise Problem("invalid_arguments", "Give `run_id` or the header `Idempotency-Key`, not both.")
    if key is not None:
        return id_under_key(identity, key)
    return body.run_id or new_id()


def _require_same_run(agent: ServedAgent, run_request: RunRequest, existing_run: RunSummary) -> None:
    """Raise `Problem` if the id belongs to another run; the problem does not say whose it is."""
    is_same = (agent.name, run_request.user, run_request.session) == (
        existing_run.agent,
        existing_run.user,
        existing_run.session,
    )
    if not is_same or (existing_run.prompt is not None and existing_run.prompt != run_request.messages):
        raise Problem("conflict", f"The run id {run_request.run_id} belongs to another run.", run_id=run_request.run_id)


def _describe(agent: ServedAgent) -> dict[str, Any]:
    return {"id": agent.name, "model": agent.model.name}
