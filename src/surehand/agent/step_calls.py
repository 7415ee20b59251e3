"""The calls of a step: makes them in parallel, and finds out what has become of those that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from surehand.agent.repeated_calls import find_repeated, outcome_of_repeated_call
from surehand.agent.steps import Step, StepCall, waiting_calls
from surehand.agent.sub_agents import find_agent_handler
from surehand.agent.time_limit import seconds_for_people
from surehand.core.call import Call
from surehand.core.ids import new_id
from surehand.core.outcome import Failed, Outcome, Pending

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope

TAKE_UP_SECONDS = 10.0
"""How long a resumed run waits for a process to take up an answered call; one that has been taken up has no limit."""
POLL_SECONDS = 0.25
"""How often a resumed run looks whether a call that it waits for is still being run."""


class StepCalls:
    """Makes the calls of one run."""

    def __init__(self, scope: Scope, *, derives_call_ids: bool) -> None:
        self._scope = scope
        self._derives_call_ids = derives_call_ids

    async def make(self, step: Step, steps: Sequence[Step]) -> float:
        """Make the calls whose outcome is not decided; afterwards each has one, or is pending.

        With derived ids, a call that was made before gives its stored outcome, or what it waits for. Returns how many
        seconds of this were spent waiting for people.

        Args:
            steps: all steps of the run, with this one as the last.
        """
        repeated = find_repeated(self._scope, steps, step)
        made: list[StepCall] = []
        calls: list[Call] = []
        for position, (call, model_call) in enumerate(zip(step.calls, step.answer.calls, strict=True)):
            if call.shown_outcome is not None:
                continue
            if position in repeated:
                await self._follow(call, repeated[position])
            elif call.call_id is not None and not self._derives_call_ids:
                await self._set_outcome(call, await self._scope.result(call.call_id, timeout=0))
            else:
                made.append(call)
                calls.append(Call(call.name, call.arguments, id=call.call_id, model_id=model_call.model_id))
        started_at = self._scope.clock.now()
        outcomes = await self._scope.call_many(calls)
        waited_seconds = seconds_for_people(outcomes, self._scope.clock.now() - started_at)
        for call, outcome in zip(made, outcomes, strict=True):
            await self._set_outcome(call, outcome)
        return waited_seconds

    async def _follow(self, call: StepCall, first: StepCall) -> None:
        call.call_id = call.call_id or new_id()
        outcome_of_first = await self._scope.result(first.call_id or "", timeout=0)
        outcome = outcome_of_repeated_call(call, first, outcome_of_first)
        if isinstance(outcome, Pending):
            call.pending = outcome
        else:
            call.shown_outcome = outcome

    async def _set_outcome(self, call: StepCall, outcome: Outcome) -> None:
        if call.call_id is None and find_agent_handler(self._scope, call.name) is not None:
            call.call_id = outcome.meta.call_id  # names the run of the agent
        if isinstance(outcome, Failed) and outcome.code == "unknown_effect" and call.call_id is not None:
            # A person, or the tool's own `verify`, finds out what has happened: until then the call waits.
            outcome = await self._question_about(call.call_id) or outcome
        if isinstance(outcome, Pending):
            call.pending = outcome
            call.call_id = call.call_id or outcome.call_id
        else:
            call.shown_outcome = outcome

    async def _question_about(self, call_id: str) -> Outcome | None:
        outcome = await self._scope.result(call_id, timeout=0)
        return outcome if isinstance(outcome, Pending) or outcome.ok else None

    async def find_outcome(self, call: StepCall) -> Outcome | None:
        """The outcome of a call that waited, if it has ended; one that turned out not to have happened is made now."""
        if call.call_id is None:
            return None
        outcome = await self._scope.result(call.follows or call.call_id, timeout=0)
        if isinstance(outcome, Pending) and call.follows is None and await self._has_not_happened(call.call_id):
            [outcome] = await self._scope.call_many([Call(call.name, call.arguments, id=call.call_id)])
        return None if isinstance(outcome, Pending) else outcome

    async def _has_not_happened(self, call_id: str) -> bool:
        """Whether a call waits for nothing any more: `verify` has found that its unknown effect has not happened."""
        status = await self._scope.status(call_id)
        return status is not None and status.state == "idle"

    async def wait_for_answered(self, steps: Sequence[Step]) -> None:
        """Wait for calls that were answered and are being taken up."""
        undecided = [call for call in steps[-1].calls if call.shown_outcome is None and steps[-1].runs_calls]
        ids = {call.follows or call.call_id for call in (*waiting_calls(steps), *undecided)}
        await asyncio.gather(*(self._wait_if_answered(call_id) for call_id in ids if call_id is not None))

    async def _wait_if_answered(self, call_id: str) -> None:
        started_at = self._scope.clock.now()
        while (status := await self._scope.status(call_id)) is not None and status.outcome is None:
            seconds = self._scope.clock.now() - started_at
            is_being_taken_up = status.state == "ready" and seconds < TAKE_UP_SECONDS
            if not is_being_taken_up and status.state not in ("taken", "running"):
                return
            # Not until its end: if the process that runs the call dies, a person has to find out what has happened.
            await self._scope.result(call_id, timeout=POLL_SECONDS)
