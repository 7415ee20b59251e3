"""Following calls: calls that wait for another call, or for a run of an agent, and end with what it comes to.

A repetition of a call that waits follows that call. A handler or provider that returns `Pending.for_run(run_id)` makes
its call follow a run. The process that ends a call or run ends its followers too; if it died before, the store
maintenance of any runtime does.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.core.call import Principal
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.durability.call_record import StoredOutcomes
from surehand.runtime.pending.answer import Answer
from surehand.runtime.pending.local_calls import LocalPendingCalls
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.serialization import deserialize_outcome
from surehand.store.tables.pending import PendingRound, PendingRow

if TYPE_CHECKING:
    from surehand.store.store import Store
    from surehand.store.tables.runs import RunRow

ApplyAnswer: TypeAlias = Callable[[PendingRow, PendingRound, Answer, Principal], Coroutine[Any, Any, Outcome | None]]
"""Applies an answer to a pending call: `CallResumer.apply_answer`."""


class FollowingCalls:
    """Ends the calls that wait for another call or a run."""

    def __init__(
        self, store: RuntimeStore, local: LocalPendingCalls, outcomes: StoredOutcomes, apply_answer: ApplyAnswer
    ) -> None:
        self._store = store
        self._local = local
        self._outcomes = outcomes
        self._apply_answer = apply_answer

    async def end_following_calls(self, call_id: str, outcome: Outcome | None = None) -> None:
        """End the calls that wait for this one with its outcome."""
        store = await self._store.open()
        followers = await store.pending.find_followers(call_id)
        call = await self._outcomes.find(call_id) if followers else None
        if call is None or call.outcome is None:
            return
        # A copy: each outcome belongs to one call.
        value = (
            deserialize_outcome(call.outcome) if outcome is None or isinstance(outcome, Pending) else outcome.evolve()
        )
        for follower in followers:
            outer = await store.pending.find(follower)
            if outer is None or outer.open_round is None or follower in self._local.answers_in_progress:
                continue
            await self._apply_answer(outer, outer.open_round, Answer("settle", value=value), Principal())

    async def end_calls_that_follow_run(self, run_id: str) -> None:
        """End the calls that wait for a run which has ended."""
        store = await self._store.open()
        followers = await store.pending.find_followers_of_run(run_id)
        run = await store.runs.find(run_id) if followers else None
        outcome = None if run is None else outcome_of_run(run)
        if outcome is None:
            return
        for call_id in followers:
            row = await store.pending.find(call_id)
            if row is None or row.open_round is None or call_id in self._local.answers_in_progress:
                continue
            # A copy: each outcome belongs to one call.
            await self._apply_answer(row, row.open_round, Answer("settle", value=outcome.evolve()), Principal())

    async def end_calls_that_follow_nothing(self, call_id: str) -> None:
        """End the calls that wait for a call which has not happened and will not run: they may be made again."""
        store = await self._store.open()
        for follower in await store.pending.find_followers(call_id):
            outer = await store.pending.find(follower)
            if outer is None or outer.open_round is None:
                continue
            tool = outer.call.tool
            problem = f"{tool} has not happened: call {call_id}, which this one followed, did not run. Call it again."
            failure = Failed("interrupted", problem)
            if outer.open_round.first_call_id is None:  # the handler has run, and waits for the other call's result
                problem = f"{tool} waited for call {call_id}, which did not run."
                failure = Failed("interrupted", problem, executed=True)
            await self._apply_answer(outer, outer.open_round, Answer("settle", value=failure), Principal())


async def find_followed_run(store: Store, run_id: str, viewer: Principal) -> RunRow | None:
    """The run that a call waits for; None if it is unknown, or belongs to another user or session."""
    run = await store.runs.find(run_id)
    if run is None or run.user != viewer.user or run.session != viewer.session:
        return None
    return run


def outcome_of_run(run: RunRow) -> Done | Failed | None:
    """What a call that waits for the run ends with: its `output` or else its `text`; None while the run goes on."""
    if not run.has_ended:
        return None
    text = run.report
    output = run.report
    if isinstance(run.report, Mapping):
        text = run.report.get("text")
        output = text if run.report.get("output") is None else run.report["output"]
    if run.state == "done":
        return Done(output)
    if run.is_cancelled:
        return Failed("cancelled", f"The run of {run.agent} was cancelled. {run.reason or ''}".rstrip(), executed=True)
    problem = run.reason or f"The run of {run.agent} was {run.state}."
    problem = f"{problem} Its last report: {text}" if text else problem
    return Failed("limit_exceeded" if run.state == "stopped" else "failed", problem, executed=True)
