"""A run of an agent, driven by hand: a scripted model, a step for each of its answers, and the calls of the step.

It uses the tables of runs and steps as a loop of an agent does, and records every request to the model.
"""

from __future__ import annotations

import asyncio
from typing import Any

from surehand import Failed, Outcome, Pending, Runtime
from surehand.core.ids import derive_call_id
from surehand.runtime.scope import Scope
from surehand.store.serialization import serialize_outcome
from surehand.store.store import Store
from surehand.store.tables.runs import ResumableRun, RunClaim
from tests.crash.run_log import RunLog
from tests.crash.tools import OwnTools

AGENT = "agnes"
ANSWERS = (
    (("pay", {"to": "ann"}), ("stamp", {"to": "bob"})),
    (("look_up", {"what": "tea"}), ("wire", {"to": "carl"})),
    (),
)
"""The calls that each answer of the model asks for; the last one ends the run."""
REPORT = "All is done."


async def find_free_runs(runtime: Runtime, *agents: str) -> list[ResumableRun]:
    """The runs that were answered or interrupted, and that no other process drives."""
    assert runtime.store is not None
    runs = runtime.store.runs
    return [*await runs.answered(agents), *await runs.interrupted(agents, owner=runtime.runtime_id)]


class RunDriver:
    """Drives the runs in a store, as far as they come without an answer of a person."""

    def __init__(self, runtime: Runtime, run_log: RunLog, own_tools: OwnTools) -> None:
        self._runtime = runtime
        self._run_log = run_log
        runtime.register_scope(AGENT, lambda scope: scope.scope(tools=own_tools[AGENT]))

    @property
    def _store(self) -> Store:
        assert self._runtime.store is not None
        return self._runtime.store

    async def drive_all(self) -> int:
        """Drive the runs that no other process drives; returns how many have not ended."""
        runs = [run.run_id for run in await self._store.runs.latest() if not run.has_ended]
        await self._drive_each(runs)
        return len(runs)

    async def drive_free(self) -> None:
        """Drive the runs that were answered or interrupted, unless another process drives them."""
        await self._drive_each([run.run_id for run in await find_free_runs(self._runtime, AGENT)])

    async def _drive_each(self, run_ids: list[str]) -> None:
        for run_id in run_ids:
            claim = await self._store.runs.claim(run_id, owner=self._runtime.runtime_id)
            if claim is not None:
                await self._drive(claim)

    async def _drive(self, claim: RunClaim) -> None:
        run_id = claim.run_id
        scope = self._runtime.scope(agent=AGENT, turn=run_id).named_scope(AGENT)
        steps = await self._store.steps.list(run_id)
        for index, calls in enumerate(ANSWERS):
            call_ids = [derive_call_id(run_id, index, position) for position in range(len(calls))]
            if index >= len(steps):
                await self._ask_model(claim, index)
                if not await self._store.steps.add(claim, index, {"calls": calls}, call_ids):
                    return
                outcomes: dict[str, Any] = {}
            else:
                outcomes = {call.call_id: call.outcome for call in steps[index].calls if call.outcome is not None}
            if not await self._make_calls(scope, claim, index, outcomes):
                return
        await self._store.runs.save(claim, "done", report={"text": REPORT})

    async def _ask_model(self, claim: RunClaim, index: int) -> None:
        messages = await self._store.runs.take_messages(claim, index)
        self._run_log.points.reach("before the request")
        contents = [message.content for message in messages or ()]
        kills = len(self._run_log.lines("kills"))
        self._run_log.note("requests", {"run_id": claim.run_id, "step": index, "messages": contents, "kills": kills})
        self._run_log.points.reach("after the request")

    async def _make_calls(self, scope: Scope, claim: RunClaim, index: int, outcomes: dict[str, Any]) -> bool:
        """Make the calls of a step that have no outcome; False, and the run waits, while one has none."""
        made = [(derive_call_id(claim.run_id, index, position), *call) for position, call in enumerate(ANSWERS[index])]
        open_calls = [each for each in made if each[0] not in outcomes]
        results = await asyncio.gather(*(scope.call(name, dict(args), call_id=id) for id, name, args in open_calls))
        ended = {
            call_id: serialize_outcome(outcome)  # type: ignore[arg-type]
            for (call_id, *_), outcome in zip(open_calls, results, strict=True)
            if _is_final(outcome)
        }
        if ended and not await self._store.steps.set_outcomes(claim, index, ended):
            return False
        if len(ended) < len(open_calls):
            await self._store.runs.save(claim, "waiting", reason="answers")
            return False
        return True


def _is_final(outcome: Outcome) -> bool:
    is_provisional = isinstance(outcome, Failed) and outcome.code in ("unknown_effect", "unavailable")
    return not isinstance(outcome, Pending) and not is_provisional
