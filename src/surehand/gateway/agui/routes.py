"""The AG-UI endpoint of each agent."""

from __future__ import annotations

from ag_ui.core import RunAgentInput
from fastapi import APIRouter
from starlette.responses import Response

from surehand.core.define import tool as define
from surehand.core.errors import DefinitionError
from surehand.gateway.access.identity import Identity
from surehand.gateway.agent_runs import RunRequest, ServedAgent
from surehand.gateway.agui.run_input import conversation, find_answered_calls, give_answers
from surehand.gateway.agui.run_position import find_last_wait, find_run_start
from surehand.gateway.agui.run_stream import AguiRun
from surehand.gateway.agui.run_tree import RunTree
from surehand.gateway.api.agents import AgentId, require_agent
from surehand.gateway.api.models import EVENT_RESPONSES, MAX_ID_LENGTH
from surehand.gateway.api.requests import Caller
from surehand.gateway.api.run_details import RunSummary, find_any_run, find_own_run, find_top_run
from surehand.gateway.api.sessions import check_offer
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.api.tools import id_under_key
from surehand.gateway.events.event_stream import EventStreamResponse
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem
from surehand.store.serialization import dump_json

CLIENT_LEFT_REASON = "Cancelled because its client disconnected."
MAX_STATE_CHARS = 1_000_000
"""The states of many threads are kept in memory, and each is sent back with every run."""


def agui_routes(gateway: Gateway) -> APIRouter:
    """The routes `/api/agents/{agent}/agui`."""
    router = APIRouter(tags=["agents"], route_class=StrictRoute)

    @router.post("/api/agents/{agent}/agui", response_model=None, responses=EVENT_RESPONSES)
    async def run_agui(identity: Caller, agent: AgentId, body: RunAgentInput) -> Response:
        """Run an agent for a front end that speaks AG-UI 1.0. A run whose client disconnects is cancelled.

        The thread is the session. A call that waits is an interrupt, which `resume` answers. Its id is the id of the
        call, and `CALL:ROUND` for a later question of the call.
        """
        served_agent = await require_agent(gateway, identity, agent, "run agent")
        _check_ids(body)
        await _offer_tools(gateway, identity, body)
        _set_state(gateway, identity, body)
        run = await _resume_run(gateway, identity, served_agent, body)
        if run is None:
            run = await _start_run(gateway, identity, served_agent, body)

        async def cancel_run() -> None:
            if not gateway.is_stopping and not run.task.done():
                await gateway.runs.cancel(served_agent, run.runs.top, CLIENT_LEFT_REASON)

        return EventStreamResponse(run.frames(), on_disconnect=cancel_run)

    return router


def _check_ids(body: RunAgentInput) -> None:
    for name, value in (("threadId", body.thread_id), ("runId", body.run_id)):
        if not 0 < len(value) <= MAX_ID_LENGTH - 50:
            raise Problem("invalid_arguments", f"`{name}` must have 1 to {MAX_ID_LENGTH - 50} characters.")


async def _offer_tools(gateway: Gateway, identity: Identity, body: RunAgentInput) -> None:
    """Offer the client's tools to the session: the agent may call them, and the client answers."""
    scope = gateway.scope(identity, session=body.thread_id)
    tools = [
        each
        for each in body.tools or ()
        if gateway.runtime.find(each.name) is None and identity.may_use_tool(each.name)
    ]
    check_offer(gateway, scope, tools)
    try:
        scope.offer(
            *(define.client(each.name, each.description, parameters=each.parameters, reply="later") for each in tools)
        )
    except DefinitionError as error:
        raise Problem("invalid_arguments", error.problem) from None


def _set_state(gateway: Gateway, identity: Identity, body: RunAgentInput) -> None:
    """Let the calls of the session begin with the client's state. An empty one is that of a client without any."""
    if isinstance(body.state, dict) and body.state:
        if len(dump_json(body.state)) > MAX_STATE_CHARS:
            raise Problem("too_large", f"The `state` of a thread may have {MAX_STATE_CHARS:,} characters of JSON.")
        state = gateway.scope(identity, session=body.thread_id).state
        state.clear()
        state.update(body.state)


async def _resume_run(gateway: Gateway, identity: Identity, agent: ServedAgent, body: RunAgentInput) -> AguiRun | None:
    """Go on with the run that the answers of the input are for; None if it has none, and a new run starts."""
    found = await _find_answered_run(gateway, identity, agent, body)
    if found is None:
        return None
    run, runs = found
    # A run that was answered elsewhere may have ended since: then the client reads what it has not seen of it.
    number = await find_last_wait(gateway, run) if run.has_ended else gateway.feed.event_log.last_number
    with gateway.leave_run_alone(run.run_id):
        await give_answers(gateway, identity, body)
    task = gateway.runs.resume(agent, run.run_id)
    return AguiRun(gateway, body, runs, identity.user, number, task, run.usage or {})


async def _find_answered_run(
    gateway: Gateway, identity: Identity, agent: ServedAgent, body: RunAgentInput
) -> tuple[RunSummary, RunTree] | None:
    """The run that waits for the calls which the input answers, with the sub-agents that made some of them."""
    turns: list[str] = []
    for call_id in find_answered_calls(body):
        status = await gateway.runtime.status(call_id)
        if status is not None and status.turn is not None and status.user == identity.user:
            turns.append(status.turn)
    for turn in turns:
        run = await find_own_run(gateway, identity, await find_top_run(gateway, turn))
        is_of_thread = run.agent == agent.name and run.session == body.thread_id
        if is_of_thread and (body.resume or not run.has_ended):
            runs = RunTree(run.run_id)
            for each in turns:
                await runs.add_with_ancestors(gateway, each)
            return run, runs
    if body.resume:
        raise Problem("not_found", f"No run of this thread waits for {body.resume[0].interrupt_id[:80]}.")
    return None


async def _start_run(gateway: Gateway, identity: Identity, agent: ServedAgent, body: RunAgentInput) -> AguiRun:
    """Start a run. A run that was started before goes on, and the client reads it from its beginning."""
    run_id = id_under_key(identity, body.run_id)
    number = gateway.feed.event_log.last_number  # before the first event of the run
    existing_run = await find_any_run(gateway, run_id)
    if existing_run is not None:
        owner = (existing_run.agent, existing_run.user, existing_run.session)
        if owner != (agent.name, identity.user, body.thread_id):
            raise Problem("conflict", f"The run id {body.run_id[:80]} belongs to another run.")
        number = await find_run_start(gateway, existing_run)
    request = RunRequest(run_id, conversation(body), identity.user, body.thread_id)
    task = gateway.runs.start(agent, request)
    return AguiRun(gateway, body, RunTree(run_id), identity.user, number, task, {})
