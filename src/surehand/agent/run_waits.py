"""What a run waits for: its own pending calls, and those of the runs below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from surehand.agent.run_origin import RunOrigin
from surehand.agent.run_state import RunState
from surehand.agent.steps import waiting_calls

if TYPE_CHECKING:
    from surehand.runtime.pending.pending_call import PendingCall
    from surehand.runtime.scope import Scope
    from surehand.store.store import Store


async def pending_calls_of_run(scope: Scope, state: RunState) -> list[PendingCall]:
    """The calls of a run, and of the runs that it waits for, that wait for an answer, each with the agents above it."""
    store = scope.store
    followed = set(_followed_calls(state))
    paths: dict[str | None, tuple[str, ...] | None] = {state.run_id: state.path, None: None}
    found: list[PendingCall] = []
    for pending in await scope.pending():
        if pending.turn not in paths:
            paths[pending.turn] = None if store is None else await _find_path(store, pending.turn, state.run_id)
        path = state.path if pending.call_id in followed else paths[pending.turn]
        if path is not None:
            found.append(replace(pending, path=path))
    return found


def _followed_calls(state: RunState) -> Iterator[str]:
    """The calls that calls of this run repeat; they may be calls of an earlier run of the session."""
    last = state.steps[-1:] if state.steps and state.steps[-1].runs_calls else []
    undecided = [call for step in last for call in step.calls if call.told is None]
    for call in (*waiting_calls(state.steps), *undecided):
        if call.follows is not None:
            yield call.follows


async def _find_path(store: Store, run_id: str | None, top: str) -> tuple[str, ...] | None:
    """The agents above a run, if calls of the run `top` started it, directly or by further runs."""
    path: tuple[str, ...] | None = None
    while run_id is not None and run_id != top:
        row = await store.runs.find(run_id)
        if row is None:
            return None
        origin = RunOrigin.from_row(row)
        path = path or origin.path
        run_id = origin.parent_run
    return path if run_id == top else None
