"""The runs that calls of a run have started: going on with them, and what they used."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from surehand.agent.run_state import RunState
from surehand.agent.steps import StepCall, waiting_calls
from surehand.agent.sub_agents import AgentHandler, find_agent_handler
from surehand.core.ids import derive_run_id

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope


async def resume_sub_runs(scope: Scope, state: RunState) -> None:
    """Go on with the runs that calls of this run wait for."""
    calls = list(_agent_calls(scope, _open_calls(state)))
    await asyncio.gather(*(handler.resume(scope, call_id) for handler, call_id in calls))


async def cancel_running_sub_runs(scope: Scope, state: RunState) -> None:
    """Cancel the calls of this run whose runs do not wait for anything that people have to do."""
    for _, call_id in _agent_calls(scope, _open_calls(state)):
        row = None if scope.store is None else await scope.store.runs.find(derive_run_id(call_id))
        if row is not None and row.state == "running":
            await scope.cancel(call_id)


async def count_sub_runs(scope: Scope, state: RunState) -> None:
    """Add what the runs have used until now that calls of this run started."""
    every_call = [call for step in state.steps if step.runs_calls for call in step.calls]
    for _, call_id in _agent_calls(scope, every_call):
        store = scope.store
        row = None if store is None else await store.runs.find(derive_run_id(call_id))
        if row is not None and row.spent:
            state.spent.sub_runs[row.run_id] = row.spent


def _open_calls(state: RunState) -> list[StepCall]:
    """The calls of a run that have not ended, as far as the run knows."""
    last = state.steps[-1]
    undecided = [call for call in last.calls if call.shown_outcome is None and last.runs_calls]
    return [*waiting_calls(state.steps), *undecided]


def _agent_calls(scope: Scope, calls: Iterable[StepCall]) -> Iterator[tuple[AgentHandler, str]]:
    """Those of the calls that run an agent."""
    for call in calls:
        handler = find_agent_handler(scope, call.name)
        if handler is not None and call.call_id is not None and call.follows is None:
            yield handler, call.call_id
