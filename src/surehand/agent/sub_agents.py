"""Agents as tools: a call of `agent__name` starts a run of the agent, waits for it, and ends with its report.

The id of the run is derived from that of the call. A call that is made again, after a crash, goes on with the same run,
so that the steps of the run guard its effects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from surehand.agent.conversation import Prompt
from surehand.agent.run import Run
from surehand.agent.run_origin import RunOrigin
from surehand.agent.run_storage import RunLost
from surehand.core.content import to_text
from surehand.core.context import RunningCall
from surehand.core.define import ParametersLike, tool
from surehand.core.errors import DefinitionError, Unavailable
from surehand.core.ids import derive_run_id
from surehand.core.names import MAX_WIRE_NAME_LENGTH, RESERVED_NAMES
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.core.tool import Tool
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.pending.following_calls import outcome_of_run
from surehand.store.errors import StoreUnavailable

if TYPE_CHECKING:
    from surehand.core.call import Principal
    from surehand.runtime.scope import Scope
    from surehand.store.store import Store

AGENT_TOOL_PREFIX = "agent__"
_PROMPT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "The task, with everything that the agent has to know for it."}
    },
    "required": ["prompt"],
    "additionalProperties": False,
}


class SubRunDriver(Protocol):
    """Drives the runs of an agent that calls have started."""

    async def start(
        self,
        prompt: Prompt,
        *,
        user: str | None,
        session: str | None,
        run_id: str,
        origin: RunOrigin,
    ) -> Run:
        """Start a run, or go on with the one that has this id."""
        ...

    async def resume(self, run_id: str) -> Run:
        """Go on with a run."""
        ...


@dataclass(frozen=True, slots=True)
class CallableAgent:
    """What a tool has to know of the agent that it runs."""

    name: str
    run_alone: Callable[[Prompt], Awaitable[Run]]
    """Runs the agent without a runtime."""
    open_driver: Callable[[Scope, Store], SubRunDriver]
    """Drives runs of the agent in a scope; their steps are kept in the store."""


class AgentHandler:
    """The handler of `agent__name`."""

    can_suspend = True
    may_read_current_call = False

    def __init__(self, agent: CallableAgent, *, has_parameters: bool) -> None:
        self._agent = agent
        self._has_parameters = has_parameters

    def compile(self) -> Callable[[RunningCall], Awaitable[Outcome]]:
        """The function that starts a run for a call."""
        return self._run

    async def _run(self, call: RunningCall) -> Outcome:
        prompt = to_text(dict(call.arguments)) if self._has_parameters else call.arguments["prompt"]
        if not isinstance(call, Invocation):  # of `Tool.run`
            return _outcome_of_ended(await self._agent.run_alone(prompt))
        store = await call.open_store()
        origin = await _find_origin(store, call.principal)
        if self._agent.name in origin.path:
            return Failed("denied", _describe_recursion(self._agent.name, origin.path))
        run_id = derive_run_id(call.id)
        scope = _base_scope(call)
        try:
            run = await self._agent.open_driver(scope, store).start(
                prompt,
                user=call.principal.user,
                session=call.principal.session,
                run_id=run_id,
                origin=RunOrigin(origin.parent_run, (*origin.path, self._agent.name)),
            )
        except RunLost:  # another process goes on with the run
            return Pending.for_run(run_id)
        except StoreUnavailable as error:
            problem = f"The run of {self._agent.name} was interrupted: {error}. Call it again later."
            raise Unavailable(problem) from error
        except asyncio.CancelledError:
            if not call.is_repeatable_agent_call:
                await scope.cancel_run(run_id, f"{call.tool_name} was cancelled.")
            raise
        if run.status == "waiting":
            return Pending.for_run(run_id, f"The agent {run.agent} has not ended. {run.reason}")
        row = await store.runs.find(run_id)
        return (None if row is None else outcome_of_run(row)) or _outcome_of_ended(run)

    async def resume(self, scope: Scope, call_id: str) -> None:
        """Go on with the run that a call waits for, if it has not ended."""
        store = scope.store
        run_id = derive_run_id(call_id)
        row = None if store is None else await store.runs.find(run_id)
        if store is None or row is None:
            return
        if row.has_ended:  # its process may have died before it ended the call
            await scope.end_calls_that_follow_run(run_id)
            return
        await self._agent.open_driver(scope.base_scope or scope, store).resume(run_id)


def agent_tool_name(agent: str) -> str:
    """The name of the tool that runs an agent."""
    return f"{AGENT_TOOL_PREFIX}{agent}"


def build_agent_tool(agent: CallableAgent, description: str, parameters: ParametersLike) -> Tool[..., Any]:
    """The tool `agent__name`, with which other agents and programs call an agent."""
    name = agent_tool_name(agent.name)
    if name in RESERVED_NAMES:
        raise DefinitionError(f"{agent.name!r} cannot be the name of an agent: {name} is reserved.", fix="rename it.")
    if len(name) > MAX_WIRE_NAME_LENGTH:
        longest = MAX_WIRE_NAME_LENGTH - len(AGENT_TOOL_PREFIX)
        raise DefinitionError(f"The name {agent.name!r} is too long.", fix=f"use at most {longest} characters.")
    given = _PROMPT_SCHEMA if parameters is None else parameters
    # Repeatable: the same call is the same run, whose own calls are not made twice.
    plain = tool.provided(name, description, parameters=given, repeatable=True)
    handler = AgentHandler(agent, has_parameters=parameters is not None)
    return plain.evolve(kind="agent", handler=handler)


def find_agent_handler(scope: Scope, name: str) -> AgentHandler | None:
    """The handler of a tool that runs an agent; None for any other tool."""
    listing = scope.find(name)
    handler = None if listing is None else listing.tool.handler
    return handler if isinstance(handler, AgentHandler) else None


def _base_scope(call: Invocation) -> Scope:
    """The scope in which the agent runs: with the tools of the runtime, and not only those of the calling agent."""
    scope = cast("Scope", call.scope)
    return scope.base_scope or scope


async def _find_origin(store: Store, caller: Principal) -> RunOrigin:
    """The run that makes a call, with the agents above it and its own."""
    if caller.turn is None or caller.agent is None:
        return RunOrigin(caller.turn, ())
    row = await store.runs.find(caller.turn)
    # A run without a row is not stored, and only runs at the top are not.
    return RunOrigin(caller.turn, (caller.agent,) if row is None else RunOrigin.from_row(row).path)


def _describe_recursion(name: str, path: tuple[str, ...]) -> str:
    return (
        f"The agent {name} cannot be called here: it has called this agent itself ({' > '.join(path)}). "
        "Do the task without it, or report what is missing."
    )


def _outcome_of_ended(run: Run) -> Done | Failed:
    if run.status == "done":
        return Done(run.text if run.output is None else run.output)
    return Failed("limit_exceeded" if run.status == "stopped" else "failed", run.reason, executed=True)
